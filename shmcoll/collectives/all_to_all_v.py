"""all_to_all_v: every rank sends a different number of elements to every other, from displacements to displacements
(NKI's all_to_all_v; MPI_Alltoallv without the need to know the receive counts).

After the opening sync each rank checks the whole n x n matrix of counts (`engine/protocol/count_tables.py`, which also
has the arguments). A cell is divided evenly among the n receivers; part 0 lies there before the opening.
Cost: a ceil(n max(block) / cell) + n^2 table look-ups + 2 S b.
"""

from shmcoll.collectives.all_to_all import part_bytes
from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek
from shmcoll.engine.collective import COUNTS, DTYPE, EXTRA, IN_PHASES, OWN_COUNTS, Collective
from shmcoll.engine.protocol.count_tables import (
    ANYONE,
    is_opening,
    judge,
    keep_own,
    lay,
    lay_table,
    rounds_of,
    sends_fit,
    take,
)
from shmcoll.engine.protocol.sync import meet, publish_step, release_cells

COVERS = DTYPE


def all_to_all_v(ctx):
    status = agree(ctx) if is_opening(ctx) else c.OK
    return move(ctx) if status == c.OK else status


def agree(ctx):
    """Open, exchange the tables, and judge them."""
    sequence = lay_table(ctx, COVERS)
    if sends_fit(ctx, sequence, peek(ctx + c.RANK), ANYONE):
        fill(ctx, sequence, 0)
    status = meet(ctx, sequence)
    return judge(ctx, sequence, ANYONE, ANYONE) if status == c.OK else status


def move(ctx):
    """Bring every block from the sender's cell to its place in the result."""
    sequence, size, me = peek(ctx + c.SEQUENCE), peek(ctx + c.SIZE), peek(ctx + c.RANK)
    part = part_bytes(ctx)
    rounds = max(rounds_of(ctx, sequence, ANYONE, ANYONE, peek(ctx + c.X + c.ITEM), part), 1)
    keep_own(ctx)
    for k in range(rounds):
        if k > 0:
            fill(ctx, sequence, k)
            publish_step(ctx, sequence, k)
        for i in range(1, size):
            peer = me + i if me + i < size else me + i - size
            status = take(ctx, sequence, k, peer, part, me * part)
            if status != c.OK:
                return status
    return release_cells(ctx, sequence, rounds, rounds)


def fill(ctx, sequence, k):
    """Lay the k-th part of every peer's block into this rank's cell."""
    part = part_bytes(ctx)
    for peer in range(peek(ctx + c.SIZE)):
        if peer != peek(ctx + c.RANK):
            lay(ctx, sequence, k, peer, part, peer * part)


COLLECTIVE = Collective(
    all_to_all_v,
    code=5,
    form=EXTRA | IN_PHASES | COUNTS | OWN_COUNTS,
    covers=COVERS,
)
