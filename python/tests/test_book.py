"""The book's programs in Python: they run, and print what those in C do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import TREE, program
from test_c import library_folder

PROGRAMS = TREE / "docs/programs"
BEST = "64 points; stiffness 2.5 with damping 2.00 settles after 4.03 s\n"


def environment(folder: Path) -> dict[str, str]:
    """That of a user, with a folder for the daemons' files."""
    return {key: value for key, value in os.environ.items() if key != "PVMSOCK"} | {"PVM_TMP": str(folder)}


def run(folder: Path, words: list[str], name: str, *arguments: str | Path) -> str:
    """What a program prints under ``pvm run``."""
    command = [program("pvm"), "run", *words, sys.executable, PROGRAMS / name, *arguments]
    done = subprocess.run(
        command, env=environment(folder), cwd=folder, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "words", "arguments", "said"),
    [
        ("sweep.py", ["--hosts", "2"], [], BEST),
        ("robust.py", ["--hosts", "2"], [], BEST),
        ("executor.py", ["--hosts", "2"], [], BEST),
        ("queue.py", [], ["3", "/bin/true"], "3 done, 0 failed, 0 cancelled\n"),
    ],
)
def test_programs_print_what_those_in_c_do(name, words, arguments, said, tmp_path):
    assert run(tmp_path, words, name, *arguments) == said


def test_four_workers_greet(tmp_path):
    lines = run(tmp_path, ["--hosts", "3"], "hello.py").splitlines()
    assert len(set(lines)) == 4 and all(line.startswith("hello from t") for line in lines), lines


def test_copies_add_up(tmp_path):
    [line] = run(tmp_path, ["-n", "3"], "group.py").splitlines()
    assert line.endswith("] pi is 3.141593, by 3 tasks"), line


def test_a_worker_in_c_adds_up(tmp_path):
    library = library_folder()
    worker = tmp_path / "mixed_worker"
    (tmp_path / "libpvm3.so.3").symlink_to(library / "libpvm3.so")
    options = ["-Wall", "-Werror", f"-I{TREE / 'libpvm/c/include'}", tmp_path / "libpvm3.so.3", f"-Wl,-rpath,{tmp_path}"]
    subprocess.run(["cc", "-o", worker, PROGRAMS / "mixed_worker.c", *options], check=True)
    assert run(tmp_path, [], "mixed.py", worker) == "sum 4.5\n"


def workers(folder: Path) -> list[int]:
    """The processes that are workers of the run in this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_worker = b"pvm._function" in (process / "cmdline").read_bytes()
            if is_worker and str(folder).encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def test_the_farm_survives_a_dead_worker(tmp_path):
    command = [program("pvm"), "run", "--hosts", "2", sys.executable, PROGRAMS / "robust.py", "4e-5"]
    running = subprocess.Popen(command, env=environment(tmp_path), cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while len(alive := workers(tmp_path)) < 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    # Each has a point by then, and the farm works for some seconds more.
    time.sleep(0.3)
    os.kill(alive[0], signal.SIGKILL)
    said, _ = running.communicate(timeout=100)
    [lost, best] = said.splitlines()
    assert lost.startswith("a worker is lost; point "), said
    assert best.startswith("64 points; stiffness 2.5 with damping 2.00 settles"), said


def test_every_program_is_tried_and_has_types(tmp_path):
    names = {path.name for path in PROGRAMS.glob("*.py")}
    assert names == {f"{name}.py" for name in ["executor", "group", "hello", "mixed", "queue", "robust", "sweep"]}
    pytest.importorskip("mypy")
    command = ["mypy", "--config-file", TREE / "python/pyproject.toml", *sorted(PROGRAMS.glob("*.py"))]
    checked = subprocess.run([sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert checked.returncode == 0, checked.stdout + checked.stderr
