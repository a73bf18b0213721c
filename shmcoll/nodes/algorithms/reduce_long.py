"""all_reduce and reduce of long arrays over nodes: rails, in segments.

The ranks of a node reduce and divide a segment; rank i exchanges its slice with the ranks i of the other nodes; the
ranks of a node collect the slices. Each rank of a rail reduces one piece of the slice of all nodes, and sends the
result to the others: 2 (N - 1) / N S in all. Of 2 nodes, slices up to WHOLE_BYTES are exchanged whole: the same bytes,
in one message. If there is a ROOT, its node gets whole slices from the others, which the root gathers. While the
messages of a segment are on their way, the next one is reduced.
Cost: O(0) and the longer of R and W / B, with W = 2 (N - 1) / N S; for each segment 1 or 2 exchanges A + (N - 2) o; and
(N - 1) / (N L) S g. N nodes, L ranks of each are rails, S bytes of an array, R a reduce_scatter and an all_gather in a
node, g for a reduced byte; A, o, B, and O(S) for an opening: see `opening.py`.

The result may be in place of the operand: a part of it is written after all messages that were sent from there are
complete, and after its last use as an operand.

The requests of segment k are in the lanes k & 1, partial results, and 2 + (k & 1), pieces of the result. All ranks
begin them in the same order: partial results of 0 and 1, pieces of 0, partial results of 2, pieces of 1, ... A rank
waits for messages that others send before they wait for this rank's later ones, so there is no circle.

Source: DPML (Bayatpour et al., SC'17) and UCC's split_rail.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek, poke
from shmcoll.engine.layout import WORD
from shmcoll.engine.protocol.reduction import ALL
from shmcoll.nodes.algorithms import partials as p
from shmcoll.nodes.algorithms.long_moves import part_begin, receive_from_rank, send_to_rank
from shmcoll.nodes.opening import layout as o
from shmcoll.nodes.opening import node_calls
from shmcoll.nodes.opening.ranks import home_of, index_of, member, ranks_in_all
from shmcoll.nodes.opening.requests import await_messages

WHOLE_BYTES = 256 << 10


def gets_result(state, node):
    """Return whether a node combines what all nodes have reduced."""
    return peek(state + o.ROOT) == ALL or home_of(state, peek(state + o.ROOT)) == node


def segment_elements(state):
    """Return the elements of a segment. PARTS has room for whole slices of it, if these go to a root."""
    return max(
        p.SEGMENT_BYTES // peek(state + o.ITEM) // (1 if peek(state + o.ROOT) == ALL else peek(state + o.NODES)), 1
    )


def elements_of(state, k):
    """Return the elements of segment k."""
    step = segment_elements(state)
    return min(step, peek(state + o.ELEMENTS) - k * step)


def operand(state, k):
    return peek(state + o.SOURCE) + k * segment_elements(state) * peek(state + o.STORED_ITEM)


def result(state, k):
    return peek(state + o.RESULT) + k * segment_elements(state) * peek(state + o.STORED_ITEM)


def slice_elements(state, k):
    """Return the elements of this rank's slice of segment k: none behind the last rail."""
    count, me = elements_of(state, k), peek(state + o.INDEX)
    return part_begin(state, count, me + 1) - part_begin(state, count, me)


def own_slice(state, k):
    """Return the address of what this node has reduced of this rank's slice."""
    return operand(state, k) if p.is_alone(state) and not p.is_widened(state) else p.own_place(state, k)


def total_slice(state, k):
    """Return the address of the slice of the result, of partial results."""
    return result(state, k) if p.is_alone(state) and peek(state + o.LAST) == 0 else p.own_place(state, k)


def pieces(state, k):
    """Return in how many pieces a slice is divided: one for each node, or one."""
    nodes = peek(state + o.NODES)
    if peek(state + o.ROOT) != ALL:
        return 1
    return nodes if nodes > 2 or slice_elements(state, k) * peek(state + o.ITEM) > WHOLE_BYTES else 1


def piece_begin(state, k, node):
    """Return where the piece that a node combines begins in a slice, in bytes."""
    if pieces(state, k) == 1:
        return 0
    return piece_end_of(slice_elements(state, k), peek(state + o.NODES), node) * peek(state + o.ITEM)


def piece_elements(state, k, node):
    length, nodes = slice_elements(state, k), peek(state + o.NODES)
    if pieces(state, k) == 1:
        return length
    return piece_end_of(length, nodes, node + 1) - piece_end_of(length, nodes, node)


