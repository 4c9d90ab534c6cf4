import itertools
import sys

import pvm

WORKERS, WORK, RESULT = 4, 1, 2
GRID = list(itertools.product([0.5 * n for n in range(1, 9)], [0.25 * n for n in range(1, 9)]))


def settling_time(point: tuple[float, float], step: float) -> float:
    """Time in seconds until an oscillation is below 1 %, by small steps."""
    stiffness, damping = point
    position, speed, last = 1.0, 0.0, 0.0
    for n in range(round(20 / step)):
        speed += step * (-stiffness * position - damping * speed)
        position += step * speed
        if abs(position) > 0.01:
            last = n * step
    return last


def work(task: pvm.Task, step: float) -> None:
    """A worker: answers each point with its result, until there is none."""
    parent = task.parent()
    assert parent is not None
    while (point := task.recv(parent, WORK)) is not None:
        task.send(parent, (settling_time(point, step), point), RESULT)


def main() -> None:
    """The parent: each worker has one point at a time, and gets the next one for its result."""
    step = float(sys.argv[1]) if len(sys.argv) > 1 else 1e-3
    with pvm.enroll() as task:
        points = iter(GRID)
        for worker in task.spawn_function(work, step, count=WORKERS):
            task.send(worker, next(points), WORK)
        results = []
        for _ in GRID:
            message = task.recv_message(tag=RESULT)
            results.append(message.object())
            task.send(message.source, next(points, None), WORK)
    time, (stiffness, damping) = min(results)
    print(f"{len(results)} points; stiffness {stiffness} with damping {damping:.2f} settles after {time:.2f} s")


if __name__ == "__main__":
    main()
