"""shmrun is killed with -9: within 1 s no rank is left, whatever the ranks are doing, nor what they hold."""

import contextlib
import random
import signal
import time
from typing import Any

import psutil
import pytest

from tests.support import leaks
from tests.support.waiting import until

pytestmark = pytest.mark.stress

KILLS, SOON = 100, 1.0

#: what ranks do when their launcher is killed; rank 0 does something else where only the others wait
DOINGS = {
    "call collectives": "while True: comm.all_reduce(np.ones(1000))",
    "wait for one": "time.sleep(600) if comm.rank == 0 else comm.barrier()",
    "sleep": "time.sleep(600)",
    "compute in Python": "while True: pass",
    "compute natively": "while True: np.linalg.svd(np.ones((300, 300)))",
    "ignore what can be ignored": "[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 3, 15)]; time.sleep(600)",
    "are stopped": "os.kill(os.getpid(), signal.SIGSTOP)",
}

JOB = """
    import os, signal, time
    import numpy as np
    import shmcoll

    comm = shmcoll.init()
    comm.barrier()
    open(f"ready{{comm.rank}}", "w").close()
    {doing}
"""


def gone(process: psutil.Process) -> bool:
    """Whether it has ended; that nobody has waited for it yet does not matter."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    return True


@pytest.mark.timing
def test_no_rank_outlives_its_launcher(shmrun: Any, seed: int) -> None:
    draw, seconds, before = random.Random(seed), [], leaks.snapshot()
    for number in range(KILLS):
        doing, n = list(DOINGS)[number % len(DOINGS)], draw.choice((2, 4, 8))
        way = draw.choice(((), ("--fresh",)))
        for file in shmrun.folder.iterdir():
            file.unlink()
        job = shmrun.start("-n", n, *way, shmrun.write(JOB.format(doing=DOINGS[doing])))
        until(lambda n=n: len(list(shmrun.folder.glob("ready*"))) == n)
        time.sleep(draw.random() * 0.02)
        ranks = psutil.Process(job.pid).children(recursive=True)
        assert len(ranks) >= n
        killed = time.monotonic()
        job.send_signal(signal.SIGKILL)
        until(lambda: all(map(gone, ranks)), f"ranks that {doing} live on", seconds=10)  # noqa: B023
        seconds.append(time.monotonic() - killed)
        shmrun.finish(job)
        assert not (left := leaks.left_since(before)), f"{doing}: {left}"
    seconds.sort()
    print(
        f"figure: {KILLS} launchers killed, ranks doing {len(DOINGS)} different things: all ranks gone after "
        f"p50 {1e3 * seconds[len(seconds) // 2]:.0f} ms, max {1e3 * seconds[-1]:.0f} ms, nothing left"
    )
    assert seconds[-1] < SOON
