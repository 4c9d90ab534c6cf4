import array

import pvm

SLICES = 1_000_000

with pvm.enroll() as task:
    size = len(task.siblings())  # all copies that were started together
    group = task.group("pi")
    rank = group.join()  # 0, 1, … in the order of joining
    group.barrier(size)  # all are members
    heights = (4 / (1 + ((slice + 0.5) / SLICES) ** 2) for slice in range(rank, SLICES, size))
    total = array.array("d", [sum(heights) / SLICES])
    group.reduce(total, "sum")
    if rank == 0:
        print(f"pi is {total[0]:.6f}, by {size} tasks")
    group.barrier(size)  # nobody leaves before the sum is complete
    group.leave()
