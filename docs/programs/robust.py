import itertools
import sys

import pvm

WORKERS, WORK, RESULT, LOST = 4, 1, 2, 3
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


# ANCHOR: parent
class Sweep:
    """The parent: the points that no worker has, the point that each worker has, and the results."""

    def __init__(self, task: pvm.Task, step: float) -> None:
        self.task, self.step = task, step
        self.waiting = list(reversed(GRID))
        self.workers: dict[int, tuple[float, float] | None] = {}
        self.times: dict[tuple[float, float], float] = {}

    def start(self, count: int) -> None:
        """Starts workers, asks for a notice of the exit of each, and gives each a point."""
        workers = self.task.spawn_function(work, self.step, count=count).tids
        for worker in workers:
            self.give(worker)
        self.task.notify_exit(workers, LOST)

    def give(self, worker: int) -> None:
        """Gives a worker a point that no other worker has, or tells it to exit."""
        self.workers[worker] = self.waiting.pop() if self.waiting else None
        self.task.send(worker, self.workers[worker], WORK)

    def supervise(self) -> None:
        """Takes results and notices until every point has a result."""
        self.start(WORKERS)
        while len(self.times) < len(GRID):
            message = self.task.recv_message()
            if message.tag == RESULT:
                time, point = message.object()
                self.times[point] = time
                self.give(message.source)
            elif (lost := self.workers.pop(message.tid())) is not None:
                print(f"a worker is lost; point {GRID.index(lost)} is computed again")
                self.waiting.append(lost)
                self.start(1)
# ANCHOR_END: parent


def main() -> None:
    """Sweeps, and prints the best."""
    step = float(sys.argv[1]) if len(sys.argv) > 1 else 1e-3
    with pvm.enroll() as task:
        sweep = Sweep(task, step)
        sweep.supervise()
    time, (stiffness, damping) = min((time, point) for point, time in sweep.times.items())
    print(f"{len(GRID)} points; stiffness {stiffness} with damping {damping:.2f} settles after {time:.2f} s")


if __name__ == "__main__":
    main()
