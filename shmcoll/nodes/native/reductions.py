"""The reducing calls that native code makes over nodes.

Short arrays come with the opening, and each rank combines those that it needs: the ranks of each node in their order,
then the nodes; in scan and exscan the ranks in their order. all_reduce and reduce of more than some hundred bytes
reduce the ranks of a node first (`partial_opening.py`). Long arrays follow (`rails.py`, `owners.py`).
"""

from shmcoll.collectives.reduce_scatter import EVEN
from shmcoll.engine import context as c
from shmcoll.engine.atomics import call_kernel, copy, peek, poke
from shmcoll.engine.kernels.kernels import JOIN, START
from shmcoll.engine.layout import WORD
from shmcoll.engine.protocol.reduction import SOURCES
from shmcoll.nodes.native.call import STATE, agreed, equal_blocks, is_carried, opened, opened_in_partials
from shmcoll.nodes.native.layout import (
    BEGINS,
    COUNTS_OF_BLOCKS,
    DTYPE,
    ELEMENTS,
    IDENTITY,
    ITEM,
    KERNEL,
    KIND,
    LENGTHS,
    MOST_SCATTERED,
    NODES,
    ORDERED,
    PLACES_OF_BLOCKS,
    RESULT,
    SCRATCH,
    SOURCE,
    TOLD,
)
from shmcoll.nodes.native.opening import ranks_of, row_of, rows_of, stride
from shmcoll.nodes.native.owners import to_owners
from shmcoll.nodes.native.partial_opening import carries, pays
from shmcoll.nodes.native.rails import all_reduce as all_reduce_long


def all_reduce(ctx):
    if not carries(peek(ctx + STATE), peek(ctx + c.X + c.BYTES)):
        status = agreed(ctx)
        if status == c.OK:
            describe_reduction(ctx)
            status = all_reduce_long(peek(ctx + STATE))
        return status
    return reduce_in_opening(ctx, 1)


def reduce_in_opening(ctx, has_result):
    """Reduce arrays that the opening carries, to `out` if this rank has a result."""
    state, x, target = peek(ctx + STATE), ctx + c.X, peek(ctx + c.OUT + c.DATA)
    if not carries(state, peek(x + c.BYTES)):
        return c.NEEDS_PYTHON
    if pays(state, peek(x + c.BYTES)):
        describe_reduction(ctx)
        status = opened_in_partials(ctx)
        if status == c.OK and has_result:
            copy(target, peek(state + TOLD) + WORD, peek(x + c.BYTES))
        return status
    status = opened(ctx)
    if status == c.OK and has_result:
        reduce_rows(ctx, target, 0, peek(x + c.COUNT))
    return status


def describe_reduction(ctx):
    """Write which reduction is made after the opening; see `rails.py`, `owners.py`."""
    state, x = peek(ctx + STATE), ctx + c.X
    poke(state + SOURCE, peek(x + c.DATA))
    poke(state + RESULT, peek(ctx + c.OUT + c.DATA))
    poke(state + ELEMENTS, peek(x + c.COUNT))
    poke(state + KIND, peek(ctx + c.REDUCTION))
    poke(state + IDENTITY, 0)
    poke(state + KERNEL, peek(ctx + c.KERNEL))
    poke(state + ORDERED, 0)
    poke(state + DTYPE, peek(x + c.DTYPE))
    poke(state + ITEM, peek(x + c.ITEM))


def reduce(ctx):
    return reduce_in_opening(ctx, peek(ctx + c.RANK) == peek(ctx + c.ARGUMENT))


def reduce_scatter(ctx):
    """The blocks are equal parts of x, or have the lengths that the call brings (`engine/native/entry_counts.py`)."""
    state = peek(ctx + STATE)
    if not is_carried(ctx, MOST_SCATTERED):
        status = agreed(ctx)
        if status == c.OK:
            describe_reduction(ctx)
            poke(state + ELEMENTS, describe_blocks(ctx, state))
            status = to_owners(state)
        return status
    status = opened(ctx)
    if status == c.OK:
        begin = peek(ctx + c.RANK) * peek(ctx + c.OUT + c.BYTES)
        if peek(ctx + c.ARGUMENT) != EVEN:
            begin = peek(peek(ctx + SOURCES) + peek(ctx + c.RANK) * WORD) - peek(ctx + c.X + c.DATA)
        reduce_rows(ctx, peek(ctx + c.OUT + c.DATA), begin, peek(ctx + c.OUT + c.COUNT))
    return status


def describe_blocks(ctx, state):
    """Write how many elements the block of each rank has, and where it begins. Return the greatest number."""
    size, begins = peek(ctx + c.SIZE), peek(state + BEGINS)
    lengths, begin, most = peek(state + LENGTHS), 0, peek(ctx + c.OUT + c.COUNT)
    if peek(ctx + c.ARGUMENT) == EVEN:
        equal_blocks(ctx, most)
    else:
        lengths = peek(ctx + SOURCES) + size * WORD
        for rank in range(size):
            poke(begins + rank * WORD, begin)
            begin += peek(lengths + rank * WORD)
            most = max(most, peek(lengths + rank * WORD))
    poke(state + COUNTS_OF_BLOCKS, lengths)
    poke(state + PLACES_OF_BLOCKS, begins)
    return most


def reduce_rows(ctx, target, begin, count):
    """Combine `count` elements from byte `begin` on of what all ranks have brought: those of a node in their order,
    then the nodes."""
    state, kernel, size, length = peek(ctx + STATE), peek(ctx + c.KERNEL), peek(ctx + c.SIZE), peek(ctx + c.X + c.BYTES)
    for node in range(peek(state + NODES) if count > 0 else 0):
        row, part = rows_of(state, node, length) + begin, peek(state + SCRATCH) if node > 0 else target
        call_kernel(kernel, START, part, 0, row, count, 1)
        for _ in range(1, ranks_of(state, node)):
            row += stride(length)
            call_kernel(kernel, JOIN, part, part, row, count, size)
        if node > 0:
            call_kernel(kernel, JOIN, target, target, part, count, size)


def scan(ctx):
    return prefix(ctx, peek(ctx + c.RANK) + 1)


def exscan(ctx):
    return prefix(ctx, peek(ctx + c.RANK))


def prefix(ctx, ranks):
    """Combine the arrays of the first ranks in their order. Rank 0 of an exscan has no result."""
    status, state, target = opened(ctx), peek(ctx + STATE), peek(ctx + c.OUT + c.DATA)
    kernel, size, x = peek(ctx + c.KERNEL), peek(ctx + c.SIZE), ctx + c.X
    for rank in range(ranks if status == c.OK and peek(x + c.COUNT) > 0 else 0):
        row = row_of(state, rank, peek(x + c.BYTES))
        if rank == 0:
            call_kernel(kernel, START, target, 0, row, peek(x + c.COUNT), 1)
        else:
            call_kernel(kernel, JOIN, target, target, row, peek(x + c.COUNT), size)
    return status
