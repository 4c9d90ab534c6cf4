import itertools

import pvm


def settling_time(point: tuple[float, float]) -> float:
    """Time in seconds until an oscillation is below 1 %, by small steps."""
    (stiffness, damping), step = point, 1e-3
    position, speed, last = 1.0, 0.0, 0.0
    for n in range(round(20 / step)):
        speed += step * (-stiffness * position - damping * speed)
        position += step * speed
        if abs(position) > 0.01:
            last = n * step
    return last


if __name__ == "__main__":
    grid = list(itertools.product([0.5 * n for n in range(1, 9)], [0.25 * n for n in range(1, 9)]))
    with pvm.Executor(max_workers=4, restarts=2) as executor:
        times = list(executor.map(settling_time, grid, chunksize=4))
    time, (stiffness, damping) = min(zip(times, grid, strict=True))
    print(f"{len(times)} points; stiffness {stiffness} with damping {damping:.2f} settles after {time:.2f} s")
