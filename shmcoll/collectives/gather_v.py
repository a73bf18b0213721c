"""gather_v: the root gets the arrays of all ranks, which may have any lengths, at displacements that it chooses; the
others get nothing (MPI_Gatherv without the need to know the counts).

Every rank except the root copies its array into its cell, part 0 before the opening and a whole cell per round, and the
root copies it from there to its place. All ranks check what the root receives, and know the rounds of the longest
array. Cost: a + n table look-ups + 2 S b at a sender, a + n table look-ups + sum(S) b at the root; the copies of
different senders overlap. A long shared array is read where it is, as in gather: its sender copies nothing.

Protocol:

    cell (s + k) & 1 of a sender: the sender writes it in round k; for k >= 2 after the root has done k - 1 steps, that
    is, has read round k - 2. A sender leaves after the root has read cell (s + 1) & 1, which the next operation may
    fill at once. The root waits for steps of the senders, a sender only for steps of the root, so there is no cycle.

A sender that has staged its last part, or exposes its array, publishes the steps of all rounds at once: no rank waits
for it any more, and a message about a rank that stopped does not name it.

Arguments: ARGUMENT is the root, ARGUMENT_2 the mark of the elements; else see `engine/protocol/count_tables.py`.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek
from shmcoll.engine.collective import COUNTS, DTYPE, EXTRA, IN_PHASES, OUT_AT_ROOT, ROOTED, Collective
from shmcoll.engine.kernels.element_marks import in_words
from shmcoll.engine.protocol.count_checks import ANYONE
from shmcoll.engine.protocol.count_tables import (
    begin_with_table,
    copy_own_part,
    exchange_tables,
    fetch_part,
    has_exposed,
    is_opening,
    own_block_bytes,
    rounds_of,
    stage_part,
)
from shmcoll.engine.protocol.exposure import EVERY_HEADER, NEVER, how_many_expose
from shmcoll.engine.protocol.sync import await_step, has_ended, publish_step

COVERS = DTYPE


def gather_v(ctx):
    status = open_and_check(ctx) if is_opening(ctx) else c.OK
    if status != c.OK:
        return status
    root, item = peek(ctx + c.ARGUMENT), peek(ctx + c.X + c.ITEM)
    rounds = rounds_of(ctx, peek(ctx + c.SEQUENCE), ANYONE, root, item, peek(ctx + c.CELL_BYTES))
    return collect(ctx, rounds) if peek(ctx + c.RANK) == root else deliver(ctx, rounds)


def open_and_check(ctx):
    """Open, exchange the tables, and check them. A rank sends its whole array, which always fits."""
    root = peek(ctx + c.ARGUMENT)
    is_sender = peek(ctx + c.RANK) != root
    sequence = begin_with_table(ctx, COVERS, peek(ctx + c.X + c.BYTES) if is_sender else 0, NEVER)
    if is_sender:
        stage_part(ctx, sequence, 0, root, peek(ctx + c.CELL_BYTES), 1)
    return exchange_tables(ctx, sequence, ANYONE, root)


def deliver(ctx, rounds):
    """Do a sender's rounds after the first."""
    sequence, root, part = peek(ctx + c.SEQUENCE), peek(ctx + c.ARGUMENT), peek(ctx + c.CELL_BYTES)
    exposes = has_exposed(ctx, sequence, peek(ctx + c.RANK))
    mine = 0 if exposes else -(-peek(ctx + c.X + c.BYTES) // part)
    for k in range(1, mine):
        if k > 1:
            status = await_step(ctx, sequence, k - 1, root)
            if status != c.OK:
                return status
        stage_part(ctx, sequence, k, root, part, 1)
        publish_step(ctx, sequence, k)
    if rounds > 1:
        publish_step(ctx, sequence, rounds)
    if exposes:
        return await_step(ctx, sequence, 1, root)
    return await_step(ctx, sequence, mine & -2, root) if mine > 1 else c.OK


def collect(ctx, rounds):
    """Do the root's rounds: read every sender's cell, publish the step, and copy a part of its own array meanwhile."""
    sequence, me, part = peek(ctx + c.SEQUENCE), peek(ctx + c.RANK), peek(ctx + c.CELL_BYTES)
    exposing = how_many_expose(ctx, sequence, EVERY_HEADER)
    if exposing:
        rounds = max(rounds, 1)
    for k in range(rounds):
        for sender in range(peek(ctx + c.SIZE)):
            if sender != me:
                status = fetch_part(ctx, sequence, k, sender, part, 1)
                if status != c.OK:
                    return status
        if exposing and has_ended(ctx):
            return c.ABORTED
        if rounds > 1 or exposing:
            publish_step(ctx, sequence, k + 1)
        copy_own_part(ctx, k, part)
    for k in range(rounds, -(-own_block_bytes(ctx) // part)):
        copy_own_part(ctx, k, part)
    return c.OK


COLLECTIVE = Collective(
    gather_v,
    code=13,
    form=ROOTED | OUT_AT_ROOT | EXTRA | IN_PHASES | COUNTS,
    covers=COVERS,
    describe=lambda _root, mark: in_words(mark),
)
