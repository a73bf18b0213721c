"""What the long reductions share: partial results of all nodes, and how they are combined, in the order of the nodes.

Memory of this rank alone, beside the arrays of the call: PARTS, what comes from other nodes, twice, because segment
k + 2 begins after segment k has been combined; and OWN, what the node has reduced, OWN_PLACES times, because segment
k + 3 begins after segment k has ended. The words of the state from SOURCE on say which reduction is made.

If a node has one rank, an operand is sent as it is: what becomes of an element is made where two are combined.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek, poke
from shmcoll.engine.kernels.kernels import JOIN
from shmcoll.engine.layout import WORD
from shmcoll.nodes.native.layout import (
    FIRST_VALUE,
    ITEM,
    LOCAL,
    NODE,
    NODES,
    OWN,
    OWN_BYTES,
    PART_BYTES,
    PART_PLACES,
    PARTS,
    SECOND_VALUE,
)
from shmcoll.nodes.native.node_calls import step_freely

SEGMENT_BYTES = 1 << 20
OWN_PLACES = 3
UNIT = 64  # elements: pieces begin on cache lines


def part(state, k, node):
    """Return the address of what comes from a node for segment k."""
    return peek(state + PARTS) + ((k & 1) * peek(state + NODES) + node) * peek(state + PART_BYTES)


def own_place(state, k):
    return peek(state + OWN) + k % OWN_PLACES * peek(state + OWN_BYTES)


def is_alone(state):
    """Return whether this node has one rank, which sends its operand as it is."""
    return peek(state + LOCAL) == 1


def combine(state, into, count):
    """Combine `count` elements of all nodes in their order, at PART_PLACES, which is in place of this node's or apart
    from it. Return OK or RAISED."""
    nodes, here, places = peek(state + NODES), peek(state + NODE), peek(state + PART_PLACES)
    so_far = into if here < 2 else peek(places)  # of later nodes, `into` is read after the first step
    first = peek(places)
    for node in range(1, nodes if count > 0 else 0):
        second = peek(places + node * WORD)
        target = into if node == nodes - 1 else so_far
        failed = step_freely(state, JOIN, target, first, second, count)
        if failed:
            item = peek(state + ITEM)
            poke(state + FIRST_VALUE, first + (failed - 1) * item)
            poke(state + SECOND_VALUE, second + (failed - 1) * item)
            return c.RAISED
        first = target
    return c.OK
