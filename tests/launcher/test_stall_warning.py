"""A stall is reported without being asked: which rank keeps which waiting, in which call, at which line."""

import re
import signal
import time
from dataclasses import replace
from itertools import islice

import pytest
from shmrun.watch import stall_warning
from shmrun.watch.stall_changes import Seen, since_last

from shmcoll.diagnostics import rank_status
from shmcoll.engine import layout
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory.group import Group

LATE = """
    import time
    import numpy as np
    import shmcoll

    def absent():
        time.sleep(600)

    comm = shmcoll.init()
    comm.barrier()
    if comm.rank == 1:
        absent()
    comm.all_reduce(np.ones((2, 3), np.float32))
"""


def reported(shmrun, *options, lines, env=None):
    """The first lines of what shmrun prints about a job that is then interrupted."""
    job = shmrun.start("-n", 3, *options, "--grace", "0.1", "job.py", env=env)
    told = list(islice((line for line in job.stderr if line.startswith("shmrun: ")), lines))
    job.send_signal(signal.SIGINT)
    job.send_signal(signal.SIGINT)
    shmrun.finish(job)
    return job.pid, told


def test_a_rank_that_does_not_come(shmrun):
    shmrun.write(LATE)
    pid, lines = reported(shmrun, "--stall-warning", "0.5", lines=2)
    lasted = []
    for line, change in zip(lines, ["", r"Nothing has changed since the last line\. "], strict=True):
        match = re.fullmatch(
            r"shmrun: Rank 1 keeps ranks 0, 2 waiting, for ([\d.]+) s: it has not arrived at "
            r"all_reduce\(float32\[2, 3\], sum\) #2; it is \w+; its last call was barrier\(\) #1, "
            r"[\d.]+ s ago\.( Rank 1 is at job\.py:7\.)? "
            rf"{change}More: shmrun inspect --stacks {pid}\n",
            line,
        )
        assert match, line
        lasted.append(float(match[1]))
    assert 2 * lasted[0] - 0.2 <= lasted[1]  # one decimal is shown


def test_ranks_that_wait_for_one_another(shmrun):
    """Each has a thread that might send: otherwise the circle would end by itself, by `shmcoll.Deadlock`."""
    shmrun.write("""
        import threading
        import time
        import shmcoll
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        comm = shmcoll.init()
        if comm.rank == 2:
            comm.barrier()
        comm.recv(source=comm.rank + 1)
    """)
    _, (line,) = reported(shmrun, lines=1, env={"SHMCOLL_STALL_WARNING": "0.3"})
    assert re.match(
        r"shmrun: Ranks 0, 1, 2 wait for one another, for [\d.]+ s: rank 0 in recv\(source=1, tag=ANY\) for rank 1; "
        r"rank 1 in recv\(source=2, tag=ANY\) for rank 2; rank 2 in barrier\(\) #1 for ranks 0, 1\. ",
        line,
    ), line


def test_a_wrong_tag(shmrun):
    """Each line says for how long, and what has come with other tags and from other ranks; what has been read, too, is
    not told."""
    shmrun.write("""
        import time
        import numpy as np
        import shmcoll
        comm = shmcoll.init()
        if comm.rank == 2:
            comm.recv(source=0, tag=4)
            comm.recv(source=0, tag=6)
        else:
            for tag in (3, 4, 5, 5) if comm.rank == 0 else (7,):
                comm.send(np.ones(2), 2, tag)
            time.sleep(600)
    """)
    _, lines = reported(shmrun, "--stall-warning", "0.3", lines=2)
    waits = r"\(waiting to be received: from rank 0: 1 with tag 3, 2 with tag 5; from rank 1: 1 with tag 7\)"
    lasted = [float(re.search(rf"for ([\d.]+) s.*recv\(source=0, tag=6\).*{waits}", line)[1]) for line in lines]
    assert lasted[0] < lasted[1]


