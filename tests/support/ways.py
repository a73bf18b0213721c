"""Two ranks, started by shmrun, by `shmcoll.run` and as torchrun starts them, on a machine that lacks something.

Each way is a command of the shell. It either gives the right results and no other word, or fails and says why.
"""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE

JOB = """
    import sys
    import numpy as np
    import shmcoll
    comm = shmcoll.init()
    x = np.full(1 << 20, comm.rank + 1, np.int32)  # long enough for arrays to be read where they are
    assert comm.all_reduce(x)[-1] == 3
    assert comm.gather_object({"rank": comm.rank}) == ([{"rank": 0}, {"rank": 1}] if comm.rank == 0 else None)
    if comm.rank == 0:
        comm.send(x, 1)
    else:
        assert comm.recv(np.empty_like(x), 0)[0][-1] == 1
    assert comm.full(1 << 18, comm.rank, np.int32)[-1] == comm.rank
    assert comm.split(comm.rank).size == 1
    comm.barrier()
    sys.stdout.write(f"{comm.rank} ok\\n")
"""

CALL = """
    import runpy
    import shmcoll
    if __name__ == "__main__":
        shmcoll.run(lambda: runpy.run_path("job.py") and None, 2)
"""

#: starts two ranks as torchrun does, and waits for both
_LIKE_TORCHRUN = """
import os, subprocess, sys
ranks = [subprocess.Popen(sys.argv[1:], env=os.environ | {"RANK": rank}) for rank in "10"]
sys.exit(max(rank.wait() for rank in ranks))
"""
_VARIABLES = {"LOCAL_WORLD_SIZE": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}

#: what a user types
WAYS = {
    "shmrun": "{within} {python} -m shmrun -n 2 job.py",
    "run": "{within} {python} call.py",
    "torchrun": "{python} like_torchrun.py {within} {python} job.py",
}


def start(
    folder: Path, way: str, *, before: str = "", within: str = "", unshare: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the job to its end. before: commands of the shell that come first. within: a command that runs the program.
    unshare: the namespaces of its own, as options of that command; the test is skipped if the system refuses them."""
    (folder / "job.py").write_text(textwrap.dedent(JOB))
    (folder / "like_torchrun.py").write_text(_LIKE_TORCHRUN)
    if way == "torchrun":
        environment |= _VARIABLES | {"MASTER_PORT": str(os.getpid())}
    (folder / "call.py").write_text(textwrap.dedent(CALL))
    lines = f"{before or ':'} || exit 99\n{WAYS[way]}".format(within=within, python=sys.executable)
    done = subprocess.run(
        [*(["unshare", *unshare.split()] if unshare else []), "sh", "-c", lines],
        cwd=folder,
        # a rank that waits for one that has failed would wait longer than the test does
        env=os.environ | {"SHMCOLL_JOIN_TIMEOUT": "1000", "SHMCOLL_TIMEOUT": "1000"} | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode == 99 or "unshare" in done.stderr:
        pytest.skip(f"the system cannot be made so here: {done.stderr.strip()}")
    return done


def works(done: subprocess.CompletedProcess[str]) -> bool:
    """Return whether the job gave its results, and no other word."""
    return (done.returncode, sorted(done.stdout.splitlines()), done.stderr) == (0, ["0 ok", "1 ok"], "")


def says(done: subprocess.CompletedProcess[str], *words: str) -> bool:
    """Return whether the job failed and a line says all these words. shmrun prints no traceback, and each other program
    only one."""
    most = 0 if "shmrun: " in done.stderr else 2
    said = any(all(word in line for word in words) for line in done.stderr.splitlines())
    return done.returncode != 0 and said and done.stderr.count("Traceback") <= most
