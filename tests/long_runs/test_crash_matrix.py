"""How a rank may end x where x among how many: the right class, words and exit code, and the job is gone within 1 s.

Jobs run under shmrun, as a user would start them. The long form runs all 75 and prints a figure, the usual one a few.
"""

import json
import random
import re
import time
from itertools import product
from typing import Any

import psutil
import pytest

SOON = 1.0  # seconds
SIZES = (2, 3, 8)
PLACES = (
    "before it joins",
    "before its first collective",
    "while the others wait in a collective",
    "while the others wait for a message",
    "while others wait in a group",
)

#: rank {v} as a member of the world or of another group says it
RANK = r"rank ({v}|\d \(world rank {v}\))"

#: cause -> what survivors are told of rank {v}, the exit code of shmrun, what shmrun says last. A rank that exits may
#: take long to end: survivors wait 50 ms for the launcher's word, and then say what they know themselves
CAUSES = {
    "raise Bad('no more')": (RANK + " raised Bad: no more$", 1, r"(__main__\.)?Bad: no more$"),
    "sys.exit(3)": (
        RANK + r" (exited with code 3|left the job .*: its program has ended)\b",
        3,
        r"shmrun: rank {v} failed first, with exit code 3$",
    ),
    "os._exit(0)": (RANK + " left the job without taking part", 1, f".*{RANK} left the job without taking part"),
    "ctypes.string_at(0)": (RANK + " was killed by signal 11 ", 139, r"shmrun: rank {v} was killed by signal 11 "),
    "os.kill(os.getpid(), 9)": (RANK + " was killed by signal 9 ", 137, r"shmrun: rank {v} was killed by signal 9 "),
}

JOB = """
    import ctypes, json, os, resource, sys, time

    class Bad(Exception):
        pass

    def end_here():
        with open("instant", "w") as file:
            file.write(str(time.monotonic_ns()))
        {cause}

    def until_asleep(*places):
        "Until the ranks of these groups sleep in a wait."
        while not all(group.arena.load(group.mailbox(rank) + layout.PARKED) for group, rank in places):
            time.sleep(0.001)

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    place, victim, me = {place!r}, {victim}, int(os.environ["RANK"])
    open(f"pid{{os.getpid()}}", "w").close()
    if place == "before it joins" and me == victim:
        end_here()

    import shmcoll
    from shmcoll.engine import layout

    comm = shmcoll.init()
    others = [rank for rank in range(comm.size) if rank != victim]
    world = comm._dispatcher.group
    try:
        if place == "before its first collective" and me == victim:
            end_here()
        comm.barrier()
        if place == "while the others wait in a collective" and me == victim:
            until_asleep(*[(world, rank) for rank in others])
            end_here()
        if place == "while the others wait for a message":
            if me == victim:
                until_asleep(*[(world, rank) for rank in others])
                end_here()
            comm.recv(source=victim)
        if place == "while others wait in a group" and me in (victim, others[0]):
            pair = comm.subgroup([victim, others[0]])
            pair.barrier()
            if me == victim:
                until_asleep((pair._dispatcher.group, 1 - pair.rank), *[(world, rank) for rank in others[1:]])
                end_here()
            pair.barrier()
        comm.barrier()
    except shmcoll.ShmcollError as error:
        with open(f"told{{me}}", "w") as file:
            json.dump([type(error).__name__, str(error)], file)
        raise
"""


def end_one(shmrun: Any, cause: str, place: str, n: int, victim: int) -> float:
    """Run one case; returns after how many seconds the job was gone."""
    for file in shmrun.folder.iterdir():
        file.unlink()
    words, code, last = CAUSES[cause]
    done = shmrun("-n", n, shmrun.write(JOB.format(cause=cause, place=place, victim=victim)))
    seconds = (time.monotonic_ns() - int((shmrun.folder / "instant").read_text())) / 1e9
    case = f"{cause} {place}, rank {victim} of {n}:\n{done.stderr}"
    for rank in set(range(n)) - {victim}:
        told = shmrun.folder / f"told{rank}"
        assert told.exists(), f"rank {rank} was told nothing: {case}"
        kind, text = json.loads(told.read_text())
        assert kind == "RankFailed", f"rank {rank}: {kind}: {text}: {case}"
        assert re.search(words.format(v=victim), text), f"rank {rank}: {text}: {case}"
    assert done.returncode == code, case
    assert re.match(last.format(v=victim), done.stderr.splitlines()[-1]), case
    pids = [int(file.name.removeprefix("pid")) for file in shmrun.folder.glob("pid*")]
    assert len(pids) == n
    assert not any(psutil.pid_exists(pid) for pid in pids), case
    return seconds


def test_a_rank_that_ends_in_some_way_somewhere(shmrun, seed):
    draw = random.Random(seed)
    for cause, n in (("os._exit(0)", 3), (draw.choice(list(CAUSES)), 2)):
        end_one(shmrun, cause, draw.choice(PLACES), n, draw.randrange(n))


@pytest.mark.stress
def test_a_rank_that_ends_in_every_way_everywhere(shmrun, seed):
    draw, seconds = random.Random(seed), {}
    for cause, place, n in product(CAUSES, PLACES, SIZES):
        seconds[cause, place, n] = end_one(shmrun, cause, place, n, draw.randrange(n))
    ordered = sorted(seconds.values())
    print(
        f"figure: {len(seconds)} ways for a rank to end: class, words, exit code right {len(seconds)} times; job gone "
        f"after p50 {ordered[len(ordered) // 2]:.2f} s, max {ordered[-1]:.2f} s"
    )
    assert ordered[-1] < SOON, max(seconds, key=seconds.get)
