"""A parameter sweep: a damped oscillator for many values of two parameters, by workers on all hosts of the virtual machine.

    pvm run --hosts 3 python3 farm.py
"""

from __future__ import annotations

import itertools
import math

import pvm


def settling_time(parameters: tuple[float, float]) -> tuple[float, float, float]:
    """The time until an oscillation of this stiffness and damping is below 1 %, by small steps."""
    stiffness, damping = parameters
    position, speed, last, step = 1.0, 0.0, 0.0, 1e-3
    for number in range(20_000):
        speed += step * (-stiffness * position - damping * speed)
        position += step * speed
        if abs(position) > 0.01:
            last = number * step
    return stiffness, damping, last


def main() -> None:
    """Sweeps, and prints the best."""
    grid = list(itertools.product([0.5 * n for n in range(1, 9)], [0.25 * n for n in range(1, 9)]))
    with pvm.Executor(max_workers=4, restarts=2) as executor:
        results = list(executor.map(settling_time, grid, chunksize=4))
    stiffness, damping, best = min(results, key=lambda result: result[2])
    print(f"{len(results)} oscillators; stiffness {stiffness} with damping {damping} settles after {best:.2f} s")
    assert math.isfinite(best)


if __name__ == "__main__":
    main()
