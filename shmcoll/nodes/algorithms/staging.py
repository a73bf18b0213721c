"""Forms of calls that native code does not make: of lists, along other axes than the first, in place. Each is brought
into one that it makes, of contiguous arrays, by copies before and after.

A function takes the native entry and the arguments of a call, as `calls/` pass them, and returns its status. A call of
lists and one of arrays meet, because the native call is the same.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from shmcoll.collectives.reduce_scatter import EVEN, LISTED
from shmcoll.engine import context as c
from shmcoll.engine.kernels.element_marks import MARK_SHIFT
from shmcoll.nodes.mpi.wire import as_bytes, at_address, table_at

Entry = Callable[..., int]


def gathered(entry: Entry, size: int, x: np.ndarray, out: Any, *words: int) -> int:
    """Make an all_gather or gather. The last word is a table of results, or 0."""
    *words_before, table = words
    if not table:
        return entry(x, out, *words)
    rows = np.empty((size, x.nbytes), np.uint8)
    status = entry(x, rows, *words_before, 0)
    if status == c.OK:
        _deliver(rows, table)
    return status


def scattered(entry: Entry, size: int, x: Any, out: Any, *words: int) -> int:
    """Make a scatter. The last words are the phase, a table of the root's arrays or 0, and a mark or an address."""
    *words_before, phase, table, last = words
    if not table:
        return entry(x, out, *words)
    return entry(_joined(table, size, out), out, *words_before, phase, 0, last)


def permuted(entry: Entry, size: int, x: np.ndarray, out: np.ndarray, *words: int) -> int:
    """Make a collective_permute, perhaps in place."""
    return entry(x.copy() if np.may_share_memory(x, out) else x, out, *words)


def reduced_and_scattered(entry: Entry, size: int, operand: np.ndarray, target: np.ndarray, *words: int) -> int:
    """Make a reduce_scatter of an array or of a list."""
    kind, form, *words_between, table = words
    if form != LISTED:
        return entry(operand, target, *words)
    whole = (
        _joined(table, size, operand).view(operand.dtype).reshape(size * (operand.shape or (1,))[0], *operand.shape[1:])
    )
    return entry(whole, target, kind, EVEN, *words_between, 0)


def exchanged(entry: Entry, size: int, x: np.ndarray, out: Any, *words: int) -> int:
    """Make an all_to_all of arrays or lists, along any axes."""
    _, split, concat_and_mark, _, length, *_, sources, targets, extents = words
    concat = concat_and_mark & ((1 << MARK_SHIFT) - 1)
    shape = table_at(extents, 1 + int(table_at(extents, 1)[0]))[1:].tolist() if extents else list(x.shape)
    block = [*shape[:split], shape[split] // size, *shape[split + 1 :]]
    if sources:
        blocks = _joined(sources, size, x)
    elif split:
        cut = x.reshape(*shape[:split], size, *block[split:])
        blocks = as_bytes(np.ascontiguousarray(np.moveaxis(cut, split, 0)))
    else:
        blocks = as_bytes(x)
    is_plain = not targets and concat == 0 and not np.may_share_memory(out, x)
    got = out if is_plain else np.empty((size, length), np.uint8)
    status = entry(_shaped(blocks, x.dtype, shape), got, *words[:-3], 0, 0, 0)
    if status != c.OK or is_plain:
        return status
    if targets:
        _deliver(got, targets)
    else:
        parts = np.moveaxis(_shaped(got, x.dtype, [size, *block]), 0, concat)
        as_bytes(out)[:] = as_bytes(np.ascontiguousarray(parts))
    return status


FORMS: dict[str, Callable[..., int]] = {
    "all_gather": gathered,
    "gather": gathered,
    "scatter": scattered,
    "collective_permute": permuted,
    "reduce_scatter": reduced_and_scattered,
    "all_to_all": exchanged,
}


def _joined(table: int, size: int, one: np.ndarray) -> np.ndarray:
    """Return the bytes of the arrays whose addresses a table has, which are like `one`."""
    return np.concatenate([at_address(int(address), one.nbytes) for address in table_at(table, size)])


def _deliver(rows: np.ndarray, table: int) -> None:
    """Copy rows to the addresses in a table."""
    for address, row in zip(table_at(table, len(rows)), rows, strict=True):
        at_address(int(address), row.size)[:] = row


def _shaped(blocks: np.ndarray, dtype: np.dtype, shape: list[int]) -> np.ndarray:
    """Return bytes as an array."""
    return blocks.reshape(-1).view(dtype).reshape(shape) if blocks.size else np.empty(shape, dtype)
