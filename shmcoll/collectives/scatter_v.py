"""scatter_v: the root sends each rank a block of its array, of any length and from any displacement (MPI_Scatterv; the
others do not need to know the count or the dtype).

The root's cell is divided evenly among the n - 1 receivers. The root copies part 0 of every block there before the
opening, and a receiver copies its part from there to its place. All ranks check what the root sends and whether it is
what each receiver expects. A rank without an array to receive into learns count and dtype from the root's table.
Cost: a ceil((n - 1) max(block) / cell) + n table look-ups + S b at the root, and one block's b at each receiver,
which overlap. A long array is read where it is, if that can be, as in scatter: the root copies its own block only.

Protocol: `engine/protocol/block_mover.py`.

Arguments: ARGUMENT is the root, ARGUMENT_2 the flag ROWS of the mark (`engine/kernels/element_marks.py`) or 0; else see
`engine/protocol/count_tables.py`. Only the root has an x. The mark of the elements is above the dtype code in
ELEMENT_TYPE, since a rank that only receives need not know it.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek
from shmcoll.engine.collective import COUNTS, EXTRA, IN_PHASES, NOTHING, OWN_COUNTS, ROOTED, X_AT_ROOT, Collective
from shmcoll.engine.kernels.element_marks import in_words
from shmcoll.engine.protocol.count_checks import ANYONE
from shmcoll.engine.protocol.count_tables import move_counted
from shmcoll.engine.protocol.ways import FROM_ROOT

COVERS = NOTHING


def scatter_v(ctx):
    return move_counted(ctx, COVERS, peek(ctx + c.ARGUMENT), ANYONE, True, FROM_ROOT)


COLLECTIVE = Collective(
    scatter_v,
    code=14,
    form=ROOTED | X_AT_ROOT | EXTRA | IN_PHASES | COUNTS | OWN_COUNTS,
    covers=COVERS,
    describe=lambda _root, mark: in_words(mark),
)
