"""all_to_all_v: every rank sends a different number of elements to every other rank, and receives them at displacements
that it chooses (NKI's all_to_all_v; MPI_Alltoallv without the need to know the receive counts).

After the opening sync each rank checks the whole n x n matrix of counts. A cell is divided evenly among the n - 1
receivers. Cost: a ceil((n - 1) max(block) / cell) + n^2 table look-ups + 2 S b. A long array is read where it is, if
that can be, as in all_gather: 2 a + n^2 table look-ups + S b.

Protocol: part 0 of every block is in the cell before the opening. Then the rounds of all_gather follow.

Arguments: ARGUMENT_2 is the mark of the elements; else see `engine/protocol/count_tables.py`.
"""

from shmcoll.collectives.scatter_v import part_bytes, readers
from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek
from shmcoll.engine.collective import COUNTS, DTYPE, EXTRA, IN_PHASES, OWN_COUNTS, Collective
from shmcoll.engine.kernels.element_marks import in_words
from shmcoll.engine.protocol.count_checks import ANYONE, sends_fit
from shmcoll.engine.protocol.count_tables import (
    begin_with_table,
    copy_own_block,
    exchange_tables,
    fetch_parts,
    is_opening,
    rounds_of,
    stage_part,
    table,
)
from shmcoll.engine.protocol.exposure import EVERY_HEADER, end_exposure, how_many_expose
from shmcoll.engine.protocol.pace import limit_by_pace
from shmcoll.engine.protocol.sync import publish_step, release_cells

COVERS = DTYPE


def all_to_all_v(ctx):
    status = open_and_check(ctx) if is_opening(ctx) else c.OK
    return move(ctx) if status == c.OK else status


def open_and_check(ctx):
    """Open, exchange the tables, and check them."""
    share = peek(ctx + c.X + c.BYTES) // peek(ctx + c.SIZE)
    limit = limit_by_pace(ctx, share, peek(ctx + c.EXCHANGE_BYTES))
    sequence = begin_with_table(ctx, COVERS, share, limit)
    if sends_fit(table(ctx, peek(ctx + c.RANK), sequence), peek(ctx + c.SIZE), ANYONE):
        stage(ctx, sequence, 0)
    return exchange_tables(ctx, sequence, ANYONE, ANYONE)


def move(ctx):
    """Copy every block from the sender's cell to its place in the result."""
    sequence = peek(ctx + c.SEQUENCE)
    part = part_bytes(ctx)
    rounds = max(rounds_of(ctx, sequence, ANYONE, ANYONE, peek(ctx + c.X + c.ITEM), part), 1)
    copy_own_block(ctx)
    for k in range(rounds):
        if k > 0:
            stage(ctx, sequence, k)
            publish_step(ctx, sequence, k)
        status = fetch_parts(ctx, sequence, k, part, readers(ctx))
        if status != c.OK:
            return status
    if how_many_expose(ctx, sequence, EVERY_HEADER):
        return end_exposure(ctx, sequence, rounds)
    return release_cells(ctx, sequence, rounds, rounds)


def stage(ctx, sequence, k):
    """Copy the k-th part of every peer's block into this rank's cell."""
    part = part_bytes(ctx)
    for peer in range(peek(ctx + c.SIZE)):
        if peer != peek(ctx + c.RANK):
            stage_part(ctx, sequence, k, peer, part, readers(ctx))


COLLECTIVE = Collective(
    all_to_all_v,
    code=5,
    form=EXTRA | IN_PHASES | COUNTS | OWN_COUNTS,
    covers=COVERS,
    describe=lambda _, mark: in_words(mark),
)
