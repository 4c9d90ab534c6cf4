"""A virtual machine of this tree's daemon for the tests, in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import pvm

TREE = Path(__file__).resolve().parents[2]


def program(name: str) -> Path:
    """A program of this tree: in ``PVM_TEST_BIN``, or as cargo has built it."""
    folder = Path(os.environ.get("PVM_TEST_BIN") or TREE / "target/debug")
    path = folder / name
    assert path.is_file(), f"{path} is missing: cargo build -p pvm-console -p pvmd -p pvm-task-manager"
    return path


@pytest.fixture(scope="session", autouse=True)
def machine() -> Iterator[Path]:
    """The folder of a virtual machine of this host, where its tasks run."""
    with tempfile.TemporaryDirectory(prefix="pvm-python-") as folder:
        for name in [name for name in os.environ if name.startswith("PVM") and not name.startswith("PVM_TEST_")]:
            del os.environ[name]
        os.environ["PVM_TMP"] = folder
        # Tasks find the module where the tests have it, and functions of the tests.
        os.environ["PYTHONPATH"] = str(Path(__file__).parent)
        daemon = subprocess.Popen(
            [program("pvmd"), "-nlocalhost"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        assert daemon.stdout is not None
        os.environ["PVMSOCK"] = daemon.stdout.readline().strip()
        try:
            yield Path(folder)
        finally:
            daemon.terminate()
            daemon.wait(20)
            daemon.stdout.close()


@pytest.fixture
def task() -> Iterator[pvm.Task]:
    """A task of the virtual machine."""
    with pvm.enroll() as task:
        yield task
