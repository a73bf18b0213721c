"""A job hangs: within 5 s one table says where each rank is, in which operation, and who keeps whom waiting.

Asked for by Ctrl-\\, from outside by `shmrun inspect --stacks`, and unasked when the limit of a wait is over.
"""

import re
import signal
import time
from itertools import product
from typing import Any

import pytest

from tests.support.waiting import until

pytestmark = pytest.mark.stress

SIZES = (2, 8)
SOON = 5.0  # seconds
LIMIT = 1.5  # seconds of a wait, where nobody asks

#: what rank 1 does while the others wait for it in a collective
HANGS = {
    "sleeps": "time.sleep(600)",
    "keeps the interpreter to itself": "while True: ctypes.PyDLL(None).usleep(200_000)",
    "computes": "while True: pass",
    "waits for a lock": "lock = threading.Lock(); lock.acquire(); lock.acquire()",
    "is stopped": "os.kill(os.getpid(), signal.SIGSTOP)",
    "waits for a message": "comm.recv()",  # from one rank, it would be a `Deadlock`
    "waits for a group to be made": "comm.subgroup([0, 1])",
    "waits in another group": "pair.barrier()",
}

JOB = """
    import ctypes, os, signal, threading, time
    import numpy as np
    import shmcoll

    comm = shmcoll.init()
    pair = comm.split(comm.rank // 2)
    comm.all_reduce(np.ones(4))  # compiles, where need be
    open(f"ready{{comm.rank}}", "w").close()
    if comm.rank == 1:
        {hang}
    comm.all_reduce(np.ones(4))
"""


class Hanging:
    """A job that hangs in one of these ways."""

    def __init__(self, shmrun: Any, hang: str, n: int, *options: Any):
        self.hang, self.n, self._shmrun = hang, n, shmrun
        for file in shmrun.folder.iterdir():
            file.unlink()
        self.job = shmrun.start("-n", n, "--grace", 0.2, *options, shmrun.write(JOB.format(hang=HANGS[hang])))
        until(lambda: len(list(shmrun.folder.glob("ready*"))) == n)
        self.begun = time.monotonic()

    def table(self) -> str:
        """What the launcher says, up to the sentence that ends the table."""
        lines: list[str] = []
        while not lines or not lines[-1].startswith(("Rank ", "Ranks ", "No rank ")):
            lines.append(self.job.stderr.readline())
            assert lines[-1], f"rank 1 {self.hang}:\n{''.join(lines)}"
        return "".join(lines)

    def check(self, told: str) -> None:
        """The table names the operation, its number and the line of each rank, and whom they wait for."""
        for rank in range(self.n):
            state = "stopped" if rank == 1 and self.hang == "is stopped" else "waits|outside"
            line = r"\(stopped, .*" if state == "stopped" else r"job\.py:\d+ in <module>"
            where = r"recv\(.*" if rank == 1 and self.hang == "waits for a message" else r".* #\d+.*"
            row = rf"^ *{rank} +\d+ +({state}) .* {where}(\n +/.*)*\n +{line}$"
            assert re.search(row, told, re.MULTILINE), f"rank {rank}, while rank 1 {self.hang}:\n{told}"
        assert re.search(r"^Ranks? (1 keeps|0, 1\b)", told.splitlines()[-1]), f"{self.hang}:\n{told}"

    def end(self) -> None:
        self.job.kill()
        self._shmrun.finish(self.job)


def test_every_hang_is_explained_soon(shmrun: Any) -> None:
    seconds: dict[str, list[float]] = {"Ctrl-\\": [], "inspect --stacks": [], "limit over": []}
    for hang, n in product(HANGS, SIZES):
        hanging = Hanging(shmrun, hang, n)
        time.sleep(1.2)  # else nobody is said to wait yet
        begun = time.monotonic()
        hanging.job.send_signal(signal.SIGQUIT)
        told = hanging.table()
        seconds["Ctrl-\\"].append(time.monotonic() - begun)
        hanging.check(told)
        begun = time.monotonic()
        told = shmrun("inspect", hanging.job.pid, "--stacks").stdout
        seconds["inspect --stacks"].append(time.monotonic() - begun)
        hanging.check(told)
        hanging.end()

        hanging = Hanging(shmrun, hang, n, "--wait-timeout", LIMIT)
        told = hanging.table()
        seconds["limit over"].append(time.monotonic() - hanging.begun - LIMIT)
        hanging.check(told)
        hanging.end()
    cases = len(HANGS) * len(SIZES)
    told = ", ".join(f"{way} max {max(times):.2f} s" for way, times in seconds.items())
    print(f"figure: {cases} hangs explained {len(seconds) * cases} times, by each rank's line and the culprit: {told}")
    assert max(max(times) for times in seconds.values()) < SOON
