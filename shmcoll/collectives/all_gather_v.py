"""all_gather_v: every rank gets the arrays of all ranks, which may have any lengths, at displacements that it chooses
(MPI_Allgatherv without the need to know the counts).

A sender copies its array into its cell, a whole cell per round, and all ranks copy it from there to its place. Cost,
with S the sum of all arrays: a ceil(max(array) / cell) + n^2 table look-ups + (S + own array) b. A long array is read
where it is, if that can be, as in all_gather: 2 a + n^2 table look-ups + S b.

Protocol: `engine/protocol/block_mover.py`. In the table of a rank all send counts are equal.

Arguments: ARGUMENT_2 is the mark of the elements; else see `engine/protocol/count_tables.py`.
"""

from shmcoll.engine.collective import COUNTS, DTYPE, EXTRA, IN_PHASES, Collective
from shmcoll.engine.kernels.element_marks import in_words
from shmcoll.engine.protocol.count_checks import ANYONE
from shmcoll.engine.protocol.count_tables import move_counted
from shmcoll.engine.protocol.ways import ALL_TO_ALL

COVERS = DTYPE


def all_gather_v(ctx):
    return move_counted(ctx, COVERS, ANYONE, ANYONE, False, ALL_TO_ALL)


COLLECTIVE = Collective(
    all_gather_v,
    code=15,
    form=EXTRA | IN_PHASES | COUNTS,
    covers=COVERS,
    describe=lambda _, mark: in_words(mark),
)
