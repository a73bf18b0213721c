"""The algorithm `flat` of scan and exscan, for few bytes.

Every rank stages its array, publishes its header, and reduces the arrays of the ranks before it, in their order. If the
array fits beside a header, a rank waits only for the ranks before it (an eager operation of `engine/protocol/sync.py`).
Otherwise all ranks meet.

In an eager operation of more than two ranks, the sums are kept for the ranks behind. Words of rank r beside its header,
behind its array, if there is room for them; only r writes them:

    KEPT   0, or 1 once the sum is there
    SUM    of the arrays of ranks 0, 1, ..., r, in the accumulator's type

    1. r stages its array, stores KEPT = 0, and publishes its header
    2. r meets the rank before it, then the one before that, and so on, until it meets one whose KEPT is 1, or rank 0
    3. r takes that SUM, or the array of rank 0, and adds the arrays of the ranks in between, and its own; so it adds in
       the same order as without sums
    4. r stores SUM, then KEPT = 1 with release. Neither rank 0 nor the last rank keeps a sum

So ranks that enter together wait for each other's arrays only, as without sums. A rank that comes late, as in a stream
of calls, reads one header: 8 ranks read 7 instead of 28.

Why r need not meet the ranks before one that has kept its sum: that rank has met them, or one that has met them. So
all of them have published this operation, and each fingerprint has been compared, in a chain, with that of r.

Nobody waits for KEPT. So a rank waits for the same headers as without sums, and no rank waits forever (`sync.py`). A
rank that ends between 1 and 4 leaves KEPT at 0, and the ranks behind it read the arrays.

KEPT is read with acquire after the header has come, so a reader sees the 0 of this operation or a later 1, and never
what an earlier operation has left there. The header stays until this rank has finished the operation (`sync.py`).
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, load_acquire, peek, store, store_release
from shmcoll.engine.kernels.kernels import START, STEP, STORE
from shmcoll.engine.layout import WORD
from shmcoll.engine.protocol.cells import beside_header, may_be_eager, payload
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
    keeps = size > 2 and has_room(ctx)
    copy(beside_header(ctx, me), peek(ctx + c.X + c.DATA), peek(ctx + c.X + c.BYTES))
    if keeps:
        store(kept(ctx, me), 0)
    publish_header(ctx)
    first = me
    while first > 0:
        first -= 1
        status = meet(ctx, first)
        if status != c.OK:
            return status
        if keeps and first > 0 and load_acquire(kept(ctx, first)):
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
    sums = peek(ctx + c.SCRATCH) if me == 0 or is_last else kept(ctx, me) + WORD
    if first > 0:
        copy(sums, kept(ctx, first) + WORD, count * accumulator_bytes(ctx))
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
        store_release(kept(ctx, me), 1)
    return c.OK


def has_room(ctx):
    """Return whether KEPT and SUM fit beside a header."""
    sums = peek(ctx + c.X + c.COUNT) * accumulator_bytes(ctx)
    return may_be_eager(whole_words(peek(ctx + c.X + c.BYTES)) + WORD + sums)


def kept(ctx, rank):
    """Return the address of KEPT of a rank, for this operation. SUM is behind it."""
    return beside_header(ctx, rank) + whole_words(peek(ctx + c.X + c.BYTES))


def whole_words(length):
    return (length + WORD - 1) & -WORD
