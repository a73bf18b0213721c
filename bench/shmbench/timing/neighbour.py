"""The neighbour of `--disturb`: another process that computes for a part of one core, as other programs do. It counts,
or it copies arrays that are longer than caches.

It computes for its share of each period, by its own CPU time, and sleeps for the rest of the period. It runs before the
ranks are started, so that a library that looks for free cores sees it, as it sees other programs. It has a session of
its own, because Linux divides cores among sessions first (autogroups), and other programs are in other sessions. The
kernel kills it when the process that started it ends, however that happens.

Its CPU time is not counted as load of others. The ranks know it by its process id.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle

from shmbench.cli.conditions import Neighbour

PERIOD = 0.01  # seconds
COPIED = 512 << 20  # bytes of each of its two arrays: more than the last-level caches of most machines
PIECE = 256 << 10  # bytes that it copies at a time, in some tens of microseconds
_READY = b"ready"


def start(neighbour: Neighbour) -> "subprocess.Popen[bytes]":
    """Start it, and return when it computes. Raises `OSError` if it does not start."""
    from shmcoll.engine.system.interpreter import flags, interpreter_environment

    core = "any" if neighbour.core is None else str(neighbour.core)
    process = subprocess.Popen(
        [
            sys.executable,
            *flags(),
            "-m",
            "shmbench.timing.neighbour",
            str(neighbour.duty),
            core,
            str(os.getpid()),
            "memory" if neighbour.memory else "cores",
        ],
        env=interpreter_environment(os.environ, sys.path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout
    with process.stdout as words:
        if words.read() != _READY:
            process.kill()
            raise OSError(f"--disturb {neighbour}: the neighbour ended with exit code {process.wait()}")
    return process


@contextmanager
def running(neighbour: Neighbour | None) -> Iterator[int | None]:
    """Have a neighbour for the time of the block, if there shall be one; the value is its process id. Raises what
    `start` does."""
    if neighbour is None:
        yield None
        return
    process = start(neighbour)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def seconds_used(pid: int) -> float:
    """Return the CPU time of the neighbour. Raises `RuntimeError` if it has ended, because then nothing disturbs."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, *numbers = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        state, numbers = b"Z", []
    if state in (b"Z", b"X"):
        raise RuntimeError(f"the neighbour of --disturb (process {pid}) has ended; measure again")
    return (int(numbers[10]) + int(numbers[11])) / os.sysconf("SC_CLK_TCK")


def main(duty: int, core: int | None, starter: int, what: str) -> None:
    """Be the neighbour, until the process `starter` ends. what: "memory" or "cores", of which it takes its part."""
    from shmcoll.startup.rank_process import die_with

    die_with(starter)
    if core is not None:
        os.sched_setaffinity(0, {core})
    compute = _copier() if what == "memory" else _count
    os.write(1, _READY)
    os.close(1)
    while True:
        _live_one_period(PERIOD * duty / 100, compute)


def _count() -> None:
    for _ in range(500):  # some microseconds, so that most of the time is computation and not system calls
        pass


def _copier() -> Callable[[], None]:
    """Return a function that copies the next piece of an array to another one."""
    source, target = (
        memoryview(bytearray(b"1") * COPIED) for _ in range(2)
    )  # written: fresh pages are all the same one
    pieces = cycle(range(0, COPIED, PIECE))

    def copy() -> None:
        begin = next(pieces)
        target[begin : begin + PIECE] = source[begin : begin + PIECE]

    return copy


def _live_one_period(work: float, compute: Callable[[], None]) -> None:
    """Compute for `work` seconds of CPU time, and sleep for the rest. Others may have had the core meanwhile: then the
    period is longer."""
    began, used = time.monotonic(), time.thread_time()
    while time.thread_time() - used < work:
        compute()
    time.sleep(max(0.0, began + PERIOD - time.monotonic()))


if __name__ == "__main__":
    main(int(sys.argv[1]), None if sys.argv[2] == "any" else int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
