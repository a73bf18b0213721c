"""shmrun ps and shmrun inspect: jobs seen from outside, while they run or hang."""

import contextlib
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

from shmcoll.engine import layout
from shmcoll.engine.memory import arena as arenas
from shmcoll.startup import arena_names
from tests.support import leaks
from tests.support.launched import Shmrun
from tests.support.waiting import until

pytestmark = pytest.mark.slow

HANG = """
    import sys, time
    import numpy as np
    import shmcoll

    def absent(rank):
        open(f"ready{rank}", "w").close()
        time.sleep(600)

    comm = shmcoll.init()
    comm.barrier()
    if comm.rank == 1:
        absent(comm.rank)
    comm.all_reduce(np.ones((2, 3), np.float32))
"""


@pytest.fixture(scope="module")
def hung_job(tmp_path_factory):
    """A job of three ranks whose rank 1 has not come for a second, for all tests here; its folder, and its shmrun."""
    before = leaks.snapshot()
    shmrun = Shmrun(tmp_path_factory.mktemp("hung"))
    try:
        job = shmrun.start("-n", 3, shmrun.write(HANG))
        until(lambda: "waits" in line_of(shmrun("ps").stdout, job.pid), pause=0.2)
        yield shmrun.folder, job
    finally:
        shmrun.end()
    assert leaks.left_since(before) == []


@pytest.fixture
def hung(shmrun, hung_job):
    """The shmrun that runs that job; the test is where the job runs."""
    shmrun.folder, job = hung_job
    return job


def line_of(table: str, pid: int) -> str:
    return next((line for line in table.splitlines() if line.split()[:1] == [str(pid)]), "")


def ranks_of(text: str) -> dict[int, int]:
    return {int(rank): int(pid) for rank, pid in re.findall(r"^ *(\d+)  +(\d+)  ", text, re.MULTILINE)}


def test_ps_tells_what_runs(shmrun, hung):
    line = line_of(shmrun("ps").stdout, hung.pid)
    assert re.fullmatch(rf" *{hung.pid}  [0-9a-f]{{8}} +3 +\d+ s  waits \d+ s for rank 1 +.*-n 3 job\.py", line)


def test_inspect_names_the_culprit(shmrun, hung):
    told = shmrun("inspect", hung.pid)
    assert (told.returncode, told.stderr) == (0, "")
    assert len(re.findall(r"  waits +\d+\.\d s  in all_reduce\(float32\[2, 3\], sum\) #2 +1$", told.stdout, re.M)) == 2
    assert re.search(r"^   1 .*  outside +\d+\.\d s  after barrier\(\) #1$", told.stdout, re.M)
    sentence = told.stdout.splitlines()[-1]
    assert re.fullmatch(
        r"Rank 1 keeps ranks 0, 2 waiting, for \d+\.\d s: it has not arrived at all_reduce\(float32\[2, 3\], sum\) #2; "
        r"it is sleeping; its last call was barrier\(\) #1, \d+\.\d s ago\.",
        sentence,
    )


def test_a_job_is_meant_by_a_rank_or_its_nonce(shmrun, hung):
    nonce = line_of(shmrun("ps").stdout, hung.pid).split()[1]
    usual = ranks_of(shmrun("inspect", hung.pid).stdout)
    assert len(usual) == 3
    for name in (nonce, usual[2]):
        assert ranks_of(shmrun("inspect", name).stdout) == usual


def test_inspect_tells_the_last_operations(shmrun, hung):
    told = shmrun("inspect", hung.pid, "-v").stdout
    assert re.search(r"rank 1, last operations:\n  #1 barrier\(\), done, \d+\.\d s ago\nrank 2", told)
    assert re.search(r"rank 2, .*:\n  #1 .*\n  #2 all_reduce\(6 x float32, sum\), in it, \d+\.\d s ago\n", told)


def test_inspect_shows_stacks(shmrun, hung):
    told = shmrun("inspect", "--stacks", hung.pid).stdout
    assert re.search(r"^   1 .*\n      job.py:8 in absent\n      job.py:13 in <module>\n   2 ", told, re.M)
    assert told.count("\n      job.py:14 in <module>\n") == 2
    again = shmrun("inspect", "--stacks", hung.pid).stdout
    assert again.count("job.py") == told.count("job.py")


