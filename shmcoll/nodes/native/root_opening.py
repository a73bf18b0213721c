"""The opening of a call in which one rank, the root, has something for all of them: every rank gets its description,
and its array if that is short.

The steps are those of `opening.py`, in the same memory and with the same formats. What the root brings in its slot: the
length of its array in bytes, or LONG; dtype and mark; number of dimensions; dimensions. Then comes the array if there
is room for it. An array of up to `most_following` bytes follows behind that in the message of the root's leader, so it
needs no message of its own. LONG: it goes its own way, after the opening.

    root's node    every rank has the slot of the root. If the root is not the leader, the array is shared in TOLD of
                   all ranks before the exchange, else with the verdict. Nobody takes it from there before the verdict
    other nodes    with the verdict, if the fingerprints say that every rank of the node knows the array, and so its
                   length; else after it

The message of the root's leader has no zeros at the end of the description: up to a hundred bytes go faster.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek, poke
from shmcoll.engine.layout import WORD
from shmcoll.nodes.native import layout as o
from shmcoll.nodes.native.messages import mpi_failed
from shmcoll.nodes.native.opening import broadcast_in_node, common, exchange, in_node, known, message, publish

LONG = -1  # in place of the length of an array that goes its own way
ARRAY_LENGTH, ARRAY_TYPE, ARRAY_DIMENSIONS, ARRAY_DIMS = (WORD * i for i in range(4))
MOST_DIMENSIONS_BROUGHT = (o.MOST_BROUGHT - ARRAY_DIMS) // WORD
MOST_FOLLOWING = 64 << 10  # bytes that the root's leader sends to all others together


def most_following(nodes):
    """Return how long an array may be that follows: less for more nodes, as its leader sends it to each of them."""
    return MOST_FOLLOWING // max(nodes - 1, 1)


def most_scattered(nodes):
    """Return the same for a scatter, of which another node needs only a part."""
    return most_following(nodes) // 2


def following(length, dimensions):
    """Return how many bytes of an array follow the description."""
    fits = ARRAY_DIMS + dimensions * WORD + length <= o.MOST_BROUGHT
    return 0 if length == LONG or fits else length


def described(brought):
    """Return the same for a description."""
    return following(peek(brought + ARRAY_LENGTH), peek(brought + ARRAY_DIMENSIONS))


def told_array(state):
    """Return the address of an array that has followed."""
    return peek(state + o.TOLD) + WORD + o.MOST_BROUGHT


def open_array(state, source, follows, root):
    """Agree on the call that the slots describe, and give all ranks what the root has brought: in TOLD.

    source: where the array of the root is. follows: what `following` returns for this rank's array, if it knows it.
    Return as `open_rows`.
    """
    status = in_node(state, o.GATHER_SLOTS, o.GATHER_SLOTS_CALL)
    if status != c.OK:
        return status
    first, second = common(state), known(state)
    is_home = peek(peek(state + o.HOMES) + root * WORD) == peek(state + o.NODE)
    index, is_told = peek(peek(state + o.INDICES) + root * WORD), 0
    agree = first != 0 and second >= 0
    if not agree:
        follows = 0
    elif is_home:
        follows = described(peek(state + o.SLOTS) + index * o.SLOT_BYTES + o.BROUGHT)
        if follows and peek(state + o.RANK) == root:
            copy(told_array(state), source, follows)
        if follows and index != 0:
            status, is_told = broadcast_in_node(state, told_array(state), follows, index), 1
    elif not all_know(state):
        follows = 0
    if peek(state + o.IS_LEADER) and status == c.OK:
        status = exchange_array(state, first, second, root, is_home and agree, follows)
    if status == c.OK:
        status = publish(state, o.MOST_BROUGHT + (0 if is_told else follows))
    if status != c.OK or is_home or follows:
        return status
    length = described(peek(state + o.TOLD) + WORD)
    return broadcast_in_node(state, told_array(state), length, 0) if length else status


def all_know(state):
    """Return whether all ranks of this node know the array."""
    for i in range(peek(state + o.LOCAL)):
        if peek(peek(state + o.SLOTS) + i * o.SLOT_BYTES + WORD) == 0:
            return 0
    return 1


def exchange_array(state, first, second, root, offers, follows):
    """Exchange the fingerprints, with what the root has if this node `offers` it, and write TOLD."""
    home, told, size = peek(peek(state + o.HOMES) + root * WORD), peek(state + o.TOLD) + WORD, 0
    if offers:
        index = peek(peek(state + o.INDICES) + root * WORD)
        copy(told, peek(state + o.SLOTS) + index * o.SLOT_BYTES + o.BROUGHT, o.MOST_BROUGHT)
        size = o.MOST_BROUGHT + follows if follows else without_zeros(told)
        copy(message(state, peek(state + o.NODE)) + o.HEAD, told, size)
    status = exchange(state, first, second, size)
    if status != c.OK or peek(peek(state + o.TOLD)) != 0 or offers:
        return status
    found = message(state, home)
    size = peek(found + 2 * WORD)
    copy(told, found + o.HEAD, size)
    for i in range(size // WORD, o.MOST_BROUGHT // WORD):
        poke(told + i * WORD, 0)
    wanted = o.MOST_BROUGHT + described(told)
    return c.OK if size == wanted or (size < wanted and wanted == o.MOST_BROUGHT) else mpi_failed(state, 0)


def without_zeros(brought):
    """Return the length of a description without the words at its end that are 0."""
    size = o.MOST_BROUGHT
    while size > 0 and peek(brought + size - WORD) == 0:
        size -= WORD
    return size
