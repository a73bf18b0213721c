"""Wrong arguments for every method that takes arrays, from one list of right ones.

    right(comm)        the arguments of each call on this rank, by method
    wrong(name, ...)   the wrong values in place of one of them: those that every call refuses, and those that only a
                       plan refuses, because the array would be copied

All arrays lie in memory of a known pattern, with room before and behind: `memory` shows any byte that is written.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

import shmcoll

PATTERN, ROOM = 0xA5, 16


def array(shape: Any, dtype: Any = "f4", shift: int = 0) -> np.ndarray:
    """An array in memory of the pattern. shift: the bytes by which it is not aligned."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape)) * dtype.itemsize
    room = np.full(count + 2 * ROOM + shift, PATTERN, np.uint8)
    return room[ROOM + shift : ROOM + shift + count].view(dtype).reshape(shape)


def memory(value: Any) -> list[bytes]:
    """Every byte of the arrays of an argument, and of the memory that they are in."""
    if isinstance(value, (list, tuple)):
        return [one for part in value for one in memory(part)]
    if not isinstance(value, np.ndarray) or value.dtype.hasobject:
        return []
    while isinstance(value.base, np.ndarray):
        value = value.base
    return [np.asarray(value).tobytes()]


def right(comm: Any) -> dict[str, dict[str, Any]]:
    """The arguments of each method on this rank. Rank 0 is the root."""
    n, rank = comm.size, comm.rank
    root, other = rank == 0, (rank + 1) % n
    block, whole = (4, 3), (4 * n, 3)
    counts = [12] * n
    displs = [12 * i for i in range(n)]
    return {
        "all_reduce": {"x": array(block), "op": "sum", "out": array(block), "algorithm": None},
        "reduce": {"x": array(block), "root": 0, "op": "sum", "out": array(block), "algorithm": None},
        "reduce_scatter": {"x": array(whole), "op": "sum", "out": array(block), "algorithm": None},
        "reduce_scatter_v": {"x": array(whole), "counts": counts, "op": "sum", "out": array(block)},
        "scan": {"x": array(block), "op": "sum", "out": array(block), "algorithm": None},
        "exscan": {"x": array(block), "op": "sum", "out": array(block), "algorithm": None},
        "broadcast": {"x": array(block), "root": 0},
        "all_gather": {"x": array(block), "out": array(whole)},
        "gather": {"x": array(block), "root": 0, "out": array(whole)},
        "scatter": {"x": array(whole) if root else None, "root": 0, "out": array(block)},
        "all_to_all": {"x": array(whole), "split_axis": 0, "concat_axis": 0, "out": array(whole)},
        "collective_permute": {"x": array(block), "pairs": [(0, n - 1)], "out": array(block)},
        "all_gather_v": {"x": array(block), "recv_counts": counts, "recv_displs": displs, "out": array(whole)},
        "gather_v": {
            "x": array(block), "root": 0, "recv_counts": counts, "recv_displs": displs, "out": array(whole),
        },
        "scatter_v": {
            "x": array(whole) if root else None, "root": 0, "send_counts": counts, "send_displs": displs,
            "out": array(block),
        },
        "all_to_all_v": {
            "x": array(whole), "send_counts": counts, "send_displs": displs, "recv_counts": counts,
            "recv_displs": displs, "out": array(whole),
        },
        "send": {"x": array(block), "dest": other, "tag": 1},
        "recv": {"out": array(block), "source": other, "tag": 1},
        "sendrecv": {"x": array(block), "dest": other, "out": array(block), "source": other},
    }  # fmt: skip


NUMBERS = ("root", "split_axis", "concat_axis", "dest", "source", "tag", "width", "axes")
COUNTS = ("counts", "send_counts", "send_displs", "recv_counts", "recv_displs")


def wrong(name: str, values: dict[str, Any], *, reduces: bool = False) -> Iterator[tuple[str, Any]]:
    """What no call takes in place of the argument of this name."""
    if name in NUMBERS:
        yield from ((repr(one), one) for one in (97, -97, 0.5, "0", True, [1], 1 << 70) if (name, one) != ("tag", 97))
    elif name in COUNTS:
        listed = values[name]
        yield from ((str(one), one) for one in (listed[:-1], [-1, *listed[1:]], [0.5] * len(listed), ["a"], 1 << 70))
        yield "masked", np.ma.masked_array(listed, True)
    elif name == "op":
        yield from ((repr(one), one) for one in ("median", 1, None, np.hypot))
    elif name == "algorithm":
        yield "tree", "tree"
    elif name == "pairs":
        yield from ((repr(one), one) for one in ([(0, 0), (0, 0)], [(0, 9)], [0], 5))
    elif name in ("x", "out"):
        yield from _wrong_arrays(name, values[name], reduces)


def _wrong_arrays(name: str, value: Any, reduces: bool) -> Iterator[tuple[str, Any]]:
    shape = value.shape if isinstance(value, np.ndarray) else (4, 3)
    yield "masked", np.ma.masked_array(array(shape), True)
    yield "objects", np.full(shape, None)
    yield "an object", object()
    yield "text", "abc"
    if name == "x":
        if reduces:
            yield "dates", array(shape, "M8[s]")
        return
    yield "dtype", array(shape, "f8")
    yield "shape", array((7, *shape))
    yield "a scalar", np.float32(0)
    yield "numbers", [0.0]
    locked = array(shape)
    locked.flags.writeable = False
    yield "read-only", locked
    yield "one place", np.lib.stride_tricks.as_strided(array(64), shape, (0,) * (len(shape) - 1) + (4,))
    yield "a list with it twice", [one := array(shape), one]


class Sub(np.ndarray):
    """A subclass, as memmap is."""


def copied(name: str, values: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a call takes, and copies: arguments to be replaced."""
    if not isinstance(values[name], np.ndarray):
        return
    shape = values[name].shape
    yield "strided", {name: array((*shape, 2))[..., 0]}
    yield "backwards", {name: array(shape)[::-1]}
    yield "transposed", {name: array(shape[::-1]).T}
    yield "unaligned", {name: array(shape, shift=1)}
    yield "swapped", {name: array(shape, ">f4")}
    yield "subclass", {name: array(shape).view(Sub)}
    other = "out" if name == "x" else "x"
    if isinstance(values.get(other), np.ndarray):
        room = array(256)
        a, b = (int(np.prod(one.shape)) for one in (values[name], values[other]))
        if values[name].shape == values[other].shape:
            yield "the same", dict.fromkeys((name, other), array(shape))
        yield "shifted", {name: room[1 : 1 + a].reshape(shape), other: room[:b].reshape(values[other].shape)}
        yield (
            "shifted the other way",
            {name: room[:a].reshape(shape), other: room[2 : 2 + b].reshape(values[other].shape)},
        )
        yield (
            "shared and strided",
            {name: room[: 2 * a : 2].reshape(shape), other: room[:b].reshape(values[other].shape)},
        )
    yield "memory of another kind", {name: memoryview(array(shape))}  # type: ignore[arg-type]


LAYOUTS = (
    "strided", "backwards", "transposed", "unaligned", "swapped", "subclass", "the same", "shifted",
    "shifted the other way", "shared and strided", "memory of another kind",
)  # fmt: skip


def batches(values: dict[str, Any]) -> list[Any]:
    """A batch of a receive and a send with these arguments."""
    recv, send = ({name: values[name] for name in names} for names in (("out", "source", "tag"), ("x", "dest", "tag")))
    return [shmcoll.Recv(**recv), shmcoll.Send(**send)]
