"""scatter_v: the root sends each rank a block of its array, of any length and from any displacement (MPI_Scatterv; the
others need not know how much they get, nor the dtype).

The root's cell is divided evenly among the n - 1 receivers; the root lays part 0 of every block there before the
opening, and a receiver copies its part from there to its place. What the root sends and whether it is what a receiver
expects is judged by all ranks; who has no array to receive into learns count and dtype from the root's table.
Cost: a ceil((n - 1) max(block) / cell) + n table look-ups + S b at the root, and one block's b at each receiver,
which overlap.

    cell (s + k) & 1 of the root: written by it as round k; for k >= 2 after every receiver has done k - 1 steps, that
    is, has read round k - 2. The root leaves when all have read what lies in cell (s + 1) & 1: the next operation may
    fill that cell at once. A receiver waits for steps of the root, the root only for steps of receivers: no cycle.

A receiver that has read its last part says at once that it has done the steps of all rounds: the root does not wait for
it any more, and a message about who stopped does not name it.

Arguments: ARGUMENT is the root; else see `engine/protocol/count_tables.py`. Only the root has an x.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek
from shmcoll.engine.collective import COUNTS, EXTRA, IN_PHASES, NOTHING, OWN_COUNTS, ROOTED, X_AT_ROOT, Collective
from shmcoll.engine.layout import ELEMENT_TYPE, LINE, RECV_COUNTS, TABLE_SIZES
from shmcoll.engine.protocol.count_tables import (
    ANYONE,
    TABLE,
    get,
    is_opening,
    judge,
    keep_own,
    lay,
    lay_table,
    put,
    rounds_of,
    sends_fit,
    table,
    take,
)
from shmcoll.engine.protocol.sync import await_step, meet, publish_step

COVERS = NOTHING


def scatter_v(ctx):
    status = agree(ctx) if is_opening(ctx) else c.OK
    if status != c.OK:
        return status
    return serve(ctx) if peek(ctx + c.RANK) == peek(ctx + c.ARGUMENT) else receive(ctx)


def agree(ctx):
    """Open, exchange the tables, and judge them."""
    sequence, root = lay_table(ctx, COVERS), peek(ctx + c.ARGUMENT)
    if peek(ctx + c.RANK) == root and sends_fit(ctx, sequence, root, ANYONE):
        fill(ctx, sequence, 0)
    status = meet(ctx, sequence)
    if status != c.OK:
        return status
    if not dtypes_agree(ctx, sequence, root):
        return c.DISAGREE
    return judge(ctx, sequence, root, ANYONE)


def dtypes_agree(ctx, sequence, root):
    """Whether all arrays to receive into are of the root's dtype; notes it for who has none."""
    size = peek(ctx + c.SIZE)
    dtype = get(table(ctx, root, sequence), size, TABLE_SIZES, ELEMENT_TYPE)
    for rank in range(size):
        given = get(table(ctx, rank, sequence), size, TABLE_SIZES, ELEMENT_TYPE)
        if given >= 0 and given != dtype:
            return 0
    put(peek(ctx + TABLE), size, TABLE_SIZES, ELEMENT_TYPE, dtype)
    return 1


def serve(ctx):
    """The root's rounds after the first."""
    sequence, rounds = peek(ctx + c.SEQUENCE), rounds_in_all(ctx, peek(ctx + c.X + c.ITEM))
    keep_own(ctx)
    for k in range(1, rounds):
        if k > 1:
            status = await_receivers(ctx, sequence, k - 1)
            if status != c.OK:
                return status
        fill(ctx, sequence, k)
        publish_step(ctx, sequence, k)
    return await_receivers(ctx, sequence, rounds & -2) if rounds > 1 else c.OK


def receive(ctx):
    """A receiver's rounds: read its part of the root's cell, then say so."""
    sequence, root, item = peek(ctx + c.SEQUENCE), peek(ctx + c.ARGUMENT), peek(ctx + c.OUT + c.ITEM)
    part, rounds = part_bytes(ctx), rounds_in_all(ctx, item)
    mine = -(-get(peek(ctx + TABLE), peek(ctx + c.SIZE), RECV_COUNTS, root) * item // part)
    for k in range(mine):
        status = take(ctx, sequence, k, root, part, place(ctx, peek(ctx + c.RANK)))
        if status != c.OK:
            return status
        if k + 1 < mine:
            publish_step(ctx, sequence, k + 1)
    if rounds > 1:
        publish_step(ctx, sequence, rounds)
    return c.OK


def fill(ctx, sequence, k):
    """Lay the k-th part of every receiver's block into the root's cell."""
    part = part_bytes(ctx)
    for peer in range(peek(ctx + c.SIZE)):
        if peer != peek(ctx + c.RANK):
            lay(ctx, sequence, k, peer, part, place(ctx, peer))


def await_receivers(ctx, sequence, steps):
    """Wait until every receiver has done so many steps."""
    for peer in range(peek(ctx + c.SIZE)):
        if peer != peek(ctx + c.RANK):
            status = await_step(ctx, sequence, steps, peer)
            if status != c.OK:
                return status
    return c.OK


def rounds_in_all(ctx, item):
    return rounds_of(ctx, peek(ctx + c.SEQUENCE), peek(ctx + c.ARGUMENT), ANYONE, item, part_bytes(ctx))


def part_bytes(ctx):
    """The share of the root's cell that one receiver has."""
    return peek(ctx + c.CELL_BYTES) // max(peek(ctx + c.SIZE) - 1, 1) // LINE * LINE


def place(ctx, receiver):
    """Where a receiver's share begins in the root's cell."""
    before = receiver if receiver < peek(ctx + c.ARGUMENT) else receiver - 1
    return before * part_bytes(ctx)


COLLECTIVE = Collective(
    scatter_v, code=14, form=ROOTED | X_AT_ROOT | EXTRA | IN_PHASES | COUNTS | OWN_COUNTS, covers=COVERS
)
