"""all_gather: every rank gets the arrays of all ranks, in rank order.

Every rank copies its array into its cell once, and all other ranks copy it from there to its place. Longer arrays go in
rounds through the two cells of each rank. This is a direct exchange. A ring or a Bruck algorithm saves messages, which
do not exist here: each byte is copied in once and out n - 1 times in any order. Each rank starts with its right
neighbour, so that the ranks do not all read the same cell at once. There is one sync if the array fits a cell, else
one per round. Cost: a ceil(S / cell) + (n + 1) S b. This includes a rank's own part, which it copies while the cache
has it. Peers read a long array where it is, if they can: 2 a + n S b.

Protocol: one sync if the array fits a cell and is not exposed; else `engine/protocol/block_mover.py`. In place, x is a
part of the result that no rank writes, so it may be exposed.

Arguments: ARGUMENT_2 is the mark of the elements; EXTRA is the address of n target addresses, or 0 for one array.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek
from shmcoll.engine.collective import GATHERS, OWN_PART, SHAPE, Collective
from shmcoll.engine.kernels.element_marks import in_words
from shmcoll.engine.protocol.block_mover import copy_own, exchange_blocks, map_blocks, map_targets, target_of
from shmcoll.engine.protocol.cells import payload, write_cell
from shmcoll.engine.protocol.count_checks import ANYONE
from shmcoll.engine.protocol.nontemporal import copy_to_unread
from shmcoll.engine.protocol.sync import begin, exchange_headers, peer_after
from shmcoll.engine.protocol.ways import ALL_TO_ALL, is_short

COVERS = SHAPE


def all_gather(ctx):
    turn, length, targets = begin(ctx, COVERS), peek(ctx + c.X + c.BYTES), peek(ctx + c.EXTRA)
    map_blocks(ctx, ANYONE, ANYONE, length, False)
    if targets:
        map_targets(ctx, 0, 1, targets)
    if not is_short(ctx, length, length):
        return exchange_blocks(ctx, turn, ALL_TO_ALL, length, targets == 0)
    write_cell(ctx, payload(ctx, peek(ctx + c.RANK), turn, length), peek(ctx + c.X + c.DATA), length)
    status = exchange_headers(ctx)
    if status != c.OK:
        return status
    copy_own(ctx, 0, length)
    for i in range(1, peek(ctx + c.SIZE)):
        peer = peer_after(ctx, i)
        copy_to_unread(ctx, target_of(ctx, peer), payload(ctx, peer, turn, length), length)
    return c.OK


COLLECTIVE = Collective(all_gather, 8, GATHERS | OWN_PART, COVERS, plans=True, describe=lambda _, mark: in_words(mark))
