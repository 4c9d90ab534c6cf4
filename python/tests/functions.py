"""Functions that tasks and workers of the tests run."""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy

import pvm


def sum_up(task: pvm.Task, factor: int) -> None:
    """Receives arrays and sends their sums back."""
    parent = task.parent()
    values = numpy.zeros(10_000)
    count = task.recv_into(values, parent)
    task.send(parent, factor * values[:count].sum(), 2)


def in_group(task: pvm.Task, count: int) -> None:
    """A member of a group that uses all of it."""
    group = task.group("workers")
    group.join()
    group.barrier(count)
    instance = group.instance_of(task.tid)
    values = numpy.array([instance, 1.0, -instance])
    group.reduce(values, tag=3)
    least = numpy.array([instance], "i4")
    group.reduce(least, "min", tag=4)
    share = numpy.zeros(2, "i8")
    group.scatter(share, numpy.arange(2 * count) if instance == 0 else None, tag=5)
    gathered = group.gather(share, tag=6)
    group.barrier()
    if instance == 0:
        assert gathered is not None
        group.broadcast({"from": "root"}, 9)
        said = (values.tolist(), least.tolist(), list(gathered), group.size(), len(group.members()))
        task.send(task.parent(), said, 7)
    else:
        assert gathered is None and task.recv(group.tid(0), 9) == {"from": "root"}
    group.barrier()
    group.leave()


def square(x: float) -> float:
    """A call."""
    return x * x


def pid(_: object = None) -> int:
    """The worker."""
    time.sleep(0.05)
    return os.getpid()


def fail(text: str) -> None:
    """A call that fails."""
    raise KeyError(text)


class Odd(Exception):
    """An exception that pickles and does not unpickle."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__("odd")


def fail_oddly() -> None:
    """A call whose exception cannot be brought back."""
    raise Odd(1, 2)


def die(marker: str | None = None) -> str:
    """A call during which its worker dies: once, if there is a marker."""
    if marker is not None and os.path.exists(marker):
        return "at last"
    if marker is not None:
        open(marker, "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


def leave(status: int) -> None:
    """A call that ends its process."""
    sys.exit(status)


STATE: list[int] = []


def begin(value: int) -> None:
    """An initializer."""
    STATE.append(value)


def begun() -> list[int]:
    """What it did."""
    return STATE


def refuse() -> None:
    """An initializer that fails."""
    raise RuntimeError("no worker today")


def make(size: int) -> numpy.ndarray:
    """A large result."""
    return numpy.arange(size)


def add(x: int, y: int) -> int:
    """A call with two arguments."""
    return x + y


def sleep(seconds: float) -> float:
    """A call that takes time."""
    time.sleep(seconds)
    return seconds
