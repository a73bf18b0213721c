"""Several ranks fail: survivors and launcher, shmrun or `shmcoll.run`, name the same rank as the first failure.

Each job fails in an order in which other rules would differ: the earliest record, the earliest report, the words of a
message. The ranks wait for each other's records, so the order is the same in every run.
"""

import re
import sys
import textwrap

import pytest

RANKS = 5
SURVIVORS = (2, 3, 4)

PREPARATION = """
    import atexit, os, pathlib, signal, sys, time
    import shmcoll
    from shmcoll.engine import layout
    from shmcoll.engine.memory import records

    def until(condition):
        end = time.monotonic() + 20
        while not condition() and time.monotonic() < end:
            time.sleep(0.001)

    def has_failed(comm, rank, by=layout.BY_RANK):
        return records.read(comm._dispatcher.group.arena, rank, by).state == records.FAILED

    def has_ended(comm):
        return comm._dispatcher.group.has_ended()

    def survive(comm):
        try:
            comm.barrier()
        except shmcoll.RankFailed as e:
            pathlib.Path(f"survivor{comm.rank}").write_text(str(e))
"""

AFTERWARDS = {
    "shmrun": "job()",
    "run": f"""
if __name__ == "__main__":
    try:
        shmcoll.run(job, {RANKS})
    except Exception as e:
        sys.exit(str([str(e), *getattr(e, "__notes__", [])]))
""",
}


#: Rank 1 fails because rank 0 has left their group. Why rank 0 left it, it says later.
A_CONSEQUENCE_IS_RECORDED_BEFORE_ITS_CAUSE = """
    def job():
        comm = shmcoll.init()
        pair = comm.subgroup([0, 1]) if comm.rank < 2 else None
        if comm.rank == 0:
            pair.close()
            until(lambda: has_failed(comm, 1))
            raise ValueError("the cause")
        if comm.rank == 1:
            pair.barrier()
        until(lambda: has_failed(comm, 0))
        survive(comm)
"""

#: Rank 0 fails first, reports no exception, and speaks of a RankFailed; rank 1 has a failure of its own later.
A_MESSAGE_HAS_THE_WORDS_OF_A_CONSEQUENCE = """
    def job():
        comm = shmcoll.init()
        comm.barrier()
        if comm.rank == 0:
            comm.abort("a device raised RankFailed")
            sys.exit(3)
        until(lambda: has_ended(comm))
        if comm.rank == 1:
            raise KeyError("another failure")
        until(lambda: has_failed(comm, 1))
        survive(comm)
"""

#: Rank 0 raises before it has joined, and takes long to end. Then rank 1 is killed.
A_RANK_THAT_NEVER_JOINED_FAILS_FIRST_AND_ENDS_LAST = """
    def job():
        if os.environ["RANK"] == "0":
            atexit.register(lambda: until(lambda: all(os.path.exists(f"survivor{rank}") for rank in (2, 3, 4))))
            raise ValueError("no device")
        comm = shmcoll.init()
        if comm.rank == 1:
            until(lambda: has_ended(comm))
            os.kill(os.getpid(), signal.SIGKILL)
        until(lambda: has_failed(comm, 1, layout.BY_LAUNCHER))
        survive(comm)
"""


@pytest.fixture(params=["shmrun", "run"])
def start(shmrun, request):
    def start(job):
        script = shmrun.write("\n".join(map(textwrap.dedent, (PREPARATION, job, AFTERWARDS[request.param]))))
        if request.param == "shmrun":
            return shmrun("-n", RANKS, "--grace", 30, script)
        return shmrun.finish(shmrun.start_process([sys.executable, script], None))

    return start


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "cause"),
    [
        (A_CONSEQUENCE_IS_RECORDED_BEFORE_ITS_CAUSE, "rank 0 raised ValueError: the cause"),
        (A_MESSAGE_HAS_THE_WORDS_OF_A_CONSEQUENCE, "rank 0 aborted: a device raised RankFailed"),
        (A_RANK_THAT_NEVER_JOINED_FAILS_FIRST_AND_ENDS_LAST, "rank 0 raised ValueError: no device"),
    ],
    ids=["consequence", "words", "never joined"],
)
def test_survivors_and_launcher_name_the_same_rank(start, shmrun, job, cause):
    told = start(job)
    quoted = [(shmrun.folder / f"survivor{rank}").read_text() for rank in SURVIVORS]
    assert [text.partition(": ")[2].startswith(cause) for text in quoted] == [True] * len(SURVIVORS), quoted
    named = re.findall(r"shmrun: rank (\d+) |rank (\d+) of shmcoll\.run", told.stderr)
    assert {first or second for first, second in named} == {"0"}, told.stderr
