"""all_to_all_v: every rank sends a different number of elements to every other rank, and receives them at displacements
that it chooses (NKI's all_to_all_v; MPI_Alltoallv without the need to know the receive counts).

After the opening sync each rank checks the whole n x n matrix of counts. A cell is divided evenly among the n - 1
receivers. Cost: a ceil((n - 1) max(block) / cell) + n^2 table look-ups + 2 S b. A long array is read where it is, if
that can be, as in all_gather: 2 a + n^2 table look-ups + S b.

Protocol: `engine/protocol/block_mover.py`.

Arguments: ARGUMENT_2 is the mark of the elements; else see `engine/protocol/count_tables.py`.
"""

from shmcoll.engine.collective import COUNTS, DTYPE, EXTRA, IN_PHASES, OWN_COUNTS, Collective
from shmcoll.engine.kernels.element_marks import in_words
from shmcoll.engine.protocol.count_checks import ANYONE
from shmcoll.engine.protocol.count_tables import move_counted
from shmcoll.engine.protocol.ways import EXCHANGE

COVERS = DTYPE


def all_to_all_v(ctx):
    return move_counted(ctx, COVERS, ANYONE, ANYONE, True, EXCHANGE)


COLLECTIVE = Collective(
    all_to_all_v,
    code=5,
    form=EXTRA | IN_PHASES | COUNTS | OWN_COUNTS,
    covers=COVERS,
    describe=lambda _, mark: in_words(mark),
)
