"""Long reductions in the order of the ranks: every rank gets the operands of all, in segments, and combines them.

For operators that are not commutative where ranks of a node are not neighbours, and for scans there. Cost for n ranks:
O(0) + A + n S / B + n S g; see `opening.py` and `reduce_long.py` for the letters.

The result may be in place of the operand: a segment of it is written after that segment of the operand has been sent.
Row r of a segment is in OWN, behind those of the ranks before.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek, poke
from shmcoll.engine.layout import WORD
from shmcoll.nodes.algorithms.long_moves import all_gather_long
from shmcoll.nodes.algorithms.partials import SEGMENT_BYTES, finish, fold, widened
from shmcoll.nodes.opening import layout as o
from shmcoll.nodes.opening.ranks import ranks_in_all


def ordered_long(state, ranks, begin, end):
    """Reduce ELEMENTS elements at SOURCE over the first `ranks` ranks, and write those from `begin` to `end` into
    RESULT."""
    size, item, stored, status, at = ranks_in_all(state), peek(state + o.ITEM), peek(state + o.STORED_ITEM), c.OK, 0
    step = max(SEGMENT_BYTES // item // size, 1)
    while at < peek(state + o.ELEMENTS) and status == c.OK:
        count = min(step, peek(state + o.ELEMENTS) - at)
        operand = widened(state, peek(state + o.WIDE), peek(state + o.SOURCE) + at * stored, count)
        status = all_gather_long(state, operand, count * item, peek(state + o.OWN))
        for rank in range(size):
            poke(peek(state + o.ROW_PLACES) + rank * WORD, peek(state + o.OWN) + rank * count * item)
        first, behind = max(begin, at), min(end, at + count)
        if status == c.OK and first < behind:
            status = fold(state, peek(state + o.TOTAL), ranks, (first - at) * item, behind - first)
            if status == c.OK:
                target = peek(state + o.RESULT) + (first - begin) * stored
                finish(state, target, peek(state + o.TOTAL), behind - first, size)
        at += count
    return status
