"""What an executor and its workers say to each other."""

from __future__ import annotations

SETUP, ITEM, STOP, RESULT, READY, ENDED = range(1, 7)
"""Tags of messages between an executor and its workers."""

OK, RAISED = range(2)
"""What became of an item."""


class RemoteTraceback(Exception):
    """The traceback of an exception that a worker has raised: its cause in the executor's process."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'
