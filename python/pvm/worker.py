"""A worker of an executor: ``python -m pvm.worker``, which ``pvm.Executor`` spawns."""

from __future__ import annotations

import traceback
import pvm

from . import _children
from ._protocol import OK, RAISED, READY, RESULT, SETUP, STOP

def packed(number: int, outcome: int, value: object) -> pvm.Packer:
    """What became of an item, if that pickles."""
    return pvm.Packer().int([number, outcome]).object(value)


def failure(number: int, error: BaseException) -> pvm.Packer:
    """An exception of an item with its traceback, or what it says if it does not pickle."""
    text = "".join(traceback.format_exception(error))
    try:
        return packed(number, RAISED, (error, text))
    except Exception:
        return packed(number, RAISED, (RuntimeError(f"{type(error).__qualname__}: {error}"), text))


def outcome(number: int, message: pvm.Message) -> pvm.Packer:
    """Runs an item."""
    try:
        function, args, options = message.object()
        value = function(*args, **options)
        return packed(number, OK, value)
    except Exception as error:
        return failure(number, error)


def serve(task: pvm.Task, executor: int) -> None:
    """Runs items until the executor has no more."""
    call: _children.Call = task.recv(executor, SETUP)
    call.run()
    task.send(executor, None, READY)
    while True:
        message = task.recv_message()
        if message.tag == STOP:
            return
        task.send_packed(executor, outcome(message.int(), message), RESULT)


def main() -> None:
    """The program."""
    with pvm.enroll() as task:
        executor = task.parent()
        if executor is None:
            raise SystemExit("pvm.worker is started by pvm.Executor")
        # The executor's end is the worker's, also while this waits: the daemon's notice has the tag of the executor's own message.
        task.notify_exit([executor], STOP)
        serve(task, executor)


if __name__ == "__main__":
    main()
