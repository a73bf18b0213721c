"""Processes that come later: what they can do together, how deaths are told, and that none is left."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shmcoll.engine import layout
from shmcoll.startup import arena_names
from tests.support.launched import Shmrun
from tests.support.patience import PATIENCE

pytest.importorskip("mpi4py")

PROGRAM = Path(__file__).with_name("programs") / "processes.py"

DEATHS = """
    import os, signal, sys
    if "early" in sys.argv:
        sys.exit(3)
    from mpi4py import MPI

    world, parent = MPI.COMM_WORLD, MPI.Comm.Get_parent()
    if not parent:
        for how in "killed", "raises", "early":
            try:
                child = world.Spawn(sys.executable, [__file__, how], 2)
                child.Barrier()
                child.Barrier()
            except MPI.Exception as error:
                expected = MPI.ERR_SPAWN if how == "early" else MPI.ERR_PROC_ABORTED
                assert error.Get_error_class() == expected, error
                print(how, error, flush=True)
        sys.exit()
    parent.Barrier()
    if world.rank == 1:
        if "raises" in sys.argv:
            raise ValueError("boom")
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        parent.Barrier()
    except MPI.Exception:
        pass
"""

LEFT = """
    import os, signal, sys
    if "shmcoll" in sys.argv:
        import shmcoll.mpi
    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    if parent:
        parent.send(os.getpid(), 0)
        while True:
            signal.pause()
    child = MPI.COMM_WORLD.Spawn(sys.executable, [__file__], 2)
    print(os.getpid(), *(child.recv(source=i) for i in range(2)), flush=True)
    sys.stdin.readline()
    {end}
"""

POOL = """
    import os
    import shmcoll.mpi
    from mpi4py.futures import MPIPoolExecutor

    if __name__ == "__main__":
        with MPIPoolExecutor(2) as pool:
            print(list(pool.map(pow, range(5), [2] * 5)))
            try:
                pool.submit(int, "x").result()
            except ValueError as error:
                print(error)
            assert pool.submit(os.getpid).result() != os.getpid()
"""


def test_processes(shmrun: Shmrun) -> None:
    done = shmrun("-n", 2, "--mpi", PROGRAM)
    assert (done.returncode, done.stdout, done.stderr) == (0, "all right\n" * 2, "")


def test_a_child_that_ends_is_told(shmrun: Shmrun) -> None:
    done = shmrun("-n", 2, "--mpi", shmrun.write(DEATHS))
    assert done.returncode == 0, done.stderr
    told = {
        how: [line for line in done.stdout.splitlines() if line.startswith(how)]
        for how in ("killed", "raises", "early")
    }
    assert [len(lines) for lines in told.values()] == [2, 2, 2], done.stdout
    assert all("rank 3 " in line and "its process has ended" in line for line in told["killed"]), told
    assert all("rank 3 raised ValueError: boom" in line for line in told["raises"]), told
    assert all("have ended before all of them had joined: shmrun exited with code 3" in line for line in told["early"])
    assert "killed by signal 9" in done.stderr and "ValueError: boom" in done.stderr


@pytest.mark.parametrize(
    "end",
    [
        "os.kill(os.getpid(), signal.SIGKILL)",
        pytest.param("MPI.COMM_WORLD.Abort(3)", marks=pytest.mark.slow),
        pytest.param("raise ValueError", marks=pytest.mark.slow),
        pytest.param("interrupt", marks=pytest.mark.slow),
        pytest.param("shmcoll", marks=pytest.mark.slow),
    ],
)
def test_no_child_outlives_its_parent(shmrun: Shmrun, end: str) -> None:
    is_ours = end in ("interrupt", "shmcoll")
    script = shmrun.write(LEFT.format(end="signal.pause()" if is_ours else end))
    pipes = {"stdin": subprocess.PIPE}
    if end == "shmcoll":  # an ordinary process of Python, without a launcher
        job = shmrun.start_process([sys.executable, script, "shmcoll"], {**os.environ}, **pipes)
    else:
        job = shmrun.start("-n", 1, "--mpi", script, **pipes)
    assert job.stdout and job.stdin
    pids = list(map(int, job.stdout.readline().split()))
    children = [os.pidfd_open(pid) for pid in pids[1:]]
    job.stdin.write("\n")
    job.stdin.flush()
    if is_ours:
        job.send_signal(signal.SIGINT if end == "interrupt" else signal.SIGKILL)
    job.wait(PATIENCE)
    for child in children:
        assert select.select([child], [], [], PATIENCE)[0], "a child outlives its parent"
        os.close(child)
    for path in arena_names.FOLDER.glob(f"{arena_names.every_job()}*"):
        with path.open("rb") as arena:
            arena.seek(layout.JOB_CREATOR)
            assert int.from_bytes(arena.read(layout.WORD), "little") not in pids, path


@pytest.mark.slow
def test_a_pool_in_an_ordinary_process(shmrun: Shmrun) -> None:
    script = shmrun.folder / shmrun.write(POOL)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "[0, 1, 4, 9, 16]\ninvalid literal for int() with base 10: 'x'\n",
        "",
    )
