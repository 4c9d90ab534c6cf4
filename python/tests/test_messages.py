"""Messages of every kind, sent by this task to itself."""

from __future__ import annotations

import os
import threading
import time
from signal import SIGALRM, ITIMER_REAL, setitimer, signal

import numpy
import pytest

import pvm

TYPES = {
    "byte": "B", "short": "h", "ushort": "H", "int": "i", "uint": "I", "long": "l", "ulong": "L", "float": "f", "double": "d"
}  # fmt: skip
VALUES = [
    None, 7, "text", [1, (2.5, {"a": b"\0"})], b"", "x" * 100_000,
    {"x": numpy.arange(5)}, numpy.arange(300_001, dtype="u1"), [numpy.ones((3, 4)), numpy.asfortranarray(numpy.eye(3))],
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_objects_arrive_as_they_were_sent(task, value):
    task.send(task.tid, value, tag=5)
    numpy.testing.assert_equal(task.recv(task.tid, 5, timeout=10), value)


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("count", [0, 1, 3, 5000, 200_001])
def test_arrays_of_every_type_arrive(task, raw, count):
    for name, letter in TYPES.items():
        values = (numpy.arange(count) % 120).astype(letter)
        packer = pvm.Packer(raw=raw)
        getattr(packer, name)(values)
        task.send_packed(task.tid, packer)
        message = task.recv_message(timeout=10)
        view = getattr(message, name)(count)
        assert view.format == letter
        numpy.testing.assert_array_equal(numpy.asarray(view), values)
        message.rewind()
        room = numpy.zeros(count, letter)
        assert message.into(room) is room
        numpy.testing.assert_array_equal(room, values)
        task.send_packed(task.tid, packer)
        more = numpy.full(count + 5, 9, letter)
        got = task.recv_into(more, timeout=10)
        if letter != "B" or raw:
            assert got == count
            numpy.testing.assert_array_equal(more[count:], 9)
        numpy.testing.assert_array_equal(more[:count], values)


def test_single_values_and_sequences_mix(task):
    packer = pvm.Packer().int(3).double([1, 2.5]).str("four").long(2**40).object({"five": 5}).byte(b"six")
    task.send_packed(task.tid, packer, 9)
    message = task.recv_message(tag=9, timeout=10)
    assert (message.source, message.tag, len(message)) == (task.tid, 9, len(packer))
    assert message.int() == 3 and message.double(2).tolist() == [1.0, 2.5] and message.str() == "four"
    assert message.long() == 2**40 and message.object() == {"five": 5} and bytes(message.byte(3)) == b"six"
    with pytest.raises(pvm.PvmNoData):
        message.int()


def test_parts_of_arrays_and_complex_numbers_travel(task):
    whole = numpy.arange(40_000, dtype=float).reshape(200, 200)
    for part in [whole[::2, 1::3], whole.T, whole[:, 0], numpy.array([1 + 2j, 3 - 4j])]:
        task.send_buffer(task.tid, part)
        room = numpy.zeros_like(part, order="C")
        task.recv_into(room, timeout=10)
        numpy.testing.assert_array_equal(room, part)
        task.send_buffer(task.tid, part)
        if not numpy.iscomplexobj(part):
            wide = numpy.zeros((*part.shape, 2))
            task.recv_into(wide[..., 0], timeout=10)
            numpy.testing.assert_array_equal(wide[..., 0], part)
            assert not wide[..., 1].any()
        else:
            task.recv_message(timeout=10)


def test_nothing_is_lost_by_a_wrong_receive(task):
    task.send_packed(task.tid, pvm.Packer().int(5), 1)
    with pytest.raises(pvm.PvmBadMsg) as caught:
        task.recv(timeout=10)
    assert caught.value.message.int() == 5
    task.send_buffer(task.tid, numpy.arange(10.0))
    with pytest.raises(pvm.PvmOverflow, match="10 elements.*room for 4") as caught:
        task.recv_into(numpy.zeros(4), timeout=10)
    assert caught.value.message.double(10)[9] == 9
    task.send_buffer(task.tid, b"here")
    for unusable in [b"read-only", numpy.zeros(3, bool), numpy.zeros(3, ">f8"), "text", None]:
        with pytest.raises((BufferError, TypeError)):
            task.recv_into(unusable, timeout=10)
    assert bytes(task.recv_message(timeout=10).byte(4)) == b"here"


def test_wrong_arguments_have_clear_errors(task):
    me = task.tid
    for bad in [lambda: task.send(me, 1, -5), lambda: task.send(0, 1), lambda: task.send_packed(me, pvm.Packer(), -1)]:
        with pytest.raises(pvm.PvmBadParam):
            bad()
    for bad in [lambda: task.send(2**40, 1), lambda: task.recv(tag=-7), lambda: task.recv(timeout=-1.0),
                lambda: task.recv(timeout=float("nan")), lambda: task.set_routing("by pigeon")]:  # fmt: skip
        with pytest.raises(ValueError):
            bad()
    for bad in [lambda: task.send("me", 1), lambda: task.send_buffer(me, 5), lambda: task.send_buffer(me, numpy.zeros(2, "f2")),
                lambda: pvm.Packer().int("12"), lambda: pvm.Packer().int(1.5), lambda: pvm.Packer().str(5)]:  # fmt: skip
        with pytest.raises(TypeError):
            bad()
    with pytest.raises(OverflowError):
        pvm.Packer().int([1, 2**31])
    with pytest.raises(Exception, match="pickle"):
        task.send(me, lambda: None)
    task.send(me, 1)
    message = task.recv_message(timeout=10)
    for count in [2**40, 10_000_000]:
        with pytest.raises(pvm.PvmNoData):
            message.double(count)
    assert message.object() == 1


def test_broken_pickles_are_refused_without_their_memory(task):
    mark = b"PVMpkl5\0"
    huge = (2**62).to_bytes(8, "little")
    two = (2).to_bytes(8, "little")
    for body in [mark, mark + huge, mark + bytes(8) + huge, mark + two + two + huge + huge + b"N.xx", mark + b"\xff" * 40]:
        task.send_buffer(task.tid, body)
        with pytest.raises((pvm.PvmBadMsg, pvm.PvmNoData)) as caught:
            task.recv(timeout=10)
        assert bytes(caught.value.message.byte(8)) == mark


def test_a_wait_ends_in_time(task):
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        task.recv(timeout=0.3)
    assert 0.25 < time.monotonic() - begun < 5
    with pytest.raises(TimeoutError):
        task.recv_message(timeout=0)
    assert task.probe() is None
    task.send(task.tid, 1, 3)
    while (there := task.probe(tag=3)) is None:
        assert time.monotonic() - begun < 10
    assert task.probe(tag=4) is None and there.object() == 1 and task.recv(tag=3, timeout=10) == 1


def test_a_signal_interrupts_a_wait_and_its_handler_may_use_the_task(task):
    class Interrupted(Exception):
        pass

    def handle(*_):
        task.send(task.tid, "from the handler", 8)
        raise Interrupted

    before = signal(SIGALRM, handle)
    try:
        setitimer(ITIMER_REAL, 0.2)
        with pytest.raises(Interrupted):
            task.recv(tag=77)
    finally:
        signal(SIGALRM, before)
    assert task.recv(tag=8, timeout=10) == "from the handler"


def test_other_threads_run_meanwhile_and_one_at_a_time_has_the_task(task):
    seen, refused, steps = [], 0, 0

    def wait():
        with pytest.raises(TimeoutError):
            seen.append(task.recv(tag=50, timeout=1))

    thread = threading.Thread(target=wait)
    task.send(task.tid, "you", 51)
    thread.start()
    while thread.is_alive():
        steps += 1
        try:
            task.recv(tag=51, timeout=0)
        except (RuntimeError, TimeoutError) as error:
            refused += "another thread" in str(error)
        time.sleep(0.001)
    assert steps > 50 and refused > 50 and not seen
    assert task.tid


def test_a_forked_child_cannot_use_the_task_and_its_end_is_not_the_parents(task):
    parent = task.tid
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with pytest.raises(pvm.PvmSysErr, match="forked"):
                task.send(parent, 1)
            with pvm.enroll() as own:
                own.send(own.tid, 5)
                status = 0 if own.recv(timeout=10) == 5 and own.tid != parent else 2
            del task
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    task.send(task.tid, "still here")
    assert task.recv(timeout=10) == "still here"


def test_a_task_that_has_left_says_so():
    task = pvm.enroll("a name")
    message_of = task.tid
    assert [info.name for info in task.tasks(message_of)] == ["a name"]
    task.exit()
    task.exit()
    with pytest.raises(RuntimeError, match="left"):
        task.send(message_of, 1)
    assert "left" in repr(task)


def test_errors_have_pvms_names_and_codes():
    assert issubclass(pvm.PvmNoHost, pvm.PvmError) and pvm.PvmNoHost.code == -6 and pvm.PvmNoHost.__module__ == "pvm"
    assert len({pvm.__dict__[name].code for name in pvm.__all__ if name.startswith("Pvm")}) == 33
    before = os.environ.pop("PVMSOCK"), os.environ.pop("PVM_TMP")
    os.environ["PVM_TMP"] = "/nonexistent"
    try:
        with pytest.raises(pvm.PvmSysErr):
            pvm.enroll()
    finally:
        os.environ["PVMSOCK"], os.environ["PVM_TMP"] = before


def test_contexts_keep_messages_apart(task):
    context = task.new_context()
    task.send(task.tid, "outside")
    task.context = context
    with pytest.raises(TimeoutError):
        task.recv(timeout=0.1)
    task.context = 0
    assert task.recv(timeout=10) == "outside"
    task.free_context(context)
