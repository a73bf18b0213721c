"""`shmrun --trace` and `--stats`: the file has what the program did, however the job ended."""

import json
import signal
import sys
from textwrap import indent

import pytest

from tests.support.late import LATE
from tests.support.launched import Shmrun
from tests.support.trace_events import Timeline, end, load

JOB = (
    indent(LATE, "    ")
    + """
    import os, signal
    import numpy as np
    import shmcoll

    comm = shmcoll.init()
    x = np.ones(4)
"""
)
WHOLE = (
    JOB
    + """
    for _ in range(5):
        comm.all_reduce(x, out=x)
    with shmcoll.range("outer"):
        with shmcoll.range("inner"):
            comm.all_reduce(x, async_op=True).wait()
    if comm.rank == 0:
        comm.send(x, 1, tag=7)
        comm.send(x, 1, tag=8)
    else:
        comm.recv(source=0, tag=7)
        comm.recv(source=0, tag=8)
    half = comm.split(0)
    half.broadcast(x, root=0)
    comm.broadcast_object({"a": 1}, root=0)
    if comm.rank:
        until_others_wait(comm, 0.02)
    comm.barrier()
"""
)
TOLD = "shmrun: the timeline is in 't.json': open it at ui.perfetto.dev or chrome://tracing"


def traced(shmrun: Shmrun, text: str, *options: object, code: int = 0, ranks: int = 2) -> tuple[Timeline, list[str]]:
    """The timeline that a program leaves, and what it and shmrun have printed."""
    done = shmrun("-n", ranks, "--trace", "t.json", *options, shmrun.write(text))
    assert done.returncode == code, done.stderr
    return load(shmrun.folder / "t.json"), done.stderr.splitlines()


def test_the_file_has_what_the_program_did(shmrun: Shmrun) -> None:
    found, said = traced(shmrun, WHOLE)
    assert said == [TOLD]
    assert found.ranks == {0: "rank 0", 1: "rank 1"}
    for rank in (0, 1):
        calls = [s["name"] for s in found.on(rank) if s["cat"] == "call"]
        assert calls == [*["all_reduce"] * 5, "split", "broadcast_object", "barrier"]
        (asynchronous,) = [s for s in found.on(rank, "all ranks: asynchronous") if s["name"] == "all_reduce"]
        assert asynchronous["args"]["sequence"] == 6
        outer, inner = found.on(rank, "program")
        assert (outer["name"], inner["name"]) == ("outer", "inner")
        assert inner["ts"] <= asynchronous["ts"] <= end(asynchronous) <= end(inner) <= end(outer)
        first = found.on(rank)[0]["args"]
        assert (first["call"], first["bytes"], first["sequence"]) == ("all_reduce(float64[4], sum)", 32, 1)
        assert len(found.named("broadcast", rank)) >= 2  # of the half, and in the call of an object
    assert [s["args"]["to_rank"] for s in found.named("send", 0)] == [1, 1]
    assert [(s["args"]["from_rank"], s["args"]["tag"]) for s in found.named("recv", 1)] == [(0, 7), (0, 8)]
    assert found.joined("message") == [(0, 1)] * 2
    last, barrier = found.named("barrier", 0)[0], found.named("barrier", 1)[0]
    assert last["args"]["waited_us"] > 15_000
    arrows = [(a, b["ts"]) for name, a, b in found.arrows if name == "came last" and a["name"] == "barrier"]
    assert arrows == [(barrier, last["ts"])]  # to the waiting part, which begins with the call


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL),
        ("raise ValueError('odd')", 1),
        ("os._exit(3)", 3),
        ("os.kill(os.getppid(), signal.SIGINT); time.sleep(60)", 130),
    ],
)
def test_ranks_that_fail_leave_their_part(shmrun: Shmrun, end: str, code: int) -> None:
    text = (
        JOB
        + f"""
    for _ in range(3):
        comm.all_reduce(x, out=x)
    if comm.rank:
        until_others_wait(comm, 0)
        {end}
    comm.barrier()
"""
    )
    found, said = traced(shmrun, text, "--grace", "5", code=code)
    assert TOLD in said
    for rank in (0, 1):
        assert len(found.named("all_reduce", rank)) == 3


def test_statistics_find_the_slow_rank(shmrun: Shmrun) -> None:
    text = (
        JOB
        + """
    for _ in range(10):
        if comm.rank == 2:
            until_others_wait(comm, 0.02)
        comm.all_reduce(x, out=x)
"""
    )
    done = shmrun("-n", 3, "--stats", "--report", shmrun.write(text))
    lines = done.stderr.splitlines()
    assert lines[0].startswith("The ranks spend ") and lines[1].startswith("Rank 2 is slow: "), done.stderr
    assert any(line.split()[:4] == ["rank", "time", "in", "calls"] for line in lines)
    assert any(line.split()[:4] == ["all_reduce", "32", "B+", "30"] for line in lines)

    done = shmrun("-n", 3, "--stats=s.json", "job.py")
    assert (done.returncode, done.stderr) == (0, "")
    stats = json.loads((shmrun.folder / "s.json").read_text())
    assert stats["slow_rank"] == 2
    assert [one["calls"] for one in stats["operations"] if one["operation"] == "all_reduce"] == [30]


def test_a_full_disk_is_told_and_changes_nothing(shmrun: Shmrun) -> None:
    done = shmrun("-n", 1, "--trace", "/dev/full", "--stats=/dev/full", shmrun.write("import shmcoll; shmcoll.init()"))
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "shmrun: cannot write the statistics '/dev/full' (--stats): No space left on device",
        "shmrun: cannot write the timeline '/dev/full' (--trace): No space left on device",
    ]


