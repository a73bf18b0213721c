"""`out` may share memory with x in any way; the result is as if x had been copied first."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

from shmcoll.calls import in_place
from shmcoll.collectives import RECORDS
from shmcoll.communicator import Communicator
from tests.support import switches

LENGTH = 12

CALLS = {
    "all_reduce": lambda comm, x, out: comm.all_reduce(x, out=out),
    "reduce": lambda comm, x, out: comm.reduce(x, 1, out=out),
    "scan": lambda comm, x, out: comm.scan(x, out=out),
    "exscan": lambda comm, x, out: comm.exscan(x, out=out),
    "all_to_all": lambda comm, x, out: comm.all_to_all(x, out=out),
    "collective_permute": lambda comm, x, out: comm.collective_permute(x, [(0, 1), (1, 0)], out=out),
    "reduce_scatter": lambda comm, x, out: comm.reduce_scatter(x, out=out),
    "reduce_scatter_v": lambda comm, x, out: comm.reduce_scatter_v(x, [LENGTH // 2] * 2, out=out),
    "all_gather": lambda comm, x, out: comm.all_gather(x, out=out),
    "gather": lambda comm, x, out: comm.gather(x, 1, out=out),
    "scatter": lambda comm, x, out: comm.scatter(x, 1, out=out),
    "all_gather_v": lambda comm, x, out: comm.all_gather_v(x, out=out)[0],
    "gather_v": lambda comm, x, out: comm.gather_v(x, 1, out=out)[0],
    "scatter_v": lambda comm, x, out: comm.scatter_v(x, 1, send_counts=[LENGTH // 2] * 2, out=out),
    "all_to_all_v": lambda comm, x, out: comm.all_to_all_v(x, [LENGTH // 2] * 2, out=out)[0],
}
#: of x, the elements of the result: as many, half as many, or twice
HALVES, DOUBLES = (
    ("reduce_scatter", "reduce_scatter_v", "scatter", "scatter_v"),
    ("all_gather", "gather", "all_gather_v", "gather_v"),
)


def overlapping(comm) -> list[str]:
    """The calls whose results are other than with memory of their own."""
    wrong = []
    for name, call in CALLS.items():
        count = LENGTH // 2 if name in HALVES else LENGTH * 2 if name in DOUBLES else LENGTH
        for shift in (0, 1, 6, 12):
            for step in (1, -1):
                room = np.arange(4 * LENGTH) + 1000 * comm.rank
                x = room[12:][:LENGTH]
                out = room[24 - shift :][:count][::step]
                wanted = call(comm, x.copy(), np.zeros(count, int))
                got = call(comm, x, out)
                if wanted is not None and (got is not out or (got != wanted).any()):
                    wrong.append(f"{name} {shift=} {step=}: {got}, not {wanted}")
    blocks = [np.arange(3) + 10 * comm.rank + 5 * i for i in range(2)]
    for i in range(2):
        for name in ("reduce_scatter", "scatter"):
            mine = [block.copy() for block in blocks]
            wanted = CALLS[name](comm, [block.copy() for block in blocks], np.zeros(3, int))
            if (CALLS[name](comm, mine, mine[i]) != wanted).any():
                wrong.append(f"{name} of a list into {i}")
    mine = [block.copy() for block in blocks]
    got, wanted = comm.all_to_all(mine, out=mine[::-1]), comm.all_to_all([block.copy() for block in blocks])
    if (np.concatenate(got) != wanted).any():
        wrong.append("all_to_all of a list into its reverse")
    x = np.arange(3) + comm.rank
    outs = [np.zeros(3, int), np.zeros(3, int)]
    outs[1 - comm.rank] = x  # in the place of the other
    if np.concatenate(comm.all_gather(x, out=outs)).tolist() != [0, 1, 2, 1, 2, 3]:
        wrong.append("all_gather into the place of the other")
    square = np.arange(9.0).reshape(3, 3)
    if (comm.all_reduce(square, out=square.T) != 2 * np.arange(9.0).reshape(3, 3)).any():
        wrong.append("all_reduce into the transpose")
    return wrong


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "plain"])
def test_a_result_may_be_written_over_x(ranks, monkeypatch, fast):
    switches.use_entry(monkeypatch, fast=fast)
    assert ranks(2, overlapping) == [[], []]


def test_what_overlaps_itself_is_refused(ranks):
    def use(comm) -> None:
        one = np.zeros(3)
        with pytest.raises(ValueError, match="array 1 of out overlaps one before it"):
            comm.gather(np.zeros(3), comm.rank, out=[one, one])
        with pytest.raises(ValueError, match="out overlaps itself"):
            comm.all_reduce(np.zeros((2, 3)), out=np.lib.stride_tricks.as_strided(one, (2, 3), (0, 8)))
        comm.barrier()

    ranks(2, use)


WITH_OUT = [
    name
    for name in (*RECORDS, "reduce_scatter_v")
    if hasattr(Communicator, name) and "out" in inspect.signature(getattr(Communicator, name)).parameters
    if name not in ("recv", "send")
]


def test_the_guide_has_the_same_table():
    page = (Path(__file__).parents[2] / "docs/guide/collectives.md").read_text()
    rows = re.findall(r"^\| (.*) \| (.*) \|$", page[page.index("| without a copy") - 40 :], re.M)
    told = {name: where for names, where in rows for name in re.findall(r"`(\w+)`", names)}
    assert told == {name: in_place.works_in_place(name) for name in WITH_OUT}


@pytest.mark.parametrize("name", WITH_OUT)
def test_the_docstring_says_so(name):
    text = " ".join(inspect.getdoc(getattr(Communicator, name)).split())
    assert re.search(r"[Mm]ay share memory with `x`", text)
    assert ("`out=x` works in place" in text) == (in_place.works_in_place(name) == in_place.SAME)
    parts = in_place.PART_OF_OUT, in_place.PART_OF_X
    assert ("own part of `" in text or "own block of `x`" in text) == (in_place.works_in_place(name) in parts)
