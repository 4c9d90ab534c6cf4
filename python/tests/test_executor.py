"""The executor, with workers that fail and that die."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from concurrent.futures import BrokenExecutor, CancelledError, wait

import functions
import numpy
import pytest

import pvm


def test_calls_run_in_tasks_and_their_results_come_back():
    with pvm.Executor(2) as executor:
        assert executor.submit(functions.add, 2, y=3).result(60) == 5
        assert list(executor.map(functions.square, range(50))) == [x * x for x in range(50)]
        assert list(executor.map(functions.add, range(10), range(10), chunksize=4)) == [2 * x for x in range(10)]
        assert 1 <= len(set(executor.map(functions.pid, range(8)))) <= 2
        numpy.testing.assert_array_equal(executor.submit(functions.make, 300_000).result(60), numpy.arange(300_000))
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(functions.pid)


def test_exceptions_come_back_with_their_traceback():
    with pvm.Executor(1) as executor:
        with pytest.raises(KeyError, match="the key") as caught:
            executor.submit(functions.fail, "the key").result(60)
        assert "raise KeyError(text)" in str(caught.value.__cause__) and "functions.py" in str(caught.value.__cause__)
        for future in [executor.submit(functions.fail_oddly), executor.submit(lambda: 1), executor.submit(functions.leave, 0)]:
            with pytest.raises(Exception):
                future.result(60)
        assert executor.submit(functions.square, 3).result(60) == 9


def test_a_worker_that_dies_costs_its_call_and_no_other(tmp_path):
    with pvm.Executor(2) as executor:
        lost = executor.submit(functions.die)
        others = [executor.submit(functions.square, x) for x in range(20)]
        with pytest.raises(pvm.WorkerLost):
            lost.result(60)
        assert [future.result(60) for future in others] == [x * x for x in range(20)]
    assert issubclass(pvm.WorkerLost, BrokenExecutor)
    with pvm.Executor(1, restarts=1) as executor:
        assert executor.submit(functions.die, str(tmp_path / "died")).result(60) == "at last"
        with pytest.raises(pvm.WorkerLost):
            executor.submit(functions.die).result(60)


def test_an_initializer_runs_first_and_its_failure_breaks_the_executor():
    with pvm.Executor(1, functions.begin, (7,)) as executor:
        assert executor.submit(functions.begun).result(60) == [7]
    with pvm.Executor(1, functions.refuse) as executor:
        with pytest.raises(BrokenExecutor, match="before its first call"):
            executor.submit(functions.square, 1).result(60)
        with pytest.raises(BrokenExecutor):
            executor.submit(functions.square, 1)


def test_shutdown_can_cancel_what_has_not_started():
    executor = pvm.Executor(1)
    futures = [executor.submit(functions.sleep, 0.3) for _ in range(6)]
    futures[5].cancel()
    futures[0].result(60)
    executor.shutdown(cancel_futures=True)
    assert wait(futures, 60).not_done == set()
    assert sum(future.cancelled() for future in futures) >= 3
    with pytest.raises(CancelledError):
        futures[5].result()


def test_wrong_arguments_and_places():
    for bad in [{"max_workers": 0}, {"restarts": -1}]:
        with pytest.raises(ValueError):
            pvm.Executor(**bad)
    with pvm.Executor(1, place={"where": "nowhere.invalid"}) as executor:
        with pytest.raises(BrokenExecutor, match="no worker can be started"):
            executor.submit(functions.pid).result(60)


def test_workers_end_with_their_executor_and_programs_without_a_shutdown_end(tmp_path, task):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import pvm

        def cube(x):
            return x ** 3

        if __name__ == "__main__":
            executor = pvm.Executor(1)
            print(executor.submit(cube, 3).result())
        """)
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("27\n", "", 0)
    end = time.monotonic() + 20
    while any("python" in info.name for info in task.tasks()):
        assert time.monotonic() < end, task.tasks()
        time.sleep(0.1)
