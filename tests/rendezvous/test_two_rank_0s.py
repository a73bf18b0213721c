"""Several processes claim to be rank 0, or one ends and another begins: at most one of them has an open arena."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shmcoll.engine import layout
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import Arena
from shmcoll.errors import ArenaError, ShmcollError
from shmcoll.startup import arena_names, rendezvous
from shmcoll.startup.rendezvous import Stage
from tests.support.named_arenas import files_of, is_open
from tests.support.patience import PATIENCE
from tests.support.waiting import until

Start = Callable[..., "subprocess.Popen[str]"]

TWICE = "job 'key' is running already: its rank 0 is another living process"


class Rival:
    """Another living process that claims to be rank 0 of the job."""

    def __init__(self, name: str):
        self.process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self.path = arena_names.FOLDER / name
        nonce = arena_names.nonce_of(name)
        self.arena = arenas.create(2, timeout=1, heap=1 << 20, name=name, nonce=nonce, creator=self.process.pid)

    def open(self) -> None:
        records.write(self.arena, 0, layout.BY_RANK, records.JOINED, pid=self.process.pid)

    def close(self) -> None:
        self.open()
        records.write(self.arena, 0, layout.BY_LAUNCHER, records.JOINED, pid=self.process.pid)

    def withdraw(self) -> None:
        records.write(self.arena, 0, layout.BY_RANK, records.FAILED)

    def die(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def arena() -> Iterator[Arena]:
    made = arenas.create(2, timeout=1, heap=1 << 20)
    yield made
    made.close()


@pytest.fixture
def names() -> list[str]:
    """Three names of the job, in order."""
    return sorted(arena_names.new("key") for _ in range(3))


@pytest.fixture
def rival() -> Iterator[Callable[[str], Rival]]:
    made: list[Rival] = []

    def make(name: str) -> Rival:
        made.append(Rival(name))
        return made[-1]

    yield make
    for one in made:
        one.die()
        one.arena.close()
        one.path.unlink(missing_ok=True)


def open_it(arena: Arena, name: str, seconds: float = 5.0) -> None:
    rendezvous._open(arena, name, "key", time.monotonic() + seconds)


def test_the_stages_of_an_arena(rival, names: list[str]) -> None:
    other = rival(names[0])
    stages = [rendezvous._stage(other.arena)]
    for step in (other.open, other.close, other.die):
        step()
        stages.append(rendezvous._stage(other.arena))
    assert stages == [Stage.CLAIMED, Stage.OPEN, Stage.CLOSED, Stage.WITHDRAWN]


def test_a_withdrawn_arena_is_withdrawn_from_either_stage(rival, names: list[str]) -> None:
    for name, opened in ((names[0], False), (names[1], True)):
        other = rival(name)
        if opened:
            other.open()
        other.withdraw()
        assert rendezvous._stage(other.arena) is Stage.WITHDRAWN


@pytest.mark.parametrize("place", [0, 2])
def test_an_open_arena_of_another_process_ends_the_attempt(arena: Arena, rival, names: list[str], place: int) -> None:
    rival(names[place]).open()
    with pytest.raises(ArenaError, match=TWICE):
        open_it(arena, names[1])
    assert rendezvous._stage(arena) is Stage.CLAIMED


def test_of_two_claimed_arenas_the_one_whose_name_sorts_last_is_withdrawn(arena: Arena, rival, names) -> None:
    rival(names[0])
    with pytest.raises(ArenaError, match=TWICE):
        open_it(arena, names[1])


@pytest.mark.parametrize("change", ["withdraw", "die", "close", "lose its name"])
def test_the_other_one_waits_until_that_has_happened(
    arena: Arena, rival, names: list[str], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    other = rival(names[2])
    stages: list[Stage] = []

    def act(*_: float) -> None:
        stages.append(rendezvous._stage(arena))
        if len(stages) == 3:
            other.path.unlink() if change == "lose its name" else getattr(other, change)()

    monkeypatch.setattr(rendezvous, "_pause", act)
    open_it(arena, names[1])
    assert stages == [Stage.CLAIMED] * 3
    assert rendezvous._stage(arena) is Stage.OPEN


def test_it_waits_no_longer_than_its_deadline(arena: Arena, rival, names: list[str]) -> None:
    rival(names[2])
    with pytest.raises(ArenaError, match=TWICE):
        open_it(arena, names[1], 0.1)
    assert rendezvous._stage(arena) is Stage.CLAIMED


def test_arenas_that_are_closed_or_belong_to_other_jobs_do_not_count(arena: Arena, rival, names: list[str]) -> None:
    rival(names[0]).close()
    rival(names[2]).withdraw()
    rival(arena_names.new("another job")).open()
    open_it(arena, names[1])
    assert rendezvous._stage(arena) is Stage.OPEN


# --- registering ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["close", "withdraw", "die"])
def test_nobody_registers_when_it_is_too_late(rival, names: list[str], step: str) -> None:
    """Rank 1 has found the arena open; by the time that it has the lock, the arena is not open any more."""
    other = rival(names[0])
    other.open()
    getattr(other, step)()
    assert not rendezvous._register(other.arena, 1, "key", time.monotonic() + 5)
    assert records.read(other.arena, 1, layout.BY_RANK).state == records.UNBORN


def test_a_rank_that_gives_up_is_not_counted(rival, names: list[str]) -> None:
    """Its process may live on: the program has caught the error."""
    other = rival(names[0])
    other.open()
    with pytest.raises(ShmcollError, match="lives but has not let rank 1 in"):
        rendezvous._register(other.arena, 1, "key", time.monotonic())
    assert rendezvous._close_if_complete(other.arena) == {}
    records.write(other.arena, 1, layout.BY_RANK, records.JOINED, pid=os.getpid())
    assert rendezvous._close_if_complete(other.arena) == {1: os.getpid()}


@pytest.mark.slow
def test_a_rank_0_that_gives_up_and_begins_again(start: Start, script: Path) -> None:
    """Rank 1 has registered with the first attempt, whose process lives on; it goes to the second one."""
    again = (
        "import os, sys\n"
        "import shmcoll\n"
        "if sys.argv[1] == '0':\n"
        "    os.environ['SHMCOLL_JOIN_TIMEOUT'] = '0.5'\n"
        "    try:\n"
        "        shmcoll.init(rank=0, size=3, job=sys.argv[3])\n"
        "    except shmcoll.ShmcollError as e:\n"
        "        print(e, flush=True)\n"
        "    os.environ['SHMCOLL_JOIN_TIMEOUT'] = '30'\n"
    )
    script.write_text(again + script.read_text())
    rank_1 = start(1, 3, "begins again")
    rank_0 = start(0, 3, "begins again")
    assert rank_0.stdout is not None
    assert "have not joined within the time given" in rank_0.stdout.readline()
    rank_2 = start(2, 3, "begins again")
    for rank, process in enumerate((rank_0, rank_1, rank_2)):
        assert process.communicate(timeout=PATIENCE) == (f"rank {rank} of 3 by explicit\n", "")
    assert not files_of("explicit:begins again")


# --- real processes ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_one_of_several_rank_0s_meets_the_others(start: Start) -> None:
    key, job = "explicit:at once", ("at once",)
    claims = [start(0, 2, *job) for _ in range(3)]
    until(lambda: sum(process.poll() is None for process in claims) == 1)
    (winner,) = (process for process in claims if process.poll() is None)
    for process in claims:
        if process is not winner:
            assert f"job '{key}' is running already" in process.communicate()[1].splitlines()[-1]
    rank_1 = start(1, 2, *job)
    assert winner.communicate(timeout=PATIENCE) == ("rank 0 of 2 by explicit\n", "")
    assert rank_1.communicate(timeout=PATIENCE) == ("rank 1 of 2 by explicit\n", "")
    assert not files_of(key)


@pytest.mark.slow
def test_rank_0_is_started_again_while_the_others_wait(start: Start) -> None:
    """Killed twice while its arena is open: the others register with the third one."""
    key, job = "explicit:restarted", ("restarted",)
    others = [start(rank, 3, *job) for rank in (1,)]
    for _ in range(2):
        rank_0 = start(0, 3, *job)
        until(lambda: is_open(key))
        rank_0.send_signal(signal.SIGKILL)
        rank_0.communicate()
    others.append(start(2, 3, *job))
    rank_0 = start(0, 3, *job)
    for rank, process in enumerate((rank_0, *others)):
        assert process.communicate(timeout=PATIENCE) == (f"rank {rank} of 3 by explicit\n", "")
    assert not files_of(key)
