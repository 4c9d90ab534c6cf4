"""Spawned tasks, groups, notices, the mailbox, batches and the machine."""

from __future__ import annotations

import os
import signal
import sys

import functions
import numpy
import pytest

import pvm


def test_functions_run_as_tasks(task):
    workers = task.spawn_function(functions.sum_up, 2, count=3)
    assert len(workers) == 3 and list(workers) == workers.tids and not workers.failed
    task.notify_exit(workers.tids, 99)
    for worker in workers:
        task.send_buffer(worker, numpy.arange(100.0))
    assert sorted(task.recv(worker, 2, timeout=60) for worker in workers) == [9900.0] * 3
    ended = {task.recv_message(tag=99, timeout=60).tid() for _ in workers}
    assert ended == set(workers) and not any(task.is_running(worker) for worker in workers)


def test_groups_meet_and_compute(task):
    count = 3
    task.spawn_function(functions.in_group, count, count=count)
    values, least, gathered, size, members = task.recv(tag=7, timeout=60)
    assert values == [3.0, 3.0, -3.0] and least == [0] and gathered == list(range(6)) and (size, members) == (3, 3)
    group = task.group("mine")
    for call in [group.leave, group.barrier, lambda: group.reduce(numpy.zeros(1))]:
        with pytest.raises((pvm.PvmNotInGroup, pvm.PvmNoGroup)):
            call()
    assert group.join() == 0
    with pytest.raises(pvm.PvmDupGroup):
        group.join()
    with pytest.raises(ValueError, match="combines nothing"):
        group.reduce(numpy.zeros(1), "mean")
    with pytest.raises(BufferError):
        group.reduce(b"bytes")
    with pytest.raises(pvm.PvmBadParam, match="different types"):
        group.scatter(numpy.zeros(1), numpy.zeros(1, "i4"))
    group.leave()


def test_spawns_that_fail_say_why(task):
    with pytest.raises(pvm.PvmNoFile, match="no-such-program"):
        task.spawn("no-such-program", count=2)
    with pytest.raises(pvm.PvmNoHost):
        task.spawn(sys.executable, where="nowhere.invalid")
    for count in [0, -1]:
        with pytest.raises(pvm.PvmBadParam):
            task.spawn(sys.executable, count=count)
    for wrong in [lambda: task.spawn(sys.executable, "-c"), lambda: task.spawn(sys.executable, wher="."),
                  lambda: task.spawn(sys.executable, count="2"), lambda: task.spawn(5),
                  lambda: task.spawn_function(functions.pid, without_parent=True)]:  # fmt: skip
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(Exception, match="pickle"):
        task.spawn_function(lambda task: None)


def test_tasks_get_arguments_environment_and_signals(task, tmp_path):
    code = "import os, sys, pvm, time; t = pvm.enroll(); t.send(t.parent(), (sys.argv[1:], os.environ['WORD'], os.getcwd())); time.sleep(60)"
    [worker] = task.spawn(
        sys.executable, ["-c", code, "a b", ""], where=".", env={"WORD": "x=y"}, directory=tmp_path, team="ours"
    )
    assert task.recv(worker, timeout=60) == (["a b", ""], "x=y", str(tmp_path))
    [info] = task.tasks(worker)
    assert info.tid == worker and info.parent == task.tid and info.pid > 0
    task.notify_exit([worker], 5)
    task.signal(worker, signal.SIGKILL)
    assert task.recv_message(tag=5, timeout=60).tid() == worker
    for wrong in [lambda: task.signal(worker, 0), lambda: task.kill(2**33)]:
        with pytest.raises(ValueError):
            wrong()


def test_batches_tell_what_becomes_of_their_tasks(task):
    batch = task.queue(sys.executable, ["-c", "import sys; sys.exit(0)"], count=4, notices=8)
    kinds = []
    while "done" not in kinds:
        event = task.recv_message(tag=8, timeout=60).batch_event()
        assert event.batch == batch
        kinds.append(event.kind)
    assert event.totals == (4, 0, 0) and sorted(kinds) == ["done"] + ["ended"] * 4 + ["started"] * 4
    failing = task.queue(sys.executable, ["-c", "import sys; sys.exit(3)"], notices=9, restarts=1)
    events = []
    while not events or events[-1].kind != "done":
        events.append(task.recv_message(tag=9, timeout=60).batch_event())
    assert [event.kind for event in events].count("again") == 1 and events[-1].totals == (0, 1, 0)
    assert any(event.status and os.waitstatus_to_exitcode(event.status) == 3 for event in events)
    assert {record.id for record in task.batches()} >= {batch, failing}
    with pytest.raises(pvm.PvmError):
        task.cancel_batch(12345)
    with pytest.raises(pvm.PvmBadParam):
        task.queue(sys.executable, notices=-1)


def test_the_mailbox_keeps_objects_and_packed_values(task):
    task.put_info("object", {"a": numpy.arange(3)})
    numpy.testing.assert_array_equal(task.recv_info("object").object()["a"], [0, 1, 2])
    indices = [task.put_info("many", pvm.Packer().int(n), multi=True) for n in (5, 6)]
    assert [task.recv_info("many", index).int() for index in indices] == [5, 6]
    assert ("many", indices) in task.mailbox_info("man")
    task.delete_info("object")
    with pytest.raises(pvm.PvmNotFound):
        task.recv_info("object")
    with pytest.raises(pvm.PvmBadParam):
        task.put_info("", 1)


def test_hosts_are_added_and_removed(task):
    [first] = task.hosts()
    assert first.name == "localhost" and task.host_status("localhost") == "running"
    assert task.host_status("nowhere") == "unknown"
    task.notify_host_add(21)
    [added, failed] = task.add_hosts(["node1 via=local", "nowhere.invalid"])
    assert isinstance(added, pvm.Host) and added.name == "node1" and added in task.hosts()
    assert isinstance(failed, pvm.HostFailure) and failed.code == failed.code and failed.name == "nowhere.invalid"
    notice = task.recv_message(tag=21, timeout=60)
    assert (notice.int(), notice.tid()) == (1, added.tid)
    task.notify_host_delete([added.tid], 22)
    workers = task.spawn_function(functions.sum_up, 1, where="node1", count=2)
    for worker in workers:
        task.send_buffer(worker, numpy.ones(5000))
        assert task.recv(worker, 2, timeout=60) == 5000
    assert task.delete_hosts(["node1"]) == [None]
    assert task.recv_message(tag=22, timeout=60).tid() == added.tid
    [missing] = task.delete_hosts(["node1"])
    assert missing.name == "node1" and missing.code == pvm.PvmNoHost.code
