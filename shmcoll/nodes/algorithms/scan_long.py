"""Long scan and exscan over nodes, whose ranks are in the order of the nodes, in segments.

Each node reduces a segment to its leader, which sends the total to the leaders of all nodes behind, and shares what
comes from those before with its node. Each rank combines that with the scan in its node.
Cost: O(0) + R + A + (N - 1) S / B, with R, a reduce, a broadcast and a scan in a node; see `opening.py`.

Why there is no circle: a leader waits for those of nodes before it, and its own messages are begun before. The result
may be in place of the operand: a segment of it is written after its last use as an operand. What a node has reduced is
in OWN 0, what is before the node in OWN 1.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek, poke
from shmcoll.engine.layout import WORD
from shmcoll.nodes.algorithms import partials as p
from shmcoll.nodes.algorithms.long_moves import receive_from_rank, send_to_rank
from shmcoll.nodes.opening import layout as o
from shmcoll.nodes.opening.node_calls import broadcast_in_node, reduce_to_leader, scan_in_node
from shmcoll.nodes.opening.ranks import leader, ranks_in_all
from shmcoll.nodes.opening.requests import await_messages


def scan_long(state, includes_own):
    """Reduce ELEMENTS elements at SOURCE over the ranks before this one, and, in a scan, this one, into RESULT."""
    item, stored, status, at = peek(state + o.ITEM), peek(state + o.STORED_ITEM), c.OK, 0
    step, size = max(p.SEGMENT_BYTES // item // peek(state + o.NODES), 1), ranks_in_all(state)
    while at < peek(state + o.ELEMENTS) and status == c.OK:
        count = min(step, peek(state + o.ELEMENTS) - at)
        operand = p.widened(state, peek(state + o.WIDE), peek(state + o.SOURCE) + at * stored, count)
        status = find_totals_before(state, operand, count)
        if status == c.OK:
            status = combine_with_node(state, includes_own, operand, count)
        if status == c.OK and (includes_own or peek(state + o.NODE) > 0 or peek(state + o.INDEX) > 0):
            p.finish(state, peek(state + o.RESULT) + at * stored, peek(state + o.TOTAL), count, size)
        at += count
    return status


def find_totals_before(state, operand, count):
    """Write what the nodes before this one have, combined, to OWN 1 of all ranks of this node."""
    total, before, status = operand, p.own_place(state, 1), c.OK
    here, nodes, length = peek(state + o.NODE), peek(state + o.NODES), count * peek(state + o.ITEM)
    if not p.is_alone(state):
        total = p.own_place(state, 0)
        status = reduce_to_leader(state, operand, count, total)
    if peek(state + o.IS_LEADER):
        for node in range(here):
            poke(peek(state + o.ROW_PLACES) + node * WORD, p.part(state, 0, node))
            receive_from_rank(state, 0, leader(state, node), p.part(state, 0, node), length)
        for node in range(here + 1, nodes if status == c.OK else 0):
            send_to_rank(state, 0, leader(state, node), total, length)
        if status == c.OK:
            status = await_messages(state, 0)
        if status == c.OK:
            status = p.fold(state, before, here, 0, count)
    return broadcast_in_node(state, before, length, 0) if here > 0 and status == c.OK else status


def combine_with_node(state, includes_own, operand, count):
    """Write the result of this rank, as partial results, to TOTAL."""
    total, before, has_own = peek(state + o.TOTAL), p.own_place(state, 1), includes_own or peek(state + o.INDEX) > 0
    status = scan_in_node(state, includes_own, operand, total, count)
    if peek(state + o.NODE) == 0 or status != c.OK:
        return status
    if has_own:
        return p.join(state, total, before, total, count)
    poke(peek(state + o.ROW_PLACES), before)
    return p.fold(state, total, 1, 0, count)
