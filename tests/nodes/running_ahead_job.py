"""What each rank of a job runs in which nodes run ahead of others. Arguments: the case, folder, seed. It asserts, and
writes `rankN.json`: the errors that it has raised."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import shmcoll
from shmcoll.engine.layout import WORD
from shmcoll.nodes import agreement
from shmcoll.nodes.opening.layout import AHEAD, MOST_AHEAD
from tests.support.waiting import until

Call = tuple[str, int, int]  # operation, root, elements

ROOTED = ("broadcast", "scatter", "gather", "reduce")
TRIALS = 40


def ahead(group: Any) -> int:
    return int(group._dispatcher.agreement.state.words[AHEAD // WORD])


def make(group: Any, call: Call) -> None:
    """Make a call, and check its result."""
    (name, root, count), rank, size = call, group.rank, group.size
    operands = [np.arange(count) + 10 * one for one in range(size)]
    own, whole = operands[rank], np.concatenate(operands)
    found, wanted = None, None
    if name == "broadcast":
        found, wanted = group.broadcast(own.copy(), root), operands[root]
    elif name == "scatter":
        found, wanted = group.scatter(whole if rank == root else None, root, out=np.empty_like(own)), own
    elif name == "gather":
        found, wanted = group.gather(own, root), whole if rank == root else None
    elif name == "reduce":
        found, wanted = group.reduce(own, root), sum(operands) if rank == root else None
    elif name == "all_reduce":
        found, wanted = group.all_reduce(own), sum(operands)
    else:
        group.barrier()
    assert np.array_equal(found, wanted) if wanted is not None else found is None, (call, found, wanted)


def program(rng: np.random.Generator, size: int, calls: int) -> list[Call]:
    """Return calls, most of them in streams."""
    made: list[Call] = []
    while len(made) < calls:
        root, direction = int(rng.integers(size)), rng.integers(3)
        names = (ROOTED[:2], ROOTED[2:], ("all_reduce", "barrier"))[direction]
        for _ in range(rng.integers(1, 2 * MOST_AHEAD) if direction < 2 else 1):
            count = int(rng.choice([0, 1, 5, 20, 40, 400, 3000], p=[0.02, 0.3, 0.3, 0.2, 0.1, 0.05, 0.03]))
            made.append((str(rng.choice(names)), root, count))
    return made[:calls]


def right_programs(comm: Any, seed: int) -> None:
    """Every call has its result, whatever is called before."""
    for trial in range(TRIALS // 4):
        rng = np.random.default_rng([seed, trial])
        for call in program(rng, comm.size, 100):
            make(comm, call)


def wrong_programs(comm: Any, seed: int) -> None:
    """One rank makes another call than all others: all of them are told that call, in the same words."""
    for trial in range(TRIALS):
        rng = np.random.default_rng([seed, trial])
        calls = program(rng, comm.size, 45)
        place, culprit = int(rng.integers(1, 30)), int(rng.integers(comm.size))
        name, root, count = calls[place]
        others: list[Call] = [
            (name, root, count + 1),
            (name, (root + 1) % comm.size, count),
            ("broadcast" if name in ("reduce", "gather") else "gather", root, count),
            ("gather" if name == "reduce" else "reduce", root, count),
            ("barrier" if name != "barrier" else "all_reduce", 0, count + 1),
        ]
        changes = len(others) if name in ROOTED[:2] or name in ROOTED[2:] else 1
        other = others[int(rng.integers(changes))]
        if name == "barrier":
            other = "all_reduce", 0, 1
        if "scatter" in (name, other[0]) and name == other[0] and root == other[1]:
            other = "broadcast", root, count  # another length would be refused by that rank alone
        group = comm.dup()
        text = ""
        try:
            for i, call in enumerate(calls):
                make(group, other if i == place and comm.rank == culprit else call)
            group.barrier()  # at the latest: the last calls may have run ahead
        except shmcoll.CollectiveMismatch as error:
            text = str(error)
        texts = comm.all_gather_object(text)
        assert len(set(texts)) == 1, (trial, texts)
        assert f"the ranks disagree in operation #{place + 1}: " in text, (trial, calls[place], other, text)
        assert other[0] in text and name in text, (trial, text)
        assert text.count("running_ahead_job.py:") >= 2, text


def one_runs_ahead(comm: Any, seed: int) -> None:
    """A rank whose data the others wait for returns from MOST_AHEAD calls before they begin."""
    folder, ranks_of_root = Path(sys.argv[2]), comm.nodes[0]
    for name in ROOTED:
        group = comm.dup()
        goes_ahead = (comm.rank in ranks_of_root) == (name in ROOTED[:2])
        make(group, (name, ranks_of_root[0], 3))
        if not goes_ahead:
            until(lambda name=name: len(list(folder.glob(f"{name}-*"))) > 0, pause=0.01)
        for i in range(MOST_AHEAD):
            make(group, (name, ranks_of_root[0], 3))
            assert ahead(group) == i + 1
        (folder / f"{name}-{comm.rank}").touch()
        make(group, (name, ranks_of_root[0], 3))
        assert ahead(group) == 0


def told_late(comm: Any, seed: int) -> list[str]:
    """The root is ten calls ahead of a rank that makes another one: all ranks name that call, and its line."""
    group = comm.dup()
    is_other = comm.rank == comm.size - 1
    try:
        for i in range(MOST_AHEAD + 2):
            if i == 5 and is_other:
                group.broadcast(np.ones(7), 0)
            else:
                group.broadcast(np.ones(4), 0)
    except shmcoll.CollectiveMismatch as error:
        return [str(error)]
    return []


def root_makes_no_other_call(comm: Any, seed: int) -> list[str]:
    """Its group ends all the same."""
    agreement.DISAGREEING = 0.1
    group = comm.dup()
    group.broadcast(np.ones(4), 0)
    try:
        group.broadcast(np.ones(4 if comm.rank in comm.nodes[0] else 5), 0)
    except shmcoll.CollectiveMismatch as error:
        told = [str(error)]
    else:
        told = []
    comm.barrier()
    try:
        group.barrier()
    except shmcoll.CollectiveMismatch as error:
        return [str(error)]
    return told


def root_raises(comm: Any, seed: int) -> list[str]:
    """The others get what it has sent, and then why it has failed."""
    group = comm.dup()
    made = 0
    try:
        for i in range(MOST_AHEAD + 2):
            if i == 10 and comm.rank == 0:
                group.abort("no more")
            make(group, ("broadcast", 0, 4))
            made += 1
    except shmcoll.RankFailed as error:
        assert made <= 10
        return [str(error)]
    return []


def one_out_does_not_fit(comm: Any, seed: int) -> list[str]:
    """The rank refuses the call; the others have their parts, and the group goes on."""
    told = []
    for _ in range(3):
        make(comm, ("scatter", 0, 4))
    is_wrong = comm.rank == comm.size - 1
    try:
        out = comm.scatter(np.ones(4 * comm.size) if comm.rank == 0 else None, 0, out=np.zeros(5 if is_wrong else 4))
        assert np.array_equal(out, np.ones(4))
    except ValueError as error:
        told.append(str(error))
    for _ in range(2 * MOST_AHEAD):
        make(comm, ("scatter", 0, 4))
    make(comm, ("barrier", 0, 0))
    return told


CASES: dict[str, Callable[[Any, int], list[str] | None]] = {
    case.__name__: case
    for case in (
        right_programs,
        wrong_programs,
        one_runs_ahead,
        told_late,
        root_makes_no_other_call,
        root_raises,
        one_out_does_not_fit,
    )
}


def main() -> None:
    comm = shmcoll.init()
    told = CASES[sys.argv[1]](comm, int(sys.argv[3]))
    (Path(sys.argv[2]) / f"rank{comm.rank}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