@pytest.mark.slow
def test_what_has_changed_since_the_last_line(shmrun):
    """A rank that comes later, one that has ended, a new message, and a rank that has gone on to another line."""
    shmrun.write("""
        import os, time
        import numpy as np
        import shmcoll

        def wait_for(name):
            while not os.path.exists(name):
                time.sleep(0.01)

        comm = shmcoll.init()
        comm.barrier()
        if comm.rank == 1:
            wait_for("first")
            comm.send(np.ones(2), 4, tag=5)
            time.sleep(600)
        if comm.rank == 2:
            wait_for("first")
        if comm.rank == 3:
            wait_for("first")
            raise SystemExit
        if comm.rank == 4:
            comm.recv(source=1, tag=6)
        comm.barrier()
    """)
    job = shmrun.start("-n", 5, "--stall-warning", "0.6", "--grace", "0.1", "job.py")
    told = (line for line in job.stderr if line.startswith("shmrun: "))
    first = next(told)
    (shmrun.folder / "first").touch()
    second = next(told)
    job.send_signal(signal.SIGINT)
    job.send_signal(signal.SIGINT)
    shmrun.finish(job)
    assert "Since" not in first and "Nothing" not in first
    changed = second.partition("Since the last line, ")[2].partition(". More: ")[0].split(", ")
    assert "rank 2 has come to barrier() #2" in changed and "rank 3 has ended" in changed
    assert "rank 4 has been sent other messages" in changed
    assert any(re.fullmatch(r"rank 1 has moved from job\.py:\d+ to job\.py:\d+", one) for one in changed), second


def test_off(shmrun):
    shmrun.write(LATE.replace("600", "1.5"))
    told = shmrun("-n", 3, "--stall-warning", "off", "job.py")
    assert (told.returncode, told.stderr) == (0, "")


@pytest.mark.parametrize("text", ["-1", "0", "soon"])
def test_a_limit_that_makes_no_sense(shmrun, text):
    told = shmrun("-n", 1, "--stall-warning", text, "true")
    assert told.returncode == 2
    assert "--stall-warning" in told.stderr


def test_changes_of_several_ranks_are_told_together():
    """The first four of them; those of no consequence are left out."""
    old = [rank_status.RankStatus(rank, 0, rank_status.OUTSIDE, call="barrier()") for rank in range(8)]
    states = [rank_status.ENDED, rank_status.GONE, rank_status.STOPPED]
    new = [replace(one, state=state) for one, state in zip(old, states, strict=False)]
    new += [replace(old[3], call="recv()", blames=(4,)), replace(old[4], mail=" (7)"), *old[5:]]
    before, now = Seen(old, {5: 1}, {6: "a.py:1", 7: "a.py:2"}), Seen(new, {5: 2}, {6: "a.py:3", 7: "a.py:2"})
    assert since_last(before, now) == (
        " Since the last line, ranks 0, 1 have ended, rank 2 has been stopped, rank 3 has come to recv(), rank 4 has "
        "been sent other messages, and 2 other changes."
    )
    assert since_last(now, now) == " Nothing has changed since the last line."
    assert since_last(None, now) == ""


class Watched:
    """A job of two ranks that exist in the arena only: rank 0 waits for rank 1, since `since`."""

    def __init__(self, monkeypatch):
        self.arena = arenas.create(2, timeout=300.0)
        self.now, self.since = 1000.0, 1000.0
        world = Group.world(self.arena)
        waiting = rank_status.RankStatus(0, 0, rank_status.WAITING, world, None, "recv()", (1,), message=1)
        absent = rank_status.RankStatus(1, 0, rank_status.OUTSIDE)
        monkeypatch.setattr(rank_status.time, "monotonic_ns", lambda: int((self.now - self.since) * 1e9) + 1)
        monkeypatch.setattr(stall_warning.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(rank_status, "standings", lambda arena: [waiting, absent])
        self.word = world.mailbox(0) + layout.AWAITED_VALUE
        self.stall = stall_warning.StallWarning(self.arena, 20.0)

    def lines(self, seconds, *, each=lambda: None):
        """When lines were reported within so many seconds."""
        found, end = [], self.now + seconds
        while self.stall.when <= end:
            self.now = self.stall.when
            if self.stall.look():
                found.append(round(self.now - self.since))
            each()
        self.now = end
        return found


@pytest.fixture
def watched(monkeypatch):
    watched = Watched(monkeypatch)
    yield watched
    watched.arena.close()


def test_lines_come_at_doubling_times(watched):
    assert watched.lines(200) == [20, 41, 82, 164]


def test_a_wait_that_ends_begins_anew(watched):
    assert watched.lines(30) == [20]
    watched.since = watched.now
    assert watched.lines(30) == [20]


def test_an_operation_that_goes_on_is_no_stall(watched):
    def advance():
        watched.arena.store(watched.word, watched.arena.load(watched.word) + 1)

    assert watched.lines(60, each=advance) == []
    assert watched.lines(2) != []


def test_nobody_looks_more_often_than_needed(watched):
    looks = []
    watched.since = time.monotonic() + 1e6  # nobody waits
    watched.lines(200, each=lambda: looks.append(watched.now))
    assert len(looks) <= 10
