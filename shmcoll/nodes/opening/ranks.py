"""Which rank of the group is on which node, from the state of the group (`state.py`)."""

from shmcoll.engine.atomics import peek
from shmcoll.engine.layout import WORD
from shmcoll.nodes.opening import layout as o


def home_of(state, rank):
    """Return the node of a rank."""
    return peek(peek(state + o.HOMES) + rank * WORD)


def index_of(state, rank):
    """Return the index of a rank in its node."""
    return peek(peek(state + o.INDICES) + rank * WORD)


def member(state, node, index):
    """Return a rank of a node."""
    return peek(peek(state + o.MEMBERS) + (ranks_before(state, node) + index) * WORD)


def leader(state, node):
    return member(state, node, 0)


def ranks_before(state, node):
    """Return the number of ranks of all nodes before a node."""
    return peek(peek(state + o.STARTS) + node * WORD)


def ranks_of(state, node):
    """Return the number of ranks of a node."""
    return ranks_before(state, node + 1) - ranks_before(state, node)


def ranks_in_all(state):
    return ranks_before(state, peek(state + o.NODES))
