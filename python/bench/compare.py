"""Compares this package with mpi4py on this host, by turns in one run, and prints a table.

    python3 compare.py [--rounds N] [--quick]

It needs mpi4py and numpy, `mpirun` of Open MPI, and `pvm` on PATH (or `--pvm`). Each round starts both systems anew; the table has the median
of the rounds. A bandwidth counts the bytes of one direction. A spawn of PVM is one task that has enrolled; one of mpi4py is
`MPI.COMM_SELF.Spawn` of one process that has connected. Build the package and the daemon with `--release` for figures.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

HERE = Path(__file__).resolve()
SIZES = [1 << 10, 64 << 10, 1 << 20, 16 << 20]
VALUE = {"number": 7, "name": "seven"}


def median_time(act: Callable[[], Any], count: int) -> float:
    """Seconds of one call, the median of some batches of them."""
    act()
    batches = []
    for _ in range(5):
        begun = time.perf_counter()
        for _ in range(count):
            act()
        batches.append((time.perf_counter() - begun) / count)
    return statistics.median(batches)


class OfPvm:
    """The operations in PVM."""

    def __init__(self) -> None:
        import pvm

        self.task = pvm.enroll()
        self.parent = self.task.parent()
        self.peer = self.parent or 0

    def start(self) -> None:
        [self.peer] = self.task.spawn(sys.executable, [str(HERE), "--role", "pvm"])

    def send(self, value: Any) -> None:
        self.task.send(self.peer, value)

    def recv(self) -> Any:
        return self.task.recv(self.peer)

    def send_array(self, array: Any) -> None:
        self.task.send_buffer(self.peer, array)

    def recv_array(self, array: Any) -> None:
        self.task.recv_into(array, self.peer)

    def spawn(self) -> None:
        [child] = self.task.spawn(sys.executable, [str(HERE), "--role", "pvm", "--child"])
        self.task.recv(child)

    def end(self) -> None:
        self.task.exit()


class OfMpi:
    """The operations in MPI."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self.mpi = MPI
        self.world = MPI.COMM_WORLD
        self.parent = self.world.rank == 1
        self.peer = 1 - self.world.rank

    def start(self) -> None:
        pass

    def send(self, value: Any) -> None:
        self.world.send(value, self.peer)

    def recv(self) -> Any:
        return self.world.recv(source=self.peer)

    def send_array(self, array: Any) -> None:
        self.world.Send(array, self.peer)

    def recv_array(self, array: Any) -> None:
        self.world.Recv(array, source=self.peer)

    def spawn(self) -> None:
        child = self.mpi.COMM_SELF.Spawn(sys.executable, [str(HERE), "--role", "mpi", "--child"])
        child.recv(source=0)
        child.Disconnect()

    def end(self) -> None:
        pass


def measure(system: OfPvm | OfMpi, quick: bool) -> dict[str, float]:
    """The figures of one round."""
    count = 200 if quick else 2000
    results = {}

    def exchange_value() -> None:
        system.send(VALUE)
        system.recv()

    system.start()
    results["pickled value, half a round trip, µs"] = median_time(exchange_value, count) * 5e5
    for size in [8, *SIZES]:
        array = numpy.ones(size // 8)

        def exchange_array(array: Any = array) -> None:
            system.send_array(array)
            system.recv_array(array)

        system.send(size)
        repeats = max(5, min(count, (64 << 20) // size // (10 if quick else 1)))
        system.send(5 * repeats + 1)
        half = median_time(exchange_array, repeats) / 2
        if size == 8:
            results["8 bytes, half a round trip, µs"] = half * 1e6
        else:
            results[f"array of {size >> 10} KiB, MB/s"] = size / half / 1e6
    system.send(0)
    results["spawn of one process, ms"] = median_time(system.spawn, 1 if quick else 4) * 1e3
    return results


def answer(system: OfPvm | OfMpi) -> None:
    """The other side."""
    while isinstance(value := system.recv(), dict):
        system.send(value)
    while value:
        array = numpy.zeros(value // 8)
        for _ in range(system.recv()):
            system.recv_array(array)
            system.send_array(array)
        value = system.recv()


def role(name: str, is_child: bool, quick: bool) -> None:
    """One process of a round."""
    if is_child and name == "mpi":
        from mpi4py import MPI

        parent = MPI.Comm.Get_parent()
        parent.send("here", 0)
        parent.Disconnect()
        return
    system = OfPvm() if name == "pvm" else OfMpi()
    if is_child:
        system.send("here")
    elif system.parent:
        answer(system)
    else:
        print(json.dumps(measure(system, quick)), flush=True)
    system.end()


def run_round(name: str, pvm: str, quick: bool) -> dict[str, float]:
    """Starts a system anew and measures."""
    own = [sys.executable, str(HERE), "--role", name, *(["--quick"] if quick else [])]
    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2"]
    with tempfile.TemporaryDirectory() as folder:
        environment = {key: value for key, value in os.environ.items() if key not in ("PVMSOCK",)} | {"PVM_TMP": folder}
        command = [pvm, "run", *own] if name == "pvm" else mpirun + own
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
    line = next(line for line in done.stdout.splitlines() if line.startswith("{"))
    figures: dict[str, float] = json.loads(line)
    return figures


def main() -> None:
    """Runs rounds by turns, or is a process of one."""
    parser = argparse.ArgumentParser(description="Compares pvm with mpi4py.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="few repetitions, to see that it works")
    parser.add_argument("--pvm", default="pvm", help="the command pvm")
    parser.add_argument("--role", choices=["pvm", "mpi"], help=argparse.SUPPRESS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        role(options.role, options.child, options.quick)
        return
    rounds: dict[str, list[dict[str, float]]] = {"pvm": [], "mpi": []}
    for number in range(options.rounds):
        for name in ["pvm", "mpi"] if number % 2 == 0 else ["mpi", "pvm"]:
            rounds[name].append(run_round(name, options.pvm, options.quick))
    print("| | pvm | mpi4py |\n|---|---:|---:|")
    for what in rounds["pvm"][0]:
        ours, theirs = (statistics.median(figures[what] for figures in rounds[name]) for name in ("pvm", "mpi"))
        print(f"| {what} | {ours:.4g} | {theirs:.4g} |")


if __name__ == "__main__":
    main()
