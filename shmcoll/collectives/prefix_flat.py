"""The algorithm `flat` of scan and exscan, for few bytes.

Every rank stages its array, publishes its header, and reduces the arrays of the ranks before it, in their order. If the
array fits beside a header, a rank waits only for the ranks before it (an eager operation of `engine/protocol/sync.py`).
Otherwise all ranks meet.

In an eager operation of more than two ranks, the sums are kept for the ranks behind, if there is room for them
(`engine/protocol/kept_sums.py`):

    1. r stages its array, forgets its sum, and publishes its header
    2. r meets the rank before it, then the one before that, and so on, until it meets one that has kept its sum, or
       rank 0
    3. r takes that sum, or the array of rank 0, and adds the arrays of the ranks in between, and its own; so it adds in
       the same order as without sums
    4. r keeps its sum. Neither rank 0 nor the last rank does

So ranks that enter together wait for each other's arrays only, as without sums. A rank that comes late, as in a stream
of calls, reads one header: 8 ranks read 7 instead of 28.

Why r need not meet the ranks before one that has kept its sum: that rank has met them, or one that has met them. So
all of them have published this operation, and each fingerprint has been compared, in a chain, with that of r.

Nobody waits for a sum. So a rank waits for the same headers as without sums, and no rank waits forever (`sync.py`). A
rank that ends between 1 and 4 has kept none, and the ranks behind it read the arrays.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek
from shmcoll.engine.kernels.kernels import START, STEP, STORE
from shmcoll.engine.protocol.cells import beside_header, may_be_eager, payload
from shmcoll.engine.protocol.kept_sums import forget_sum, has_sum, keep_sum, place_of_sum, sum_fits
from shmcoll.engine.protocol.reduction import accumulator_bytes, fold, reduce
from shmcoll.engine.protocol.sync import keep_last_slot, meet, meet_all, next_turn, publish_header


def flat(ctx, includes_own):
    """Reduce the arrays of the ranks before this one, and its own if `includes_own`, into its result."""
    me, length = peek(ctx + c.RANK), peek(ctx + c.X + c.BYTES)
    if may_be_eager(length):
        return eager(ctx, includes_own)
    turn = next_turn(ctx)
    copy(payload(ctx, me, turn, length), peek(ctx + c.X + c.DATA), length)
    publish_header(ctx)
    status = meet_all(ctx)
    if status != c.OK or me + includes_own == 0:
        return status
    places = payload(ctx, 0, turn, length)
    return fold_of(ctx, places, payload(ctx, 1, turn, length) - places, me + includes_own)


def fold_of(ctx, places, stride, ranks):
    """Reduce the arrays of the first `ranks` ranks into the result, from where `fold` finds them."""
    return fold(ctx, peek(ctx + c.OUT + c.DATA), places, stride, peek(ctx + c.X + c.COUNT), 0, ranks)


def eager(ctx, includes_own):
    """Do the same for an array that fits beside a header."""
    me, size = peek(ctx + c.RANK), peek(ctx + c.SIZE)
    keeps = size > 2 and sum_fits(ctx)
    copy(beside_header(ctx, me), peek(ctx + c.X + c.DATA), peek(ctx + c.X + c.BYTES))
    if keeps:
        forget_sum(ctx)
    publish_header(ctx)
    first = me
    for rank in range(me - 1, -1, -1):
        first = rank
        status = meet(ctx, rank)
        if status != c.OK:
            return status
        if keeps and rank > 0 and has_sum(ctx, rank):
            break
    if me + includes_own > 0:
        status = add(ctx, first, includes_own, keeps)
        if status != c.OK:
            return status
    return keep_last_slot(ctx)


def add(ctx, first, includes_own, keeps):
    """Reduce into the result from the sum of rank `first` on, or from the array of rank 0, and keep the sum."""
    me, count = peek(ctx + c.RANK), peek(ctx + c.X + c.COUNT)
    if not keeps:
        places = beside_header(ctx, 0)
        return fold_of(ctx, places, peek(ctx + c.STRIDE), me + includes_own)
    result, is_last = peek(ctx + c.OUT + c.DATA), me == peek(ctx + c.SIZE) - 1
    sums = peek(ctx + c.SCRATCH) if me == 0 or is_last else place_of_sum(ctx, me)
    if first > 0:
        copy(sums, place_of_sum(ctx, first), count * accumulator_bytes(ctx))
    else:
        reduce(ctx, START, sums, 0, beside_header(ctx, 0), count)
    for rank in range(first + 1, me):
        status = reduce(ctx, STEP, 0, sums, beside_header(ctx, rank), count)
        if status != c.OK:
            return status
    if not includes_own:
        reduce(ctx, STORE, result, sums, 0, count)
        if is_last:
            return c.OK
    if me > 0:
        status = reduce(ctx, STEP, 0, sums, beside_header(ctx, me), count)
        if status != c.OK:  # of a user's function; in exscan it is for the ranks behind, which will find the same
            return status if includes_own else c.OK
    if includes_own:
        reduce(ctx, STORE, result, sums, 0, count)
    if me > 0 and not is_last:
        keep_sum(ctx)
    return c.OK
