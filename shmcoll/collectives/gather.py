"""gather: the root gets the arrays of all ranks, in rank order; the others get nothing.

Every rank except the root copies its array into its cell, and the root copies it from there to its place. Longer arrays
go through the two cells of the sender in turn.
Cost: a + 2 S b at a sender, a + (n - 1) S b at the root, where copies of different ranks overlap. The root
reads a long shared array where it is: then its sender copies nothing.

Protocol: an eager operation (`engine/protocol/sync.py`) if the array fits beside a header: only the root waits. One
sync if it fits a cell and is not exposed; else `engine/protocol/block_mover.py`.

Arguments: ARGUMENT is the root, ARGUMENT_2 the mark of the elements; EXTRA, at the root, the address of n target
addresses, or 0 for one array.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek
from shmcoll.engine.collective import GATHERS, OUT_AT_ROOT, OWN_PART, ROOTED, SHAPE, Collective
from shmcoll.engine.kernels.element_marks import in_words
from shmcoll.engine.protocol.block_mover import copy_own, exchange_blocks, map_blocks, map_targets, target_of
from shmcoll.engine.protocol.cells import EAGER, beside_header, may_be_eager, payload, write_cell
from shmcoll.engine.protocol.count_checks import ANYONE
from shmcoll.engine.protocol.nontemporal import copy_to_unread
from shmcoll.engine.protocol.sync import announce, exchange_headers, keep_room, next_turn, peer_after, publish_header
from shmcoll.engine.protocol.ways import TO_ROOT, is_short

COVERS = SHAPE


def gather(ctx):
    announce(ctx, COVERS)
    length, targets = peek(ctx + c.X + c.BYTES), peek(ctx + c.EXTRA)
    me, root = peek(ctx + c.RANK), peek(ctx + c.ARGUMENT)
    eager = may_be_eager(length)
    if me != root and eager:
        copy(beside_header(ctx, me), peek(ctx + c.X + c.DATA), length)
        publish_header(ctx)
        return keep_room(ctx)
    turn = EAGER if eager else next_turn(ctx)
    map_blocks(ctx, ANYONE, root, length, False)
    if targets and me == root:
        map_targets(ctx, 0, 1, targets)
    if not eager and not is_short(ctx, length, length):
        share, has_result = (0, targets == 0) if me == root else (length, False)
        return exchange_blocks(ctx, turn, TO_ROOT, share, has_result)
    if me != root:
        write_cell(ctx, payload(ctx, me, turn, length), peek(ctx + c.X + c.DATA), length)
    status = exchange_headers(ctx)
    if status != c.OK or me != root:
        return status
    for i in range(1, peek(ctx + c.SIZE)):
        peer = peer_after(ctx, i)
        copy_to_unread(ctx, target_of(ctx, peer), payload(ctx, peer, turn, length), length)
    copy_own(ctx, 0, length)
    return c.OK


COLLECTIVE = Collective(
    gather,
    code=4,
    form=ROOTED | OUT_AT_ROOT | GATHERS | OWN_PART,
    covers=COVERS,
    plans=True,
    describe=lambda _root, mark: in_words(mark),
)
