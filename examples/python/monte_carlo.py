"""Pi by a Monte Carlo method with dynamic workers: as one ends, whether well or not, another starts, until the error is small.

    pvm run --hosts 3 python3 monte_carlo.py
"""

from __future__ import annotations

import math
import random

import pvm

RESULT, ENDED = 1, 2
WORKERS = 3
POINTS = 100_000


def worker(task: pvm.Task, seed: int) -> None:
    """Counts random points in the quarter circle, and sometimes dies before it has."""
    dice = random.Random(seed)
    if dice.random() < 0.2:
        raise SystemExit(1)
    inside = sum(math.hypot(dice.random(), dice.random()) < 1 for _ in range(POINTS))
    parent = task.parent()
    assert parent is not None
    task.send(parent, inside, RESULT)


def main() -> None:
    """Keeps workers going until the estimate is good enough."""
    with pvm.enroll() as task:
        inside = results = started = running = 0
        error = math.inf
        while error > 0.002 or running:
            while error > 0.002 and running < WORKERS:
                [tid] = task.spawn_function(worker, started)
                task.notify_exit([tid], ENDED)
                started, running = started + 1, running + 1
            message = task.recv_message()
            if message.tag == ENDED:
                running -= 1
            else:
                inside, results = inside + message.object(), results + 1
                share = inside / (results * POINTS)
                error = 4 * math.sqrt(share * (1 - share) / (results * POINTS))
        print(f"pi is {4 * share:.3f} ± {error:.3f}, after {started} workers, of which {started - results} died")


if __name__ == "__main__":
    main()
