"""Ranks may pass the same values in different layouts: a plain array, a view, another byte order, a list."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import shmcoll
from tests.support.wrong_arguments import Sub

PAIRS = ("f4,i4", "f8,i8", shmcoll.pair_dtype("f4"), shmcoll.pair_dtype("i8"))
NUMBERS = ("?", "i1", "u2", "i8", "f2", ml_dtypes.bfloat16, "f4", "f8", "c8", "c16")
OTHERS = ("S3", "U2", "M8[s]", "g", "V5", ml_dtypes.float8_e4m3fn, "i4,S3", np.dtype("u1,f8", align=True))
DTYPES = [np.dtype(one) for one in (*NUMBERS, *PAIRS, *OTHERS)]

SHAPE = (4, 3)


def drawn(dtype: np.dtype, rank: int) -> np.ndarray:
    """Small values, which every dtype has; for text digits."""
    numbers = (np.arange(12).reshape(SHAPE) * 7 + rank) % 5
    if dtype.names is not None:
        made = np.zeros(SHAPE, dtype)
        for name in dtype.names:
            made[name] = drawn(dtype[name], rank)
        return made
    if dtype.kind == "V":
        return np.repeat(numbers.astype(np.uint8), dtype.itemsize).view(dtype).reshape(SHAPE)
    return numbers.astype("S1" if dtype.kind in "SU" else "i8").astype(dtype)


def laid_out(array: np.ndarray) -> dict[str, Any]:
    """The same values in every layout."""
    double = np.zeros((4, 6), array.dtype)
    double[:, ::2] = array
    shifted = np.frombuffer(b"\0" + array.tobytes(), np.uint8)[1:].view(array.dtype).reshape(array.shape)
    found = {
        "strided": double[:, ::2],
        "transposed": np.asfortranarray(array),
        "backwards": array[::-1].copy()[::-1],
        "unaligned": shifted,
        "read-only": np.frombuffer(array.tobytes(), np.uint8).view(array.dtype).reshape(array.shape),
        "swapped": array.astype(array.dtype.newbyteorder()),
        "subclass": array.view(Sub),
        "fields apart": spread(array) if array.dtype.names else array,
    }
    if array.dtype in (np.dtype("?"), np.dtype("i8"), np.dtype("f8"), np.dtype("c16")):
        found["list"] = array.tolist()
    return found


def spread(array: np.ndarray) -> np.ndarray:
    """The same fields with bytes between them."""
    assert array.dtype.names is not None
    formats, offset, offsets = [array.dtype[name] for name in array.dtype.names], 0, []
    for one in formats:
        offsets.append(offset)
        offset += one.itemsize + 3
    fields = {"names": list(array.dtype.names), "formats": formats, "offsets": offsets, "itemsize": offset}
    made = np.zeros(array.shape, fields)
    for name in array.dtype.names:
        made[name] = array[name]
    return made


def calls(comm: Any, op: str | None) -> dict[str, Any]:
    n, counts = comm.size, [6] * comm.size
    moves = {
        "all_gather": lambda x: comm.all_gather(x),
        "gather": lambda x: comm.gather(x, 1),
        "scatter": lambda x: comm.scatter(x, 1),
        "broadcast": lambda x: comm.broadcast(x if comm.rank == 1 else None, 1),
        "all_to_all": lambda x: comm.all_to_all(x),
        "all_to_all, axes": lambda x: comm.all_to_all(x, 0, 1),
        "collective_permute": lambda x: comm.collective_permute(x, [(r, (r + 1) % n) for r in range(n)]),
        "all_gather_v": lambda x: comm.all_gather_v(x)[0],
        "gather_v": lambda x: comm.gather_v(x, 1)[0],
        "scatter_v": lambda x: comm.scatter_v(x, 1, send_counts=counts),
        "all_to_all_v": lambda x: comm.all_to_all_v(x, counts)[0],
        "all_to_all_v, rows": lambda x: comm.all_to_all_v(x, [2] * n, axis=0)[0],
    }
    reductions = {
        "all_reduce": lambda x: comm.all_reduce(x, op),
        "reduce": lambda x: comm.reduce(x, 1, op),
        "reduce_scatter": lambda x: comm.reduce_scatter(x, op),
        "reduce_scatter_v": lambda x: comm.reduce_scatter_v(x, counts, op),
        "scan": lambda x: comm.scan(x, op),
        "exscan": lambda x: comm.exscan(x, op),
    }
    return moves | (reductions if op else {})


def of_layouts(comm: Any, number: int) -> list[str]:
    dtype, told = DTYPES[number], []
    op = "argmin" if dtype in map(np.dtype, PAIRS) else {"c": "sum"}.get(dtype.kind, "max")
    op = op if number < len(NUMBERS) + len(PAIRS) else None
    x = drawn(dtype, comm.rank)
    for what, call in calls(comm, op).items():
        wanted = call(x)
        for layout, one in laid_out(x).items():
            if layout == "fields apart" and what not in ("all_reduce", "reduce", "reduce_scatter", "scan", "exscan"):
                continue
            mine = one if comm.rank == 1 else x
            try:
                got = call(mine)
            except Exception as error:
                told.append(f"{what} of {dtype}, {layout}: {error!r}")
                return told
            if repr(np.asarray(got).tolist()) != repr(np.asarray(wanted).tolist()):
                told.append(f"{what} of {dtype}, {layout}: {got} for {wanted}")
    return told


@pytest.mark.parametrize("number", range(len(DTYPES)), ids=[str(dtype)[:30] for dtype in DTYPES])
def test_the_layout_of_one_rank_makes_no_difference(ranks, number):
    for told in ranks(2, of_layouts, number):
        assert not told, "\n".join(told)
