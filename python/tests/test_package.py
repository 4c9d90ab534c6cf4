"""The package as a user has it: its stubs say what is there, the examples run as they say, and every class has a text."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys

import pytest
from conftest import TREE, program

import pvm

EXAMPLES = TREE / "examples/python"


@pytest.mark.parametrize(
    ("name", "said"), [("farm.py", "64 oscillators; stiffness 2.5 with damping 2.0"), ("monte_carlo.py", "pi is 3.1")]
)
def test_examples_run_by_pvm_run(name, said, tmp_path):
    environment = {key: value for key, value in os.environ.items() if key not in ("PVMSOCK", "PVM_TMP")}
    command = [program("pvm"), "run", "--hosts", "2", sys.executable, EXAMPLES / name]
    done = subprocess.run(
        command, env=environment | {"PVM_TMP": str(tmp_path)}, cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0 and said in done.stdout, done.stderr
    assert "Warning" not in done.stderr


def test_stubs_say_what_is_there(tmp_path):
    pytest.importorskip("mypy")
    configuration = TREE / "python/pyproject.toml"
    for command in [
        ["mypy.stubtest", "pvm", "--ignore-missing-stub", "--mypy-config-file", str(configuration)],
        ["mypy", "--config-file", str(configuration), "-p", "pvm"],
        ["mypy", "--config-file", str(configuration), *map(str, EXAMPLES.glob("*.py"))],
    ]:
        checked = subprocess.run(
            [sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, text=True, timeout=100
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_everything_has_a_text():
    for name in pvm.__all__:
        value = getattr(pvm, name)
        if inspect.isclass(value):
            assert value.__doc__, name
            for member, method in inspect.getmembers(value, callable):
                if not member.startswith("_") and not issubclass(value, BaseException):
                    assert method.__doc__, f"{name}.{member}"
