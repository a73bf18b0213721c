"""all_gather_v: every rank gets the arrays of all, which may be of any lengths, at displacements of its own choice
(MPI_Allgatherv without the need to know the counts).

A sender lays its array into its cell once, part 0 before the opening and a whole cell a round, and everybody copies it
from there to its place. In its table all send counts are alike, so the verdict is that of all_to_all_v, and the next
round's cell is free for the same reason: a rank that has seen step k of all peers knows that they have read step k - 1.
Cost, S the sum of all arrays: a ceil(max(array) / cell) + n^2 table look-ups + (S + own array) b.

Arguments: see `engine/protocol/count_tables.py`.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek
from shmcoll.engine.collective import COUNTS, DTYPE, EXTRA, IN_PHASES, Collective
from shmcoll.engine.protocol.count_tables import ANYONE, is_opening, judge, keep_own, lay, lay_table, rounds_of, take
from shmcoll.engine.protocol.sync import meet, publish_step, release_cells

COVERS = DTYPE


def all_gather_v(ctx):
    status = agree(ctx) if is_opening(ctx) else c.OK
    return move(ctx) if status == c.OK else status


def agree(ctx):
    """Open, exchange the tables, and judge them. What is sent is the whole array and always fits."""
    sequence = lay_table(ctx, COVERS)
    lay(ctx, sequence, 0, peek(ctx + c.RANK), peek(ctx + c.CELL_BYTES), 0)
    status = meet(ctx, sequence)
    return judge(ctx, sequence, ANYONE, ANYONE) if status == c.OK else status


def move(ctx):
    """Bring every array from its owner's cell to its place in the result."""
    sequence, size, me = peek(ctx + c.SEQUENCE), peek(ctx + c.SIZE), peek(ctx + c.RANK)
    part = peek(ctx + c.CELL_BYTES)
    rounds = max(rounds_of(ctx, sequence, ANYONE, ANYONE, peek(ctx + c.X + c.ITEM), part), 1)
    keep_own(ctx)
    for k in range(rounds):
        if k > 0:
            lay(ctx, sequence, k, me, part, 0)
            publish_step(ctx, sequence, k)
        for i in range(1, size):
            peer = me + i if me + i < size else me + i - size
            status = take(ctx, sequence, k, peer, part, 0)
            if status != c.OK:
                return status
    return release_cells(ctx, sequence, rounds, rounds)


COLLECTIVE = Collective(all_gather_v, code=15, form=EXTRA | IN_PHASES | COUNTS, covers=COVERS)
