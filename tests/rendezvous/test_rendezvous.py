"""Ranks that are started by hand meet under a name, and the name is gone afterwards whatever happens."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shmcoll.engine import layout
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory import records
from shmcoll.startup import rendezvous
from tests.support.named_arenas import files_of, is_open
from tests.support.patience import PATIENCE
from tests.support.waiting import until

pytestmark = pytest.mark.slow

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_ranks_meet_in_any_order(start: Start, order: tuple[int, ...]) -> None:
    processes = {rank: start(rank, 3, "any-order") for rank in order}
    for rank, process in processes.items():
        out, err = process.communicate(timeout=PATIENCE)
        assert (out, err) == (f"rank {rank} of 3 by explicit\n", "")
    assert not files_of("explicit:any-order")


def test_jobs_with_different_names_do_not_meet(start: Start) -> None:
    jobs = [start(rank, 2, job) for job in ("one", "two") for rank in (0, 1)]
    assert [p.communicate(timeout=PATIENCE)[0] for p in jobs] == [
        "rank 0 of 2 by explicit\n",
        "rank 1 of 2 by explicit\n",
    ] * 2


def test_rank_0_alone_names_who_is_missing_and_takes_its_name_away(start: Start) -> None:
    process = start(0, 3, "alone", SHMCOLL_JOIN_TIMEOUT="0.3")
    _, err = process.communicate(timeout=PATIENCE)
    assert "ranks [1, 2] of 3 have not joined within the time given" in err.splitlines()[-1]
    assert process.returncode == 1 and not files_of("explicit:alone")


def test_a_rank_whose_rank_0_never_comes_says_so(start: Start) -> None:
    _, err = start(1, 2, "waiting", SHMCOLL_JOIN_TIMEOUT="0.3").communicate(timeout=PATIENCE)
    assert "rank 1 has not found rank 0 of job 'explicit:waiting' within the time given" in err.splitlines()[-1]


def test_ranks_that_disagree_on_the_size(start: Start) -> None:
    first = start(0, 2, "sizes", SHMCOLL_JOIN_TIMEOUT="3")
    _, err = start(1, 3, "sizes").communicate(timeout=PATIENCE)
    assert "rank 1 says that job 'explicit:sizes' has 3 ranks, rank 0 says 2" in err.splitlines()[-1]
    assert "ranks [1] of 2 have not joined" in first.communicate(timeout=PATIENCE)[1]


def test_a_name_that_a_living_rank_0_holds_is_an_error(start: Start) -> None:
    first = start(0, 2, "held")
    until(lambda: is_open("explicit:held"))
    _, err = start(0, 2, "held").communicate(timeout=PATIENCE)
    assert "job 'explicit:held' is running already" in err.splitlines()[-1]
    assert start(1, 2, "held").communicate(timeout=PATIENCE)[0] == "rank 1 of 2 by explicit\n"
    assert first.communicate(timeout=PATIENCE)[0] == "rank 0 of 2 by explicit\n"


def test_a_left_over_name_is_replaced(start: Start) -> None:
    dead = start(0, 2, "left-over")
    until(lambda: is_open("explicit:left-over"))
    dead.kill()
    dead.wait()
    assert files_of("explicit:left-over")
    processes = [start(rank, 2, "left-over") for rank in (1, 0)]
    assert [p.communicate(timeout=PATIENCE)[0] for p in processes] == [
        "rank 1 of 2 by explicit\n",
        "rank 0 of 2 by explicit\n",
    ]


def test_a_left_over_of_another_job_is_swept_up(start: Start) -> None:
    dead = start(0, 2, "swept")
    until(lambda: is_open("explicit:swept"))
    dead.kill()
    dead.wait()
    processes = [start(rank, 2, "sweeper") for rank in (0, 1)]
    assert all(p.communicate(timeout=PATIENCE)[0] for p in processes)
    assert not files_of("explicit:swept")


def test_a_rank_that_waits_removes_the_name_of_a_dead_rank_0(start: Start) -> None:
    waiting = start(1, 3, "dies", SHMCOLL_JOIN_TIMEOUT="4")
    dying = start(0, 3, "dies")
    until(lambda: is_open("explicit:dies"))
    dying.kill()
    dying.wait()
    late = start(2, 3, "dies", SHMCOLL_JOIN_TIMEOUT="1")
    assert late.communicate(timeout=PATIENCE)[1]
    assert waiting.communicate(timeout=PATIENCE)[1]
    assert not files_of("explicit:dies")


def test_one_rank_taken_by_two_processes(start: Start) -> None:
    """One of the two gets in, the other is told who has its place. Rank 2 comes last: both find the job open."""
    first = start(0, 3, "twice")
    claims = [start(1, 3, "twice"), start(1, 3, "twice")]
    until(lambda: any(p.poll() is not None for p in claims))
    (loser,) = (p for p in claims if p.poll() is not None)
    (winner,) = (p for p in claims if p is not loser)
    _, err = loser.communicate(timeout=PATIENCE)
    assert f"rank 1 of job 'explicit:twice' is taken by process {winner.pid}; is the job started twice?" in err
    last = start(2, 3, "twice")
    assert all(p.communicate(timeout=PATIENCE)[0] for p in (first, winner, last))


def test_survivors_learn_of_a_death_without_a_launcher(start: Start, script: Path) -> None:
    script.write_text(
        "import os, signal, sys, time, shmcoll\n"
        "comm = shmcoll.init(rank=int(sys.argv[1]), size=2, job='death')\n"
        "comm.barrier()\n"
        "if comm.rank == 1: os.kill(os.getpid(), signal.SIGKILL)\n"
        "begun = time.monotonic()\n"
        "try:\n"
        "    comm.barrier()\n"
        "except shmcoll.RankFailed as e:\n"
        "    print(time.monotonic() - begun < comm.timeout / 2, e)\n"
    )
    processes = [start(0), start(1)]
    out, err = processes[0].communicate(timeout=PATIENCE)
    assert processes[1].wait(timeout=PATIENCE) == -signal.SIGKILL
    assert out.startswith("True barrier #2 on rank 0: rank 1 left the job without taking part"), (out, err)


def test_a_rank_that_was_gone_before_anybody_looked(start: Start, script: Path) -> None:
    """Its parent has waited for it: there is no process, and no pidfd to be had, any more."""
    script.write_text(
        "import os, sys, time, shmcoll\n"
        "comm = shmcoll.init(rank=int(sys.argv[1]), size=2, job='gone')\n"
        "if comm.rank == 1: os._exit(0)\n"
        "sys.stdin.read()\n"
        "begun = time.monotonic()\n"
        "try:\n"
        "    comm.barrier()\n"
        "except shmcoll.RankFailed as e:\n"
        "    print(time.monotonic() - begun < comm.timeout / 2, e)\n"
    )
    survivor = start(0)
    assert start(1).wait(timeout=PATIENCE) == 0
    out, err = survivor.communicate("", timeout=PATIENCE)
    assert out.startswith("True barrier #1 on rank 0: rank 1 left the job without taking part"), (out, err)


def test_let_in_by_a_rank_0_that_has_ended_since(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between a rank's look at its admission and its look at rank 0 that may do both; Spin found it (tests/spin)."""
    arena = arenas.create(2, timeout=1)

    def admits_and_ends(_: arenas.Arena) -> rendezvous.Stage:
        records.write(arena, 1, layout.BY_LAUNCHER, records.JOINED, pid=os.getpid())
        return rendezvous.Stage.WITHDRAWN

    monkeypatch.setattr(rendezvous, "_stage", admits_and_ends)
    assert rendezvous._wait_to_be_let_in(arena, 1, "job", time.monotonic() + 5, lambda: None)
    arena.close()


@pytest.mark.parametrize(("instant", "victim"), [(0.15, 1), (0.25, 0)])  # random ones: test_random_kills.py
def test_killed_at_any_instant_nothing_stays(start: Start, instant: float, victim: int) -> None:
    """A left-over is allowed only where no rank survives to remove it; the next job does."""
    processes = [start(rank, 2, "instants", SHMCOLL_JOIN_TIMEOUT="2") for rank in (0, 1)]
    time.sleep(instant)
    processes[victim].kill()
    for process in processes:
        process.communicate(timeout=PATIENCE)
    again = [start(rank, 2, "instants") for rank in (0, 1)]
    assert all(p.communicate(timeout=PATIENCE)[0] for p in again)
    assert not files_of("explicit:instants")
