"""What tasks are sent that run functions of their parent's program."""

from __future__ import annotations

import multiprocessing.spawn
import pickle
from collections.abc import Callable
from typing import Any

CALL_TAG = 2**31 - 2
"""The tag of a ``Call``, which no other message should have."""

_OF_PROCESSES = ("authkey", "dir", "log_level", "log_to_stderr", "name", "orig_dir", "start_method")


def main_module() -> dict[str, Any]:
    """What another process needs in order to find this one's modules, the main one included."""
    data: dict[str, Any] = multiprocessing.spawn.get_preparation_data("pvm")
    return {name: value for name, value in data.items() if name not in _OF_PROCESSES}


def load_main_module(found: dict[str, Any]) -> None:
    """Makes this process find them."""
    multiprocessing.spawn.prepare(found)


class Call:
    """A function with its arguments, unpickled only after its module can be found."""

    def __init__(
        self, main: dict[str, Any], function: Callable[..., object] | None, args: tuple[object, ...]
    ) -> None:
        self.main = main
        self.pickled = pickle.dumps((function, args), protocol=5)

    def run(self, *first: object) -> None:
        """Calls the function, if there is one, with these arguments before its own."""
        load_main_module(self.main)
        function, args = pickle.loads(self.pickled)
        if function is not None:
            function(*first, *args)