def test_a_stopped_rank_is_told_from_one_that_is_elsewhere(shmrun, hung):
    rank = ranks_of(shmrun("inspect", hung.pid).stdout)[1]
    os.kill(rank, signal.SIGSTOP)
    try:
        told = shmrun("inspect", "--stacks", hung.pid).stdout
    finally:
        os.kill(rank, signal.SIGCONT)
    assert f"its process is stopped (kill -CONT {rank} continues it)" in told
    assert "(stopped, so it cannot say where it is)" in told


def test_the_job_takes_no_notice(shmrun):
    script = shmrun.write("""
        import os, numpy as np, shmcoll
        comm = shmcoll.init()
        open(f"ready{comm.rank}", "w").close()
        while comm.all_reduce(np.array([not os.path.exists("enough")]), "min")[0]:
            pass
    """)
    job = shmrun.start("-n", 2, script)
    until(lambda: all((shmrun.folder / f"ready{rank}").exists() for rank in (0, 1)))
    for _ in range(2):
        told = shmrun("inspect", job.pid, "-v", "--stacks")
        assert told.returncode == 0
        assert "No rank has waited for another for more than 1 s." in told.stdout
        assert line_of(shmrun("ps").stdout, job.pid).split()[5] == "runs"
    (shmrun.folder / "enough").touch()
    done = shmrun.finish(job)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_job_that_shmrun_has_not_started(shmrun):
    """Two unrelated processes that meet by a name."""
    script = shmrun.write("""
        import shmcoll, sys
        comm = shmcoll.init(rank=int(sys.argv[1]), size=2, job=sys.argv[2])
        comm.rank or comm.barrier()
        sys.stdin.read()
    """)
    name = f"inspect-{os.getpid()}"
    with contextlib.ExitStack() as stack:
        ranks = []
        for rank in (0, 1):
            command = [sys.executable, script, str(rank), name]
            ranks.append(stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, cwd=shmrun.folder)))
        until(lambda: "waits" in line_of(shmrun("ps").stdout, ranks[0].pid))
        told = shmrun("inspect", ranks[1].pid, "--stacks").stdout
        assert ranks_of(told) == {0: ranks[0].pid, 1: ranks[1].pid}
        assert "Rank 1 keeps rank 0 waiting, " in told
        assert "job.py:5 in <module>" in told
        for rank in ranks:
            rank.kill()


def test_a_damaged_arena_is_left_alone(shmrun, seed):
    """Files that look like an arena to begin with, mapped by this process: no crash, whatever stands in them."""
    random = np.random.default_rng(seed)
    with contextlib.ExitStack() as stack:
        for kind in ("random", "short", "job page", "inside"):
            name = (
                arena_names.new(f"short-{os.getpid()}") if kind == "short" else ""
            )  # others have a size that is sealed
            arena = arenas.create(2, timeout=1, name=name)
            stack.callback(arena.close)
            if name:
                arena_names.remove(name)
            if kind == "random":
                arena.write(0, random.bytes(layout.PAGE))
            elif kind == "short":
                os.ftruncate(arena.fd, layout.PAGE)
            elif kind == "job page":
                arena.store(layout.JOB_RANKS, int(random.integers(-(1 << 62), 1 << 62)))
            else:
                arena.write(layout.RECORDS, random.bytes(arena.world + layout.cells_offset(2) - layout.RECORDS))
        assert shmrun("ps").returncode == 0
        told = shmrun("inspect", "-v", "--stacks", os.getpid())
        assert told.returncode in (0, 1)
        assert "Traceback" not in told.stderr


def test_mistakes(shmrun):
    told = shmrun("inspect", "no-such-job")
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.startswith("shmrun: no job no-such-job of this user; ")
    for words in (["ps", "all"], ["inspect", "1", "2"], ["inspect", "--all"]):
        told = shmrun(*words)
        assert told.returncode == 2
        assert "to run a program of that name: shmrun -n 2 " in told.stderr


def test_help(shmrun):
    for name in ("ps", "inspect"):
        assert shmrun(name, "--help").stdout.startswith(f"usage: shmrun {name}")
