"""A task, with the calls whose many options are keywords, and with spawns of Python's own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from . import _children, _pvm

if TYPE_CHECKING:
    from typing import Unpack

StrPath = str | os.PathLike[str]


class Place(TypedDict, total=False):
    """Where tasks are placed, and what they inherit: options of every spawn."""

    where: str | None
    """Only on the host of this name; ``"."`` is this task's own."""
    arch: str | None
    """Only on hosts of this architecture."""
    others: bool
    """On all hosts except those chosen by ``where`` or ``arch``."""
    directory: str | os.PathLike[str] | None
    """In this directory."""
    env: Mapping[str, str] | None
    """With these variables in the environment."""
    policy: str | None
    """Placed by the policy of this name instead of the machine's."""
    traffic: Iterable[tuple[int, int, int]]
    """How much tasks talk to each other, for the policy ``graph-theoretic``: the numbers of two tasks, from 0, and an amount in any unit."""
    team: str | None
    """As members of this team: tasks that want to run at the same time."""
    debug: bool
    """Under the debugger."""
    without_parent: bool
    """Without telling the tasks their parent."""
    tied: bool
    """Ending when the host of this task is lost: they get SIGTERM. Without it they go on."""


def _terms(program: StrPath, args: Sequence[str], count: int, place: Place) -> dict[str, object]:
    """What the library is asked. An option that it does not have is an error here."""
    if isinstance(args, (str, bytes)):
        raise TypeError("args is a sequence of arguments, not one string")
    unknown = place.keys() - Place.__annotations__.keys()
    if unknown:
        raise TypeError(f"spawn has no option {', '.join(sorted(unknown))}")
    directory = place.get("directory")
    return {
        "program": os.fspath(program),
        "args": [os.fspath(arg) for arg in args],
        "count": count,
        "host": place.get("where"),
        "arch": place.get("arch"),
        "others": place.get("others", False),
        "directory": None if directory is None else os.fspath(directory),
        "env": dict(place.get("env") or {}),
        "policy": place.get("policy"),
        "traffic": list(place.get("traffic", ())),
        "team": place.get("team"),
        "debug": place.get("debug", False),
        "without_parent": place.get("without_parent", False),
        "tied": place.get("tied", False),
    }


class Task(_pvm.Task):
    """This process as a task of the virtual machine."""

    def spawn(
        self, program: StrPath, args: Sequence[str] = (), *, count: int = 1, **place: Unpack[Place]
    ) -> _pvm.Spawned:
        """Starts ``count`` copies of a program, by default on whichever hosts have room, and returns their ids.

        A program without a slash is looked up on the daemons' search path. If some tasks cannot be started, ``Spawned.failed`` and
        ``Spawned.reasons`` say so; if none can, it is an exception. ``Place`` has the options.
        """
        return self._spawn(_terms(program, args, count, place))

    def spawn_module(
        self, module: str, args: Sequence[str] = (), *, count: int = 1, **place: Unpack[Place]
    ) -> _pvm.Spawned:
        """Starts a module as ``python -m module`` does, with this program's interpreter."""
        return self.spawn(sys.executable, ["-m", module, *args], count=count, **place)

    def spawn_function(
        self, function: Callable[..., object], *args: object, count: int = 1, **place: Unpack[Place]
    ) -> _pvm.Spawned:
        """Starts tasks that call ``function(task, *args)``, each with its own task, and then exit.

        The function is pickled by its name. If it is in the program's main module, each task runs that file once more, under the
        name ``__mp_main__``, as those of ``multiprocessing`` do: it needs ``if __name__ == "__main__":``.
        """
        if place.get("without_parent"):
            raise TypeError("a function's task gets its arguments from its parent, which it has to know")
        call = _children.Call(_children.main_module(), function, args)
        spawned = self.spawn_module("pvm._function", count=count, **place)
        for tid in spawned:
            self.send(tid, call, _children.CALL_TAG)
        return spawned

    def queue(
        self,
        program: StrPath,
        args: Sequence[str] = (),
        *,
        count: int = 1,
        notices: int | None = None,
        restarts: int = 0,
        **place: Unpack[Place],
    ) -> int:
        """Queues a batch of tasks, which start as hosts have free slots, and returns its id at once.

        With ``notices`` this task gets messages with that tag (``Message.batch_event``) about each start and end, which it has to
        receive: while 1024 wait, no more tasks start. A task that fails is started again up to ``restarts`` times.
        """
        return self._queue(_terms(program, args, count, place), notices, restarts)


def enroll(name: str | None = None) -> Task:
    """Makes this process a task of the virtual machine whose daemon runs on this host; ``name`` is for lists of tasks."""
    return Task(name)
