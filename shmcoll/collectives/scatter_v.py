"""scatter_v: the root sends each rank a block of its array, of any length and from any displacement (MPI_Scatterv; the
others do not need to know the count or the dtype).

The root's cell is divided evenly among the n - 1 receivers. The root copies part 0 of every block there before the
opening, and a receiver copies its part from there to its place. All ranks check what the root sends and whether it is
what each receiver expects. A rank without an array to receive into learns count and dtype from the root's table.
Cost: a ceil((n - 1) max(block) / cell) + n table look-ups + S b at the root, and one block's b at each receiver,
which overlap. A long array is read where it is, if that can be, as in scatter: the root copies its own block only.

Protocol:

    cell (s + k) & 1 of the root: the root writes it in round k; for k >= 2 after every receiver has done k - 1 steps,
    that is, has read round k - 2. The root leaves after all receivers have read cell (s + 1) & 1, which the next
    operation may fill at once. A receiver waits for steps of the root, the root only for steps of receivers, so there
    is no cycle.

A receiver that has read its last part publishes the steps of all rounds at once: the root does not wait for it any
more, and a message about a rank that stopped does not name it.

Arguments: ARGUMENT is the root, ARGUMENT_2 the flag ROWS of the mark (`engine/kernels/element_marks.py`) or 0; else see
`engine/protocol/count_tables.py`. Only the root has an x. The mark of the elements is above the dtype code in
ELEMENT_TYPE, since a rank that only receives need not know it.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek
from shmcoll.engine.collective import COUNTS, EXTRA, IN_PHASES, NOTHING, OWN_COUNTS, ROOTED, X_AT_ROOT, Collective
from shmcoll.engine.kernels.element_marks import in_words
from shmcoll.engine.layout import ELEMENT_TYPE, LINE, RECV_COUNTS, TABLE_SIZES
from shmcoll.engine.protocol.count_checks import ANYONE, get, put, sends_fit
from shmcoll.engine.protocol.count_tables import (
    TABLE,
    begin_with_table,
    check_counts,
    copy_own_block,
    fetch_part,
    has_exposed,
    is_opening,
    rounds_of,
    stage_part,
    table,
)
from shmcoll.engine.protocol.exposure import finish_reading
from shmcoll.engine.protocol.sync import await_all, exchange_headers, publish_step

COVERS = NOTHING


def scatter_v(ctx):
    status = open_and_check(ctx) if is_opening(ctx) else c.OK
    if status != c.OK:
        return status
    return serve(ctx) if peek(ctx + c.RANK) == peek(ctx + c.ARGUMENT) else receive(ctx)


def open_and_check(ctx):
    """Open, exchange the tables, and check them."""
    root = peek(ctx + c.ARGUMENT)
    share = peek(ctx + c.X + c.BYTES) // peek(ctx + c.SIZE) if peek(ctx + c.RANK) == root else 0
    sequence = begin_with_table(ctx, COVERS, share, peek(ctx + c.DIRECT_BYTES))
    if peek(ctx + c.RANK) == root and sends_fit(table(ctx, root, sequence), peek(ctx + c.SIZE), ANYONE):
        stage(ctx, sequence, 0)
    status = exchange_headers(ctx, sequence)
    if status != c.OK:
        return status
    if not dtypes_agree(ctx, sequence, root):
        return c.DISAGREE
    return check_counts(ctx, sequence, root, ANYONE)


def dtypes_agree(ctx, sequence, root):
    """Return whether all arrays to receive into have the root's dtype. Write it into this rank's table."""
    size = peek(ctx + c.SIZE)
    dtype = get(table(ctx, root, sequence), size, TABLE_SIZES, ELEMENT_TYPE)
    for rank in range(size):
        given = get(table(ctx, rank, sequence), size, TABLE_SIZES, ELEMENT_TYPE)
        if given >= 0 and given != dtype:
            return 0
    put(peek(ctx + TABLE), size, TABLE_SIZES, ELEMENT_TYPE, dtype)
    return 1


def serve(ctx):
    """Do the root's rounds after the first."""
    sequence, rounds = peek(ctx + c.SEQUENCE), rounds_in_all(ctx, peek(ctx + c.X + c.ITEM))
    copy_own_block(ctx)
    if has_exposed(ctx, sequence, peek(ctx + c.RANK)):
        return await_all(ctx, sequence, 1)
    for k in range(1, rounds):
        if k > 1:
            status = await_all(ctx, sequence, k - 1)
            if status != c.OK:
                return status
        stage(ctx, sequence, k)
        publish_step(ctx, sequence, k)
    return await_all(ctx, sequence, rounds & -2) if rounds > 1 else c.OK


def receive(ctx):
    """Do a receiver's rounds: read its part of the root's cell, then publish the step."""
    sequence, root, item = peek(ctx + c.SEQUENCE), peek(ctx + c.ARGUMENT), peek(ctx + c.OUT + c.ITEM)
    part, rounds = part_bytes(ctx), rounds_in_all(ctx, item)
    if has_exposed(ctx, sequence, root):
        status = fetch_part(ctx, sequence, 0, root, part, readers(ctx))
        return finish_reading(ctx, sequence) if status == c.OK else status
    mine = -(-get(peek(ctx + TABLE), peek(ctx + c.SIZE), RECV_COUNTS, root) * item // part)
    for k in range(mine):
        status = fetch_part(ctx, sequence, k, root, part, readers(ctx))
        if status != c.OK:
            return status
        if k + 1 < mine:
            publish_step(ctx, sequence, k + 1)
    if rounds > 1:
        publish_step(ctx, sequence, rounds)
    return c.OK


def stage(ctx, sequence, k):
    """Copy the k-th part of every receiver's block into the root's cell."""
    part = part_bytes(ctx)
    for peer in range(peek(ctx + c.SIZE)):
        if peer != peek(ctx + c.RANK):
            stage_part(ctx, sequence, k, peer, part, readers(ctx))


def rounds_in_all(ctx, item):
    return rounds_of(ctx, peek(ctx + c.SEQUENCE), peek(ctx + c.ARGUMENT), ANYONE, item, part_bytes(ctx))


def part_bytes(ctx):
    """Return the share of a sender's cell that one receiver has."""
    return peek(ctx + c.CELL_BYTES) // readers(ctx) // LINE * LINE


def readers(ctx):
    return max(peek(ctx + c.SIZE) - 1, 1)


COLLECTIVE = Collective(
    scatter_v,
    code=14,
    form=ROOTED | X_AT_ROOT | EXTRA | IN_PHASES | COUNTS | OWN_COUNTS,
    covers=COVERS,
    describe=lambda _root, mark: in_words(mark),
)
