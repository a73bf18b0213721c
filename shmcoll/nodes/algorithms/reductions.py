"""The reducing calls over nodes.

shortest     the opening publishes the operands of all, and each rank combines those that it needs: the ranks of
             each node in their order, then the nodes; in scan and exscan the ranks in their order
short        all_reduce, reduce: each node contributes to the opening what its routine has reduced, in the order of its
             ranks, and each leader combines the nodes (`open_partials`). An opening carries half as much, and less with
             more ranks of a node. Cost: that of an opening with S bytes of a node, for operands of S bytes, R a reduce
             in the node, (N - 1) S g; see `reduce_long.py` for the letters
long         the operands follow the opening (`reduce_long.py`, `reduce_scatter_long.py`, `scan_long.py`)
ordered      an operator that is not commutative, where ranks of a node are not neighbours: every rank gets the operands
             of all ranks, and combines them in their order (`ordered_long.py`, if they are long)
"""

from shmcoll.collectives.reduce_scatter import EVEN
from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek, poke
from shmcoll.engine.layout import WORD
from shmcoll.engine.protocol.reduction import ALL, SOURCES
from shmcoll.nodes.algorithms import partials as p
from shmcoll.nodes.algorithms.long_moves import SENT_FROM, block_of, set_sent_block
from shmcoll.nodes.algorithms.ordered_long import ordered_long
from shmcoll.nodes.algorithms.reduce_long import reduce_long
from shmcoll.nodes.algorithms.reduce_scatter_long import reduce_scatter_long
from shmcoll.nodes.algorithms.scan_long import scan_long
from shmcoll.nodes.opening import layout as o
from shmcoll.nodes.opening.call import agreed, announce_alike, fits, opened, opened_for_root
from shmcoll.nodes.opening.node_calls import reduce_to_leader
from shmcoll.nodes.opening.opening import block_place, make_opening, node_block, row_of, rows_of, sends_apart, stride_of
from shmcoll.nodes.opening.ranks import ranks_of
from shmcoll.nodes.opening.requests import mpi_failed


def all_reduce(ctx):
    return reduce_to(ctx, ALL)


def reduce(ctx):
    return reduce_to(ctx, peek(ctx + c.ARGUMENT))


def reduce_to(ctx, root):
    """Reduce to the root, or to all ranks."""
    if not p.describe_reduction(ctx):
        return c.NEEDS_PYTHON
    state, count, size = peek(ctx + o.STATE), peek(ctx + c.X + c.COUNT), peek(ctx + c.SIZE)
    length, results = count * peek(state + o.ITEM), count if root == ALL or peek(ctx + c.RANK) == root else 0
    poke(state + o.ROOT, root)
    if p.needs_rank_order(state):
        return reduce_in_order(ctx, size, 0, results, peek(state + o.MOST_ROW))
    if not partials_fit(state, length):
        status = agreed(ctx)
        return reduce_long(state) if status == c.OK else status
    source, total = p.widened(state, peek(state + o.WIDE), peek(state + o.SOURCE), count), peek(state + o.TOTAL)
    if reduces_first(state, length):
        announce_alike(ctx, 0, 0)
        status, total = open_partials(state, source, length, root), peek(state + o.PUBLISHED) + 2 * WORD
    else:
        status = opened(ctx, source, length) if root == ALL else opened_for_root(ctx, source, length, root)
        if status == c.OK and results:
            status = reduce_rows(state, total, length, 0, count)
    if status == c.OK and results:
        p.finish(state, peek(ctx + c.OUT + c.DATA), total, count, size)
    return status


def partials_fit(state, length):
    """Return whether an opening carries operands of so many bytes: all of them, or what each node has reduced."""
    return length <= max(peek(state + o.MOST_ROW), o.MOST_PARTIAL)


def reduces_first(state, length):
    """Return whether operands of so many bytes are reduced in their nodes first."""
    return length > o.MOST_IN_SLOT and (peek(state + o.SHARES) != 0 or length > peek(state + o.MOST_ROW))


def contribute_partial(state, source, length, root):
    """Reduce the operands of this node into the message of its leader."""
    block = node_block(state, peek(state + o.NODE))
    poke(block, length)
    if peek(state + o.LOCAL) == 1:
        if not sends_apart(state, source, length):
            copy(block + WORD, source, length)
        return c.OK
    return reduce_to_leader(state, source, peek(state + o.ELEMENTS), block + WORD)


def finish_partials(state, source, length, root):
    """Combine the partial results of the nodes in PUBLISHED."""
    published = peek(state + o.PUBLISHED)
    for node in range(peek(state + o.NODES)):
        if peek(node_block(state, node)) != length:
            return mpi_failed(state, 0)
        poke(peek(state + o.PART_PLACES) + node * WORD, block_place(state, node))
    poke(published + WORD, length)
    return p.combine(state, published + 2 * WORD, peek(state + o.ELEMENTS))


