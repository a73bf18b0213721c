"""gather_v: the root gets the arrays of all ranks, which may have any lengths, at displacements that it chooses; the
others get nothing (MPI_Gatherv without the need to know the counts).

Every rank except the root copies its array into its cell, a whole cell per round, and the root copies it from there to
its place. All ranks check what the root receives. Cost: a + n table look-ups + 2 S b at a sender, a + n table look-ups
+ sum(S) b at the root; the copies of different senders overlap. A long shared array is read where it is, as in gather:
its sender copies nothing.

Protocol: `engine/protocol/block_mover.py`.

Arguments: ARGUMENT is the root, ARGUMENT_2 the mark of the elements; else see `engine/protocol/count_tables.py`.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek
from shmcoll.engine.collective import COUNTS, DTYPE, EXTRA, IN_PHASES, OUT_AT_ROOT, ROOTED, Collective
from shmcoll.engine.kernels.element_marks import in_words
from shmcoll.engine.protocol.count_checks import ANYONE
from shmcoll.engine.protocol.count_tables import move_counted
from shmcoll.engine.protocol.ways import TO_ROOT

COVERS = DTYPE


def gather_v(ctx):
    return move_counted(ctx, COVERS, ANYONE, peek(ctx + c.ARGUMENT), False, TO_ROOT)


COLLECTIVE = Collective(
    gather_v,
    code=13,
    form=ROOTED | OUT_AT_ROOT | EXTRA | IN_PHASES | COUNTS,
    covers=COVERS,
    describe=lambda _root, mark: in_words(mark),
)
