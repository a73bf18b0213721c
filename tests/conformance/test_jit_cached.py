"""Jitted functions that call collectives and messages, kept by numba's cache: the next job loads them and they work."""

import os
import subprocess
import sys
import textwrap

import pytest

from tests.support.patience import PATIENCE

SCRIPT = """
    import numpy as np
    import shmcoll
    from numba import njit
    from shmcoll import jit

    @njit(nogil=True, cache=True)
    def summed(h, x):
        out = np.empty_like(x)
        jit.all_reduce(h, x, out)
        return out

    @njit(nogil=True, cache=True)
    def passed_on(h, x, after, before):
        out = np.empty(5)
        jit.send(h, x, after, tag=3)
        told = jit.recv(h, out, before)
        return told, out[: told[2]]

    comm = shmcoll.init()
    n, me = comm.size, comm.rank
    total, hits = summed(comm.handle, np.full(2, me + 1.0)), sum(summed.stats.cache_hits.values())
    passed = passed_on(comm.handle, np.full(2, me + 0.5), (me + 1) % n, (me - 1) % n)
    print(total, hits, *passed, sum(passed_on.stats.cache_hits.values()))
"""


@pytest.mark.slow
def test_a_cached_function_works_in_the_next_job(tmp_path):
    script = tmp_path / "cached.py"
    script.write_text(textwrap.dedent(SCRIPT))
    environment, told = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}, []
    for n in "12":
        command = [sys.executable, "-m", "shmrun", "-n", n, str(script)]
        job = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True, env=environment)
        told.append(sorted(job.stdout.splitlines()))
    assert told[0] == ["[1. 1.] 0 (0, 3, 2) [0.5 0.5] 0"]
    assert told[1] == ["[3. 3.] 1 (0, 3, 2) [0.5 0.5] 1", "[3. 3.] 1 (1, 3, 2) [1.5 1.5] 1"]