def test_a_file_that_cannot_be_is_refused_before_the_job(shmrun: Shmrun) -> None:
    for option in (("--trace", "no/t.json"), ("--stats=no/t.json",)):
        done = shmrun("-n", 1, *option, "true")
        assert done.returncode == 2
        assert "'no/t.json' is not a file in a directory that exists" in done.stderr


def test_ranks_that_are_no_ranks(shmrun: Shmrun) -> None:
    done = shmrun("-n", 2, "--trace", "t.json", "--stats", "true")
    assert done.returncode == 0
    assert "No rank has called anything while it was recorded." in done.stderr
    assert load(shmrun.folder / "t.json").ranks == {}


@pytest.mark.slow
def test_what_did_not_fit_is_said(shmrun: Shmrun) -> None:
    found, (said,) = traced(shmrun, JOB + """
    from shmcoll.profiling.recorder import SPANS
    for _ in range(SPANS + 1000):
        comm.barrier()
""", ranks=1)  # fmt: skip
    dropped = found.about["dropped"]["0"]
    assert 1000 <= dropped <= 1001  # the oldest of a full ring may be half written over
    assert said == f"{TOLD}; there was no room for {dropped:,} earlier calls"
    assert found.labels == {0: f"{dropped:,} earlier calls are not here"}


@pytest.mark.slow
def test_a_program_that_runs_the_code_of_others(shmrun: Shmrun) -> None:
    """pytest in each rank, in interpreters of their own."""
    shmrun.write(
        """
        import shmcoll

        def test_it():
            shmcoll.init().barrier()
        """,
        "test_it.py",
    )
    done = shmrun("-n", 2, "--fresh", "--trace", "t.json", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py")
    assert done.returncode == 0, done.stdout
    assert len(load(shmrun.folder / "t.json").named("barrier")) == 2


def test_a_job_that_a_rank_starts_is_not_recorded(shmrun: Shmrun) -> None:
    """It would write the same file."""
    text = (
        JOB
        + """
    import subprocess, sys
    print({name for name in os.environ if name in ("SHMCOLL_TRACE", "SHMCOLL_STATS")})
    inner = "import shmcoll; shmcoll.init().barrier()"
    told = subprocess.run([sys.executable, "-m", "shmrun", "-n", "1", "-c", inner], capture_output=True)
    assert (told.returncode, told.stderr) == (0, b""), told.stderr
    comm.all_reduce(x)
"""
    )
    done = shmrun("-n", 1, "--trace", "t.json", shmrun.write(text))
    assert (done.returncode, done.stdout) == (0, "set()\n"), done.stderr
    found = load(shmrun.folder / "t.json")
    assert len(found.named("all_reduce")) == 1 and found.named("barrier") == []


def test_a_rank_that_begins_where_no_directory_is(shmrun: Shmrun) -> None:
    text = """
        import os, shmcoll
        os.mkdir("gone")
        os.chdir("gone")
        os.rmdir("../gone")
        shmcoll.init().barrier()
    """
    done = shmrun("-n", 1, "--trace", "t.json", "--stats=s.json", shmrun.write(text))
    assert (done.returncode, done.stderr) == (0, TOLD + "\n")
    assert load(shmrun.folder / "t.json").named("barrier") and (shmrun.folder / "s.json").exists()


RUN = """
    import numpy as np
    import shmcoll

    def work(x):
        return float(shmcoll.init().all_reduce(x)[0])

    {}
"""


@pytest.mark.parametrize(
    "call", ["print(shmcoll.run(work, 2, np.ones(4)))", "with shmcoll.ranks(2) as r: print(r.run(work, np.ones(4)))"]
)
def test_ranks_of_run(shmrun: Shmrun, call: str) -> None:
    script = shmrun.write(RUN.format(call))
    environment = {"SHMCOLL_TRACE": "t.json.gz", "SHMCOLL_STATS": "1", "PATH": "/usr/bin:/bin"}
    job = shmrun.start_process([sys.executable, script], environment)
    out, err = job.communicate(timeout=60)
    assert (job.returncode, out) == (0, "[2.0, 2.0]\n"), err
    assert "The ranks spend" in err and f"shmcoll: the timeline is in '{shmrun.folder / 't.json.gz'}'" in err
    found = load(shmrun.folder / "t.json.gz")
    assert len(found.named("all_reduce")) == 2


def test_ranks_of_another_launcher(shmrun: Shmrun) -> None:
    """The last one to leave writes, wherever it is by then."""
    (shmrun.folder / "elsewhere").mkdir()
    script = shmrun.write(JOB + """
    os.chdir("elsewhere")
    comm.all_reduce(x, out=x)
    comm.barrier()
""")  # fmt: skip
    jobs = []
    for rank in range(2):
        place = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
        environment = {**place, "MASTER_PORT": "29123", "SHMCOLL_TRACE": "t.json", "PATH": "/usr/bin:/bin"}
        jobs.append(shmrun.start_process([sys.executable, script], environment))
    said = [job.communicate(timeout=60)[1] for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], said
    told = TOLD.replace("shmrun", "shmcoll").replace("t.json", str(shmrun.folder / "t.json"))
    assert sorted(said) == ["", told + "\n"]
    assert len(load(shmrun.folder / "t.json").named("all_reduce")) == 2
