"""reduce of shared arrays, if x of every rank is in the arena: nothing is copied into cells. Each rank reduces its part
of all arrays where they are: the root into its result, the others into their cells, from where the root copies it.
Cost for each round: 2 a + (n - 1) cell g, and (n - 1) cell b at the root, without the ring's copies.

Protocol. In round k there are n parts of the elements, each at most a cell long:

    x of any rank       rank r alone reads part r of the round, before its step k + 1
    cell (s + k) & 1    rank r, if it is not the root, fills it with part r of round k before its step k + 1; for k >= 2
                        after the root has done k - 1 steps, that is, has copied round k - 2
    result of the root  the root writes part r after it has seen step k + 1 of rank r, which has then read part r of
                        the root's x. So the result may be exactly x
    step k + 1          of the root: it has copied round k

After the last round every rank makes the same last step, one more than there are rounds, and waits for that of all
others: then all have read the arrays, and the root has copied from the cells. `engine/protocol/exposure.py` says why a
rank asks before whether the group has ended. Each step waits only for earlier steps, so no rank waits forever.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek
from shmcoll.engine.protocol.cells import full_cell
from shmcoll.engine.protocol.exposure import end_exposure
from shmcoll.engine.protocol.nontemporal import copy_to_result
from shmcoll.engine.protocol.shared_reduction import fold_shared_slices
from shmcoll.engine.protocol.sync import await_step, peer_after, publish_step


def reduce_shared(ctx, sequence, root):
    size, me = peek(ctx + c.SIZE), peek(ctx + c.RANK)
    chunk = size * (peek(ctx + c.CELL_BYTES) // peek(ctx + c.X + c.ITEM))
    rounds = -(-peek(ctx + c.X + c.COUNT) // chunk)
    for k in range(rounds):
        status = reduce_part(ctx, sequence, k, chunk, root)
        if status == c.OK and me == root:
            status = collect_parts(ctx, sequence, k, chunk)
        if status != c.OK:
            return status
        publish_step(ctx, sequence, k + 1)
    return end_exposure(ctx, sequence, rounds + 1)


def reduce_part(ctx, sequence, k, chunk, root):
    """Reduce this rank's part of round k into the result or into its cell."""
    me, item = peek(ctx + c.RANK), peek(ctx + c.X + c.ITEM)
    first, end = part(ctx, k, me, chunk), part(ctx, k, me + 1, chunk)
    if me == root:
        return fold_shared_slices(ctx, sequence, peek(ctx + c.OUT + c.DATA), first, end)
    if k >= 2:
        status = await_step(ctx, sequence, k - 1, root)
        if status != c.OK:
            return status
    place = full_cell(ctx, me, sequence, k)
    return fold_shared_slices(ctx, sequence, place - first * item, first, end)


def collect_parts(ctx, sequence, k, chunk):
    """Copy the parts of round k of all other ranks to the result, each after it has been published."""
    item = peek(ctx + c.X + c.ITEM)
    for i in range(1, peek(ctx + c.SIZE)):
        peer = peer_after(ctx, i)
        status = await_step(ctx, sequence, k + 1, peer)
        if status != c.OK:
            return status
        first, end = part(ctx, k, peer, chunk), part(ctx, k, peer + 1, chunk)
        target = peek(ctx + c.OUT + c.DATA) + first * item
        place = full_cell(ctx, peer, sequence, k)
        copy_to_result(ctx, target, place, (end - first) * item)
    return c.OK


def part(ctx, k, rank, chunk):
    """Return the first element of the part of a rank in round k; for rank n the end of the round."""
    count = min(chunk, peek(ctx + c.X + c.COUNT) - k * chunk)
    return k * chunk + count * rank // peek(ctx + c.SIZE)
