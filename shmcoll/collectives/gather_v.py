"""gather_v: the root gets the arrays of all ranks, which may be of any lengths, at displacements of its choice; the
others get nothing (MPI_Gatherv without the need to know the counts).

Every rank but the root lays its array into its cell, part 0 before the opening and a whole cell a round, and the root
copies it from there to its place. All ranks judge what the root takes, and know the rounds of the longest array.
Cost: a + n table look-ups + 2 S b at a sender, a + n table look-ups + sum(S) b at the root; the copies of different
senders overlap.

    cell (s + k) & 1 of a sender: written by it as round k; for k >= 2 after the root has done k - 1 steps, that is, has
    read round k - 2. A sender leaves when the root has read what lies in cell (s + 1) & 1: the next operation may fill
    that cell at once. The root waits for steps of the senders, a sender only for steps of the root: no cycle.

A sender that has laid its last part says at once that it has done the steps of all rounds: nobody waits for it any
more, and a message about who stopped does not name it.

Arguments: ARGUMENT is the root; else see `engine/protocol/count_tables.py`.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek
from shmcoll.engine.collective import COUNTS, DTYPE, EXTRA, IN_PHASES, OUT_AT_ROOT, ROOTED, Collective
from shmcoll.engine.protocol.count_tables import (
    ANYONE,
    is_opening,
    judge,
    keep_part,
    lay,
    lay_table,
    own_bytes,
    rounds_of,
    take,
)
from shmcoll.engine.protocol.sync import await_step, meet, publish_step

COVERS = DTYPE


def gather_v(ctx):
    status = agree(ctx) if is_opening(ctx) else c.OK
    if status != c.OK:
        return status
    root, item = peek(ctx + c.ARGUMENT), peek(ctx + c.X + c.ITEM)
    rounds = rounds_of(ctx, peek(ctx + c.SEQUENCE), ANYONE, root, item, peek(ctx + c.CELL_BYTES))
    return collect(ctx, rounds) if peek(ctx + c.RANK) == root else deliver(ctx, rounds)


def agree(ctx):
    """Open, exchange the tables, and judge them. What is sent is the whole array and always fits."""
    sequence, root = lay_table(ctx, COVERS), peek(ctx + c.ARGUMENT)
    if peek(ctx + c.RANK) != root:
        lay(ctx, sequence, 0, root, peek(ctx + c.CELL_BYTES), 0)
    status = meet(ctx, sequence)
    return judge(ctx, sequence, ANYONE, root) if status == c.OK else status


def deliver(ctx, rounds):
    """A sender's rounds after the first."""
    sequence, root, part = peek(ctx + c.SEQUENCE), peek(ctx + c.ARGUMENT), peek(ctx + c.CELL_BYTES)
    mine = -(-peek(ctx + c.X + c.BYTES) // part)
    for k in range(1, mine):
        if k > 1:
            status = await_step(ctx, sequence, k - 1, root)
            if status != c.OK:
                return status
        lay(ctx, sequence, k, root, part, 0)
        publish_step(ctx, sequence, k)
    if rounds > 1:
        publish_step(ctx, sequence, rounds)
    return await_step(ctx, sequence, mine & -2, root) if mine > 1 else c.OK


def collect(ctx, rounds):
    """The root's rounds: read every sender's cell, then say so, and copy a part of its own array while they go on."""
    sequence, me, part = peek(ctx + c.SEQUENCE), peek(ctx + c.RANK), peek(ctx + c.CELL_BYTES)
    for k in range(rounds):
        for sender in range(peek(ctx + c.SIZE)):
            if sender != me:
                status = take(ctx, sequence, k, sender, part, 0)
                if status != c.OK:
                    return status
        if rounds > 1:
            publish_step(ctx, sequence, k + 1)
        keep_part(ctx, k, part)
    for k in range(rounds, -(-own_bytes(ctx) // part)):
        keep_part(ctx, k, part)
    return c.OK


COLLECTIVE = Collective(
    gather_v,
    code=13,
    form=ROOTED | OUT_AT_ROOT | EXTRA | IN_PHASES | COUNTS,
    covers=COVERS,
)
