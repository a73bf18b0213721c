"""The table of where the ranks are: on SIGQUIT (Ctrl-\\), at the time limit, when a rank has waited in vain."""

import os
import re
import signal

import pytest

from tests.support.waiting import until

pytestmark = pytest.mark.slow

#: rank 1 is not where the others wait for it, until a file appears
ELSEWHERE = """
    import ctypes, os, sys, time
    import numpy as np
    {before}
    import shmcoll

    def python():
        while not os.path.exists("enough"):
            time.sleep(0.01)

    def native():
        while not os.path.exists("enough"):
            ctypes.PyDLL(None).usleep(200000)  # which keeps the interpreter to itself

    comm = shmcoll.init()
    comm.barrier()
    open(f"ready{{comm.rank}}", "w").close()
    if comm.rank == 1:
        {where}()
    comm.all_reduce(np.ones(4))
"""


@pytest.fixture
def start(shmrun):
    def start(*options, where="python", before=""):
        job = shmrun.start("-n", 3, *options, shmrun.write(ELSEWHERE.format(where=where, before=before)))
        until(lambda: all((shmrun.folder / f"ready{rank}").exists() for rank in range(3)))
        return job

    return start


def line_numbers(function: str) -> tuple[str, str]:
    """Where the function is called, and where the others wait."""
    lines = ELSEWHERE.splitlines()
    call = next(i for i, line in enumerate(lines, 1) if line.strip() == "{where}()")
    return f"job.py:{call} in <module>", f"job.py:{call + 1} in <module>"


def next_table(job) -> str:
    """What the launcher says next on stderr, up to the sentence that ends the table."""
    text = b""
    while not re.search(rb"^(Rank|Ranks|No rank) .*\n", text, re.MULTILINE):
        byte = os.read(job.stderr.fileno(), 1)  # no more at once: `communicate` does not see what a buffer has
        assert byte, text
        text += byte
    return text.decode()


@pytest.mark.parametrize("where", ["python", "native"])
def test_quit_prints_where_the_ranks_are_and_the_job_goes_on(shmrun, start, where):
    job = start(where=where)
    until(lambda: "keeps ranks 0, 2 waiting" in shmrun("inspect", job.pid).stdout)  # both, for more than a second
    call, wait = line_numbers(where)
    for _ in range(2):
        job.send_signal(signal.SIGQUIT)
        told = next_table(job)
        assert told.startswith("shmrun: where the ranks are:\nrank ")
        assert re.search(rf"^   1 .* after barrier\(\) #1\n      job.py:\d+ in {where}\n      {call}\n   2", told, re.M)
        assert len(re.findall(rf"in all_reduce\(float64\[4\], sum\) #2 +1\n      {wait}\n", told)) == 2
        assert told.splitlines()[-1].startswith("Rank 1 keeps ranks 0, 2 waiting, for ")
    (shmrun.folder / "enough").touch()
    done = shmrun.finish(job)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_time_limit_prints_where_the_ranks_are(shmrun, start):
    job = start("--timeout", 3)
    told = shmrun.finish(job)
    call, _ = line_numbers("python")
    assert told.returncode == 124
    assert told.stderr.count("where the ranks are") == 1
    assert f"      {call}\n" in told.stderr
    culprit, last = told.stderr.splitlines()[-2:]
    assert culprit.startswith("Rank 1 keeps ranks 0, 2 waiting, for ")
    assert last == "shmrun: the limit of 3 s (--timeout) is over; still running: ranks 0, 1, 2"


def test_a_wait_in_vain_prints_where_the_ranks_are_once(shmrun, start):
    job = start("--wait-timeout", 1.5)
    told = shmrun.finish(job)
    call, wait = line_numbers("python")
    assert told.returncode == 1
    assert len(re.findall(r"^rank +pid  state ", told.stderr, re.M)) == 1
    table = told.stderr[re.search(r"^rank +pid  state ", told.stderr, re.M).start() :]
    assert len(re.findall(r"^   [02] .* waits .* #2 +1\n", table, re.M)) == 2
    assert f"      {wait}\n" in table  # of both, but for a rank that is too busy to answer at once
    assert f"      {call}\n" in table
    assert table.splitlines()[-1].startswith("Rank 1 keeps ranks 0, 2 waiting, for ")


@pytest.mark.parametrize("way", ["fork", "fresh"])
def test_a_rank_that_has_not_joined_shows_its_stack(shmrun, way):
    script = shmrun.write("""
        import os, time
        def load():
            time.sleep(60)
        if os.environ["RANK"] == "1":
            load()
        import shmcoll
        shmcoll.init().barrier()
    """)
    told = shmrun("-n", 2, *["--fresh"][: way == "fresh"], "--timeout", 6, script)
    assert re.search(
        r"^   1  +\d+  not joined  .*\n      job.py:4 in load\n      job.py:6 in <module>$", told.stderr, re.M
    )
    assert "has not arrived at barrier() #1; it has not joined the job (shmcoll.init) yet." in told.stderr


def test_what_is_no_python_is_not_asked(shmrun):
    job = shmrun.start("-n", 2, "sh", "-c", "touch ready$RANK; sleep 0.1; while [ ! -e enough ]; do sleep 0.1; done")
    until(lambda: all((shmrun.folder / f"ready{rank}").exists() for rank in (0, 1)))
    job.send_signal(signal.SIGQUIT)
    told = next_table(job)
    assert told.count("(no Python program that has joined the job, so it cannot say where it is)") == 2
    (shmrun.folder / "enough").touch()
    assert shmrun.finish(job).returncode == 0


def test_a_program_may_block_all_signals(shmrun, start):
    job = start(before="import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))")
    job.send_signal(signal.SIGQUIT)
    assert next_table(job).count("(it blocks the signal that asks for its stack)") == 3
    (shmrun.folder / "enough").touch()
    assert shmrun.finish(job).returncode == 0


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_of_a_hang_shows_the_table_first(shmrun, start, signum):
    job = start()
    table = ""
    while "Rank 1 keeps ranks 0, 2 waiting" not in table:
        job.send_signal(signal.SIGQUIT)
        table = next_table(job)
    job.send_signal(signum)
    table = next_table(job)
    assert table.startswith("shmrun: where the ranks are:\n")
    assert "Rank 1 keeps ranks 0, 2 waiting, for " in table
    assert all(line in table for line in line_numbers("python"))
    told = shmrun.finish(job)
    assert told.stderr.splitlines()[-1] == f"shmrun: interrupted by {signum.name}"
    assert "where the ranks are" not in told.stderr
