"""An executor whose workers are tasks of the virtual machine: ``concurrent.futures`` on many hosts."""

from __future__ import annotations

import itertools
import os
import select
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor as _Executor, Future
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from . import _children, _pvm
from ._protocol import ENDED, ITEM, OK, READY, RESULT, SETUP, STOP, RemoteTraceback
from .task import Place, Task, enroll

P = ParamSpec("P")
T = TypeVar("T")

_LOOK = 1.0
"""Seconds after which a dispatcher sees whether its executor is still there."""


class WorkerLost(BrokenExecutor):
    """The worker that ran a call has ended, or its host is gone, as often as the executor restarts calls. Other calls go on."""


@dataclass
class _Item:
    """A call."""

    number: int
    call: tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]]
    future: Future[Any]
    restarts: int


@dataclass
class _Shared:
    """What threads that submit and the dispatcher share."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    pending: deque[_Item] = field(default_factory=deque)
    is_shut: bool = False
    broken: str | None = None
    pipe: tuple[int, int] = field(default_factory=os.pipe)
    is_woken: bool = False

    def wake(self) -> None:
        """Has the dispatcher look; the caller holds the lock."""
        if not self.is_woken:
            self.is_woken = True
            os.write(self.pipe[1], b"\0")

    def quiet(self) -> None:
        """The dispatcher looks."""
        with self.lock:
            if self.is_woken:
                os.read(self.pipe[0], 1)
                self.is_woken = False


class Executor(_Executor):
    """Runs calls on workers, which are tasks of the virtual machine, as ``concurrent.futures.Executor`` says.

    Workers start as there is work, up to ``max_workers`` (by default as many as this host has cores, for each host). Each runs one
    call at a time, in a process of its own, which ends with the executor. Functions, arguments and results are pickled; functions of the
    main module need ``if __name__ == "__main__":`` around what the program does, as with processes.

    If a worker dies, its call is started again on another one, up to ``restarts`` times; then its future raises ``WorkerLost``.
    Other calls go on. If a worker fails before its first call, as when ``initializer`` raises, all calls raise ``BrokenExecutor``.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        *,
        restarts: int = 0,
        place: Place | None = None,
    ) -> None:
        if max_workers is not None and max_workers < 1:
            raise ValueError("max_workers must be at least 1")
        if restarts < 0:
            raise ValueError("restarts must not be negative")
        task = enroll("pvm.Executor")
        try:
            if max_workers is None:
                max_workers = len(task.hosts()) * (os.cpu_count() or 1)
            setup = _children.Call(_children.main_module(), initializer, initargs)
        except BaseException:
            task.exit()
            raise
        self._shared = _Shared()
        self._numbers = itertools.count(1)
        self._restarts = restarts
        self._max_workers = max_workers
        dispatcher = _Dispatcher(task, self._shared, weakref.ref(self), max_workers, setup, place or Place())
        self._thread = threading.Thread(target=dispatcher.run, name="pvm.Executor")
        self._thread.start()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Has a worker call ``fn(*args, **kwargs)``."""
        future: Future[T] = Future()
        shared = self._shared
        with shared.lock:
            if shared.broken is not None:
                raise BrokenExecutor(shared.broken)
            if shared.is_shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            shared.pending.append(_Item(next(self._numbers), (fn, args, kwargs), future, self._restarts))
            shared.wake()
        return future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[T]:
        """As ``concurrent.futures.Executor.map``; ``chunksize`` calls go to a worker at once."""
        if chunksize < 1:
            raise ValueError("chunksize must be at least 1")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout)
        chunks = _chunks(zip(*iterables), chunksize)
        results = super().map(_call_all, itertools.repeat(fn), chunks, timeout=timeout)
        return itertools.chain.from_iterable(results)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more calls. Workers end when those that were taken are done; with ``cancel_futures`` those that have not started are not."""
        shared = self._shared
        with shared.lock:
            shared.is_shut = True
            cancelled = list(shared.pending) if cancel_futures else []
            if cancel_futures:
                shared.pending.clear()
            if self._thread.is_alive():
                shared.wake()
        for item in cancelled:
            item.future.cancel()
            item.future.set_running_or_notify_cancel()
        if wait:
            self._thread.join()


def _chunks(items: Iterator[tuple[Any, ...]], size: int) -> Iterator[list[tuple[Any, ...]]]:
    while chunk := list(itertools.islice(items, size)):
        yield chunk


def _call_all(function: Callable[..., T], calls: list[tuple[Any, ...]]) -> list[T]:
    return [function(*args) for args in calls]


