"""reduce_scatter of long arrays over nodes, in segments.

For each node, the blocks of its ranks are reduced and divided in the sender's node; each goes to its owner, who
combines what it gets from all nodes. While the messages of a segment are on their way, the next one is reduced.
Cost: O(0) + R + r (N - 1) / N S / B, for N nodes of r ranks, S bytes of all blocks of a rank, and R, a reduce_scatter
in a node; B, and O(S) for an opening: see `opening.py`.

Rank i of a node of n ranks reduces for the ranks i, i + n, ... of each node, in as many rounds. The result may be in
place of this rank's own block: a part of it is written after its last use as an operand, and no message is sent from
there.

The requests of segment k are in the lane k & 1. All ranks begin them in the order of segments, and there is one message
of a segment between two ranks, so there is no circle.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek, poke
from shmcoll.engine.layout import WORD
from shmcoll.nodes.algorithms import partials as p
from shmcoll.nodes.algorithms.long_moves import SENT, SENT_FROM, block_of, receive_from_rank, send_to_rank
from shmcoll.nodes.opening import layout as o
from shmcoll.nodes.opening.node_calls import reduce_blocks, set_block
from shmcoll.nodes.opening.ranks import member, ranks_in_all, ranks_of


def rounds_for(state, node):
    """Return how many ranks of a node belong to one rank of this node."""
    return -(-ranks_of(state, node) // peek(state + o.LOCAL))


def owned_elements(state):
    """Return the elements of a block in a segment, the same on all ranks."""
    most, least = 0, 1 << 62
    for node in range(peek(state + o.NODES)):
        most, least = max(most, ranks_of(state, node)), min(least, ranks_of(state, node))
    places = peek(state + o.NODES) * -(-most // least)
    return max(p.SEGMENT_BYTES // peek(state + o.ITEM) // places // p.UNIT * p.UNIT, 1)


def owned(state, k, rank):
    """Return the elements of a rank's block in segment k."""
    step = owned_elements(state)
    return max(min(step, block_of(state, SENT, rank) - k * step), 0)


def source_of(state, k, rank):
    """Return the address of segment k of the block for a rank."""
    begin = block_of(state, SENT_FROM, rank) + k * owned_elements(state)
    return peek(state + o.SOURCE) + begin * peek(state + o.STORED_ITEM)


def begin_owned(state, k):
    """Reduce segment k of all blocks in the node, and begin to send it to its owners. This node's is the last, because
    the others wait for theirs."""
    nodes, here, me = peek(state + o.NODES), peek(state + o.NODE), peek(state + o.INDEX)
    own_bytes, status = owned(state, k, peek(state + o.RANK)) * peek(state + o.ITEM), c.OK
    for i in range(1, nodes):
        node = (here - i + nodes) % nodes
        sender = member(state, node, me % ranks_of(state, node))
        receive_from_rank(state, k & 1, sender, p.part(state, k, node), own_bytes)
    place = p.own_place(state, k)  # which has a place for each round for each node
    for i in range(1, nodes + 1):
        node = (here + i) % nodes
        for number in range(rounds_for(state, node)):
            if status == c.OK:
                status = reduce_for(state, k, node, number * peek(state + o.LOCAL), place)
            place += owned_elements(state) * peek(state + o.ITEM)
    return status


def reduce_for(state, k, node, first, place):
    """Reduce segment k of the blocks for some ranks of a node, from index `first` on, and begin to send this rank's."""
    local, me, status = peek(state + o.LOCAL), peek(state + o.INDEX), c.OK
    is_mine = first + me < ranks_of(state, node)
    rank = member(state, node, first + me) if is_mine else 0
    if p.is_alone(state):
        place = p.widened(state, place, source_of(state, k, rank), owned(state, k, rank))
    else:
        for i in range(local):
            there = first + i < ranks_of(state, node)
            owner = member(state, node, first + i) if there else 0
            count = owned(state, k, owner) if there else 0
            wide = peek(state + o.WIDE) + i * owned_elements(state) * peek(state + o.ITEM)
            set_block(state, i, p.widened(state, wide, source_of(state, k, owner), count), count)
        status = reduce_blocks(state, place)
    if node != peek(state + o.NODE) and is_mine and status == c.OK:
        send_to_rank(state, k & 1, rank, place, owned(state, k, rank) * peek(state + o.ITEM))
    return status


def combine_owned(state, k):
    """Combine segment k of this rank's block."""
    nodes, here, count = peek(state + o.NODES), peek(state + o.NODE), owned(state, k, peek(state + o.RANK))
    place = p.own_place(state, k) + places_before_own(state) * owned_elements(state) * peek(state + o.ITEM)
    if p.is_alone(state) and not p.is_widened(state):
        place = source_of(state, k, peek(state + o.RANK))
    for node in range(nodes):
        poke(peek(state + o.PART_PLACES) + node * WORD, place if node == here else p.part(state, k, node))
    result = peek(state + o.RESULT) + k * owned_elements(state) * peek(state + o.STORED_ITEM)
    total = peek(state + o.TOTAL) if peek(state + o.LAST) else result
    status = p.combine(state, total, count)
    if status == c.OK and peek(state + o.LAST):
        p.finish(state, result, total, count, ranks_in_all(state))
    return status


def places_before_own(state):
    """Return how many places of OWN are filled before that of this node."""
    places, here = 0, peek(state + o.NODE)
    for node in range(peek(state + o.NODES)):
        if node != here:
            places += rounds_for(state, node)
    return places


def has_written(_state, _k):
    return c.OK


reduce_segments = p.make_pipeline(begin_owned, combine_owned, has_written)


def reduce_scatter_long(state):
    """Reduce a block of SOURCE for each rank (BLOCK_ROWS, in elements). This rank's goes to RESULT, which may be its
    own block of SOURCE. ELEMENTS is the greatest count."""
    return reduce_segments(state, -(-peek(state + o.ELEMENTS) // owned_elements(state)))
