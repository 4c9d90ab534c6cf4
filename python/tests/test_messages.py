"""Messages between tasks, of every kind, to this task itself and to others."""

from __future__ import annotations

import numpy
import pytest

import pvm


@pytest.fixture
def task():
    with pvm.enroll() as task:
        yield task


VALUES = [None, 7, "text", [1, (2.5, {"a": b"\0"})], {"x": numpy.arange(5)}, b"", "x" * 100_000]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: str(type(value).__name__))
def test_objects_arrive_as_they_were_sent(task, value):
    task.send(task.tid, value, tag=5)
    got = task.recv(task.tid, 5, timeout=10)
    numpy.testing.assert_equal(got, value)