class _Dispatcher:
    """The thread that has the executor's task: it starts workers, hands calls to them and takes their results."""

    def __init__(
        self,
        task: Task,
        shared: _Shared,
        executor: weakref.ref[Executor],
        max_workers: int,
        setup: _children.Call,
        place: Place,
    ) -> None:
        self.task = task
        self.shared = shared
        self.executor = executor
        self.max_workers = max_workers
        self.setup = setup
        self.place = place
        self.starting: set[int] = set()
        self.idle: deque[int] = deque()
        self.running: dict[int, _Item] = {}

    def run(self) -> None:
        """Serves until the executor is shut down or gone, and nothing is left to do."""
        try:
            while not self.is_done():
                self.start_workers()
                self.hand_out()
                self.wait()
            for worker in [*self.starting, *self.idle]:
                self.task.send(worker, None, STOP)
        except BaseException as error:
            self.fail_all(f"the executor cannot go on: {error}")
        finally:
            self.close()

    def is_done(self) -> bool:
        """Whether nothing is to be done any more. The end of the program or of the executor is a shutdown, too."""
        with self.shared.lock:
            if self.executor() is None or not threading.main_thread().is_alive():
                self.shared.is_shut = True
            return self.shared.is_shut and not self.shared.pending and not self.running

    def close(self) -> None:
        """Leaves the machine, which ends workers that are left."""
        try:
            self.task.exit()
        except _pvm.PvmError:
            pass
        with self.shared.lock:
            self.shared.is_woken = True
            for end in self.shared.pipe:
                os.close(end)

    def start_workers(self) -> None:
        """Spawns workers for calls that have none."""
        with self.shared.lock:
            waiting = len(self.shared.pending)
        there = len(self.starting) + len(self.idle) + len(self.running)
        count = min(waiting - len(self.idle) - len(self.starting), self.max_workers - there)
        if count <= 0:
            return
        try:
            spawned = self.task.spawn_module("pvm.worker", count=count, **self.place)
        except _pvm.PvmError as error:
            if there == 0:
                self.fail_all(f"no worker can be started: {error}")
            return
        self.task.notify_exit(list(spawned), ENDED)
        for worker in spawned:
            self.task.send(worker, self.setup, SETUP)
            self.starting.add(worker)

    def hand_out(self) -> None:
        """Gives calls to workers that have none."""
        while self.idle:
            with self.shared.lock:
                if not self.shared.pending:
                    return
                item = self.shared.pending.popleft()
            if not item.future.running() and not item.future.set_running_or_notify_cancel():
                continue
            try:
                packer = _pvm.Packer().int(item.number).object(item.call)
            except Exception as error:
                item.future.set_exception(error)
                continue
            worker = self.idle.popleft()
            self.running[worker] = item
            self.task.send_packed(worker, packer, ITEM)

    def wait(self) -> None:
        """Waits for a message or a call, and takes in what has come."""
        select.select([self.shared.pipe[0], *self.task.filenos()], [], [], _LOOK)
        self.shared.quiet()
        while True:
            try:
                message = self.task.recv_message(timeout=0)
            except TimeoutError:
                return
            self.take(message)

    def take(self, message: _pvm.Message) -> None:
        """Takes a message in."""
        if message.tag == READY and message.source in self.starting:
            self.starting.remove(message.source)
            self.idle.append(message.source)
        elif message.tag == RESULT and message.source in self.running:
            item = self.running.pop(message.source)
            self.idle.append(message.source)
            settle(item, message)
        elif message.tag == ENDED:
            self.lose(message.tid())

    def lose(self, worker: int) -> None:
        """A worker has ended."""
        if worker in self.starting:
            self.starting.remove(worker)
            self.fail_all("a worker ended before its first call: its output has the reason")
        elif worker in self.idle:
            self.idle.remove(worker)
        elif (item := self.running.pop(worker, None)) is not None:
            if item.restarts == 0:
                item.future.set_exception(WorkerLost(f"the worker {_pvm.tid_text(worker)} ended during the call"))
                return
            item.restarts -= 1
            with self.shared.lock:
                self.shared.pending.appendleft(item)

    def fail_all(self, text: str) -> None:
        """Ends all calls with an error; no more are taken."""
        with self.shared.lock:
            self.shared.broken = self.shared.broken or text
            self.shared.is_shut = True
            items = [*self.shared.pending, *self.running.values()]
            self.shared.pending.clear()
        self.running.clear()
        for item in items:
            if item.future.running() or item.future.set_running_or_notify_cancel():
                item.future.set_exception(BrokenExecutor(text))


def settle(item: _Item, message: _pvm.Message) -> None:
    """Gives a future its result, or the exception of the call with its traceback."""
    try:
        _, outcome = message.int(2)
        value = message.object()
    except Exception as error:
        item.future.set_exception(error)
        return
    if outcome == OK:
        item.future.set_result(value)
        return
    raised, text = value
    raised.__cause__ = RemoteTraceback(text)
    item.future.set_exception(raised)
