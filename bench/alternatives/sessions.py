"""Processes that take turns on few cores and yield to each other, in one session or in one each.

    python bench/alternatives/sessions.py [-n 32] [--quick]

In a round each writes its word and waits until all have; who waits yields its core. See
`launcher/shmrun/start/foreground.py`.
"""

import argparse
import mmap
import os
import time


def rounds(processes: int, times: int, *, apart: bool) -> tuple[float, float]:
    """Microseconds a round, and yields a process and round."""
    memory = mmap.mmap(-1, mmap.PAGESIZE * (processes + 1))
    words = memoryview(memory).cast("q")
    stride = mmap.PAGESIZE // 8
    children = []
    for me in range(processes):
        pid = os.fork()
        if pid == 0:
            if apart:
                os.setsid()
            wait(words, processes, stride, me, 1)
            begin = time.perf_counter_ns()
            yields = sum(wait(words, processes, stride, me, number) for number in range(2, times + 2))
            words[me * stride + 1] = time.perf_counter_ns() - begin
            words[me * stride + 2] = yields
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)
    took = max(words[me * stride + 1] for me in range(processes)) / times / 1000
    yields = sum(words[me * stride + 2] for me in range(processes)) / times / processes
    return took, yields


def wait(words: memoryview, processes: int, stride: int, me: int, number: int) -> int:
    """One round; returns how often it had to yield."""
    words[me * stride] = number
    yields = 0
    for peer in range(processes - 1, -1, -1):
        while words[peer * stride] < number:
            os.sched_yield()
            yields += 1
    return yields


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, help="processes (16 a core)")
    parser.add_argument("--quick", action="store_true", help="a few rounds, to see that it works")
    wanted = parser.parse_args()
    processes = wanted.n or 16 * len(os.sched_getaffinity(0))
    for _ in range(1 if wanted.quick else 3):
        for apart in (False, True):
            took, yields = rounds(processes, 20 if wanted.quick else 500, apart=apart)
            how = "a session each" if apart else "one session   "
            print(f"{processes} processes, {how}: {took:8.1f} us a round, {yields:5.2f} yields each")


if __name__ == "__main__":
    main()