def piece_end_of(length, pieces_of_slice, number):
    """Return where the first `number` pieces of a slice end."""
    if number == pieces_of_slice:
        return length
    return length * number // pieces_of_slice // p.UNIT * p.UNIT


def begin_segment(state, k):
    """Reduce a segment in the node, and begin to exchange the slices of this rail."""
    count, item, status = elements_of(state, k), peek(state + o.ITEM), c.OK
    if p.is_alone(state):
        p.widened(state, p.own_place(state, k), operand(state, k), count)
    else:
        source = p.widened(state, peek(state + o.WIDE), operand(state, k), count)
        for i in range(peek(state + o.LOCAL)):
            begin = part_begin(state, count, i)
            node_calls.set_block(state, i, source + begin * item, part_begin(state, count, i + 1) - begin)
        status = node_calls.reduce_blocks(state, p.own_place(state, k))
    nodes, here, me = peek(state + o.NODES), peek(state + o.NODE), peek(state + o.INDEX)
    if me >= peek(state + o.RAILS):
        return status
    for i in range(1, nodes):
        node = (here + i) % nodes
        if gets_result(state, here):
            length = piece_elements(state, k, here) * item
            receive_from_rank(state, k & 1, member(state, node, me), p.part(state, k, node), length)
    for i in range(1, nodes):
        node = (here + i) % nodes
        if status == c.OK and gets_result(state, node):
            address, length = own_slice(state, k) + piece_begin(state, k, node), piece_elements(state, k, node) * item
            send_to_rank(state, k & 1, member(state, node, me), address, length)
    return status


def combine_piece(state, k):
    """Combine this rank's piece, and begin to exchange the pieces of the result."""
    nodes, here, me, item = peek(state + o.NODES), peek(state + o.NODE), peek(state + o.INDEX), peek(state + o.ITEM)
    if me >= peek(state + o.RAILS) or not gets_result(state, here):
        return c.OK
    begin, length = piece_begin(state, k, here), piece_elements(state, k, here)
    for node in range(nodes):
        place = own_slice(state, k) + begin if node == here else p.part(state, k, node)
        poke(peek(state + o.PART_PLACES) + node * WORD, place)
    status, total = p.combine(state, total_slice(state, k) + begin, length), total_slice(state, k)
    if pieces(state, k) == 1:
        return status
    for i in range(1, nodes):
        node = (here + i) % nodes
        place, count = total + piece_begin(state, k, node), piece_elements(state, k, node)
        receive_from_rank(state, 2 + (k & 1), member(state, node, me), place, count * item)
    for i in range(1, nodes):
        if status == c.OK:
            send_to_rank(state, 2 + (k & 1), member(state, (here + i) % nodes, me), total + begin, length * item)
    return status


def end_segment(state, k):
    """Wait for the pieces of a segment, collect its slices in the node, and write the result."""
    status, root = await_messages(state, 2 + (k & 1)), peek(state + o.ROOT)
    if status != c.OK or not gets_result(state, peek(state + o.NODE)):
        return status
    count, item, total = elements_of(state, k), peek(state + o.ITEM), total_slice(state, k)
    if not p.is_alone(state):
        total = peek(state + o.TOTAL) if peek(state + o.LAST) else result(state, k)
        status = collect_slices(state, k, total, count * item)
    if status == c.OK and peek(state + o.LAST) and (root == ALL or root == peek(state + o.RANK)):
        p.finish(state, result(state, k), total, count, ranks_in_all(state))
    return status


def collect_slices(state, k, total, room):
    """Copy the slices of a segment to the ranks of this node, or to the root."""
    count, item, root = elements_of(state, k), peek(state + o.ITEM), peek(state + o.ROOT)
    receives = root == ALL or root == peek(state + o.RANK)
    for i in range(peek(state + o.LOCAL)):
        begin, end = part_begin(state, count, i), part_begin(state, count, i + 1)
        node_calls.set_received(state, i, (end - begin) * item if receives else 0, begin * item)
    if root == ALL:
        return node_calls.gather_blocks(state, p.own_place(state, k), total, room)
    length = slice_elements(state, k) * item
    for i in range(peek(state + o.LOCAL)):
        node_calls.set_sent(state, i, length if i == index_of(state, root) else 0, 0)
    return node_calls.swap_blocks(state, p.own_place(state, k), length, total, room if receives else 0)


reduce_segments = p.make_pipeline(begin_segment, combine_piece, end_segment)


def reduce_long(state):
    """Reduce ELEMENTS elements at SOURCE over all ranks, into RESULT of the root, or of all ranks. It may be SOURCE."""
    return reduce_segments(state, -(-peek(state + o.ELEMENTS) // segment_elements(state)))