def expected_length(state, source, length, root):
    return length


open_partials, _ = make_opening(contribute_partial, finish_partials, expected_length)


def reduce_scatter(ctx):
    """Reduce blocks that are equal parts of x, or have the lengths of the call (`engine/native/entry_counts.py`)."""
    if not p.describe_reduction(ctx):
        return c.NEEDS_PYTHON
    state, me, size, count = peek(ctx + o.STATE), peek(ctx + c.RANK), peek(ctx + c.SIZE), peek(ctx + c.X + c.COUNT)
    most = describe_blocks(ctx, state)
    begin, own = block_of(state, SENT_FROM, me), peek(ctx + c.OUT + c.COUNT)
    length = count * peek(state + o.ITEM)
    if p.needs_rank_order(state):
        return reduce_in_order(ctx, size, begin, own, o.MOST_SCATTERED)
    if not fits(state, length, o.MOST_SCATTERED):
        status = agreed(ctx)
        poke(state + o.ELEMENTS, most)
        return reduce_scatter_long(state) if status == c.OK else status
    status = opened(ctx, p.widened(state, peek(state + o.WIDE), peek(state + o.SOURCE), count), length)
    if status == c.OK:
        status = reduce_rows(state, peek(state + o.TOTAL), length, begin * peek(state + o.ITEM), own)
    if status == c.OK:
        p.finish(state, peek(ctx + c.OUT + c.DATA), peek(state + o.TOTAL), own, size)
    return status


def describe_blocks(ctx, state):
    """Write to BLOCK_ROWS how many elements the block of each rank has, and where it begins. Return the greatest
    number."""
    size, most, begin = peek(ctx + c.SIZE), peek(ctx + c.OUT + c.COUNT), 0
    for rank in range(size):
        count = peek(ctx + c.OUT + c.COUNT)
        if peek(ctx + c.ARGUMENT) != EVEN:
            count = peek(peek(ctx + SOURCES) + (size + rank) * WORD)
        set_sent_block(state, rank, count, begin)
        begin += count
        most = max(most, count)
    return most


def scan(ctx):
    return prefix(ctx, peek(ctx + c.RANK) + 1)


def exscan(ctx):
    return prefix(ctx, peek(ctx + c.RANK))


def prefix(ctx, ranks):
    """Combine the arrays of the first ranks in their order. Rank 0 of an exscan has no result."""
    if not p.describe_reduction(ctx):
        return c.NEEDS_PYTHON
    state, count = peek(ctx + o.STATE), peek(ctx + c.X + c.COUNT)
    if not fits(state, count * peek(state + o.ITEM), peek(state + o.MOST_ROW)) and peek(state + o.IN_RANK_ORDER):
        status = agreed(ctx)
        return scan_long(state, ranks > peek(ctx + c.RANK)) if status == c.OK else status
    return reduce_in_order(ctx, ranks, 0, count if ranks else 0, peek(state + o.MOST_ROW))


def reduce_in_order(ctx, ranks, begin, count, most):
    """Reduce the operands of the first ranks, in their order, and write `count` elements of that from `begin` on. All
    operands come with the opening, if they have up to `most` bytes."""
    state, elements, size = peek(ctx + o.STATE), peek(ctx + c.X + c.COUNT), peek(ctx + c.SIZE)
    length, total = elements * peek(state + o.ITEM), peek(state + o.TOTAL)
    if not fits(state, length, most):
        status = agreed(ctx)
        return ordered_long(state, ranks, begin, begin + count) if status == c.OK else status
    status = opened(ctx, p.widened(state, peek(state + o.WIDE), peek(state + o.SOURCE), elements), length)
    for rank in range(size):
        poke(peek(state + o.ROW_PLACES) + rank * WORD, row_of(state, rank, length))
    if status == c.OK:
        status = p.fold(state, total, ranks, begin * peek(state + o.ITEM), count)
    if status == c.OK:
        p.finish(state, peek(ctx + c.OUT + c.DATA), total, count, size)
    return status


def reduce_rows(state, target, length, begin, count):
    """Combine `count` elements from byte `begin` on of the rows of all ranks: those of a node in their order, then the
    nodes. Return OK or RAISED."""
    status = c.OK
    for node in range(peek(state + o.NODES)):
        for i in range(ranks_of(state, node)):
            place = rows_of(state, node, length) + i * stride_of(length)
            poke(peek(state + o.ROW_PLACES) + i * WORD, place)
        partial = peek(state + o.SCRATCH) if node > 0 else target
        if status == c.OK:
            status = p.fold(state, partial, ranks_of(state, node), begin, count)
        if node > 0 and status == c.OK:
            status = p.join(state, target, target, partial, count)
    return status
