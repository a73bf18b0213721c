"""all_gather_v: every rank gets the arrays of all ranks, which may have any lengths, at displacements that it chooses
(MPI_Allgatherv without the need to know the counts).

A sender copies its array into its cell, part 0 before the opening and a whole cell per round, and all ranks copy it
from there to its place. Cost, with S the sum of all arrays: a ceil(max(array) / cell) + n^2 table look-ups +
(S + own array) b. A long array is read where it is, if that can be, as in all_gather: 2 a + n^2 table look-ups + S b.

Protocol: in the table of a rank all send counts are equal, so the check is that of all_to_all_v. The next round's cell
is free for the same reason: a rank that has seen step k of all peers knows that they have read step k - 1.

Arguments: ARGUMENT_2 is the mark of the elements; else see `engine/protocol/count_tables.py`.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek
from shmcoll.engine.collective import COUNTS, DTYPE, EXTRA, IN_PHASES, Collective
from shmcoll.engine.kernels.element_marks import in_words
from shmcoll.engine.protocol.count_checks import ANYONE
from shmcoll.engine.protocol.count_tables import (
    begin_with_table,
    copy_own_block,
    exchange_tables,
    fetch_parts,
    is_opening,
    rounds_of,
    stage_part,
)
from shmcoll.engine.protocol.exposure import ALL_READ, EVERY_HEADER, end_exposure, how_many_expose
from shmcoll.engine.protocol.sync import publish_step, release_cells

COVERS = DTYPE


def all_gather_v(ctx):
    status = open_and_check(ctx) if is_opening(ctx) else c.OK
    return move(ctx) if status == c.OK else status


def open_and_check(ctx):
    """Open, exchange the tables, and check them. A rank sends its whole array, which always fits."""
    sequence = begin_with_table(ctx, COVERS, peek(ctx + c.X + c.BYTES), peek(ctx + c.TO_ALL_BYTES) // ALL_READ)
    stage_part(ctx, sequence, 0, peek(ctx + c.RANK), peek(ctx + c.CELL_BYTES), 1)
    return exchange_tables(ctx, sequence, ANYONE, ANYONE)


def move(ctx):
    """Copy every array from its owner's cell to its place in the result."""
    sequence, me = peek(ctx + c.SEQUENCE), peek(ctx + c.RANK)
    part = peek(ctx + c.CELL_BYTES)
    rounds = max(rounds_of(ctx, sequence, ANYONE, ANYONE, peek(ctx + c.X + c.ITEM), part), 1)
    copy_own_block(ctx)
    for k in range(rounds):
        if k > 0:
            stage_part(ctx, sequence, k, me, part, 1)
            publish_step(ctx, sequence, k)
        status = fetch_parts(ctx, sequence, k, part, 1)
        if status != c.OK:
            return status
    if how_many_expose(ctx, sequence, EVERY_HEADER):
        return end_exposure(ctx, sequence, rounds)
    return release_cells(ctx, sequence, rounds, rounds)


COLLECTIVE = Collective(
    all_gather_v,
    code=15,
    form=EXTRA | IN_PHASES | COUNTS,
    covers=COVERS,
    describe=lambda _, mark: in_words(mark),
)
