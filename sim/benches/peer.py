"""The first model of events.rs in SimPy: processes that wait an exponential time again and again.

    pip install simpy && python3 peer.py
"""

import random
import time

import simpy

EVENTS = 200_000


def process(env, rng):
    while True:
        yield env.timeout(rng.expovariate(1.0))


for processes in (10, 100, 1000, 10_000, 100_000):
    rng = random.Random(1)
    env = simpy.Environment()
    for _ in range(processes):
        env.process(process(env, rng))
    for _ in range(processes):
        env.step()  # each process's start
    begin = time.perf_counter()
    for _ in range(EVENTS):
        env.step()
    each = (time.perf_counter() - begin) / EVENTS * 1e9
    print(f"processes that wait {processes:>10} {EVENTS:>10} {each:>12.0f} ns per event")
