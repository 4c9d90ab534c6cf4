"""A task that runs a function of its parent's program: ``python -m pvm._function``, which ``Task.spawn_function`` spawns."""

from __future__ import annotations

import pvm

from . import _children


def main() -> None:
    """Calls the function that the parent sends."""
    with pvm.enroll() as task:
        parent = task.parent()
        if parent is None:
            raise SystemExit("pvm._function is started by Task.spawn_function")
        call: _children.Call = task.recv(parent, _children.CALL_TAG)
        call.run(task)


if __name__ == "__main__":
    main()
