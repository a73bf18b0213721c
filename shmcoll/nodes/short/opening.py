"""The opening of a short call, in native code: every rank gets what all ranks have brought, or what one has.

It has the three steps of every opening (`nodes/agreement.py`), in the same memory and with the same formats, so ranks
that make different calls meet in it, and find that out.

    1. all_gather in the node     SLOT of each rank: its two marks, and up to MOST_BROUGHT bytes that it brings
       gather to the leader       what the ranks of the node bring, if it is longer, and if their marks agree
    2. exchange of the leaders    a message to each other leader: the two marks of the node, the length of what follows,
                                  and what the ranks of the node have brought, one after the other
    3. broadcast in the node      TOLD: the verdict, and what all ranks have brought, by node

The steps in the node are routines of its group, called by their address. MPI's functions are called by their address,
too (`messages.py`).

Who writes what. The state is private memory of one rank. The thread that has the turn on the group writes all of it
(`engine/native/entry.py`, ACTIVE and OWNER). MPI writes the messages of other nodes.

Why nobody waits forever. Within the node the routines wait with a limit, and see ranks that die. For a leader that
waits for MPI see `messages.py`. All ranks make the same steps, so there is no circle.

The GIL is held, except while a leader waits for MPI. The routines of the node release it by themselves.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import call, copy, peek, poke
from shmcoll.engine.layout import WORD
from shmcoll.nodes.short.layout import (
    BROUGHT,
    COLLECT,
    COLLECT_CALL,
    COLLECT_SHAPES,
    COUNTS,
    DATA_TAG,
    FAILED,
    FAILED_STATUS,
    GATHER_SLOTS,
    GATHER_SLOTS_CALL,
    HEAD,
    HOMES,
    INDICES,
    INNER,
    IS_LEADER,
    LOCAL,
    MESSAGE_BYTES,
    MESSAGES,
    MOST_BROUGHT,
    NODE,
    NODES,
    OPENING_TAG,
    PARTLY_UNLIKE,
    PLACES,
    PUBLISH,
    PUBLISH_CALL,
    PUBLISH_SHAPES,
    SEQUENCE,
    SLOT,
    SLOT_BYTES,
    SLOTS,
    TOLD,
    UNLIKE,
    VERDICT,
)
from shmcoll.nodes.short.messages import await_messages, mpi_failed, receive, send


def stride(length):
    """Return the bytes from one row to the next. Rows of slots begin at words."""
    return (length + WORD - 1) // WORD * WORD if length <= MOST_BROUGHT else length


def row_of(state, rank, length):
    """Return the address of what a rank has brought, when all ranks have it."""
    return peek(state + TOLD) + WORD + peek(peek(state + PLACES) + rank * WORD) * stride(length)


def message(state, node):
    return peek(state + MESSAGES) + node * peek(state + MESSAGE_BYTES)


def bring(state, first, second, source, length):
    """Write this rank's slot."""
    sequence = peek(state + SEQUENCE) + 1
    poke(state + SEQUENCE, sequence)
    slot = peek(state + SLOT)
    poke(slot, numbered(first, sequence))
    poke(slot + WORD, second)
    if 0 < length <= MOST_BROUGHT:
        copy(slot + BROUGHT, source, length)


def numbered(mark, sequence):
    """Return the mark of a call as the ranks compare it. It is above 0."""
    found = (mark + sequence) & ((1 << 62) - 1)
    return found if found else 1


def open_rows(state, source, length, only):
    """Agree on the call that the slots describe, and give all ranks what all have brought, `length` bytes each; with
    `only`, what that rank has brought. source: where this rank's bytes are, if there are too many for a slot.

    Return OK; MISMATCH, with the VERDICT; UNREADABLE if a routine of the node or MPI has FAILED; or INTERRUPTED.
    """
    status = in_node(state, GATHER_SLOTS, GATHER_SLOTS_CALL)
    if status != c.OK:
        return status
    first, second = common(state), known(state)
    agree = first != 0 and second >= 0
    if agree and length > MOST_BROUGHT:
        status = collect(state, source, length)
        if status != c.OK:
            return status
    if peek(state + IS_LEADER):
        status = exchange(state, first, second, length if agree else 0, only)
        if status != c.OK:
            return status
    size = WORD + (told_bytes(state, length, only) if agree else 0)
    status = broadcast_in_node(state, peek(state + TOLD), max(size, SLOT_BYTES), 0)  # `agreement.py` sends no less
    if status != c.OK:
        return status
    verdict = peek(peek(state + TOLD))
    poke(state + VERDICT, verdict)
    return c.MISMATCH if verdict else c.OK


def told_bytes(state, length, only):
    """Return the bytes of the rows that all ranks get."""
    rows = 1
    if only < 0:
        rows = 0
        for node in range(peek(state + NODES)):
            rows += peek(peek(state + COUNTS) + node * WORD)
    return rows * stride(length)


def offered_bytes(state, node, length, only):
    """Return the bytes of the rows that a node offers."""
    if only < 0:
        return peek(peek(state + COUNTS) + node * WORD) * stride(length)
    return stride(length) if peek(peek(state + HOMES) + only * WORD) == node else 0


def spread(state, address, length, root):
    """Copy bytes of the root to all ranks, where each of them has `address`: in the root's node, along the binomial
    tree of the leaders, in the other nodes. Return as `open_rows`."""
    home, status = peek(peek(state + HOMES) + root * WORD), c.OK
    if peek(state + NODE) == home:
        status = broadcast_in_node(state, address, length, peek(peek(state + INDICES) + root * WORD))
    if status == c.OK and peek(state + IS_LEADER):
        status = along_tree(state, address, length, home)
    if status == c.OK and peek(state + NODE) != home:
        status = broadcast_in_node(state, address, length, 0)
    return status


# --- in the node ------------------------------------------------------------------------------------------------------


def collect(state, source, length):
    """Gather what the ranks of this node bring, in the message of their leader."""
    target = message(state, peek(state + NODE)) + HEAD
    if peek(state + LOCAL) == 1:
        copy(target, source, length)
        return c.OK
    written, shapes = peek(state + COLLECT_CALL), peek(state + COLLECT_SHAPES)
    describe(written + c.X, peek(shapes), source, length)
    if peek(state + IS_LEADER):
        describe(written + c.OUT, peek(shapes + WORD), target, length * peek(state + LOCAL))
    return in_node(state, COLLECT, COLLECT_CALL)


def broadcast_in_node(state, address, length, root):
    """Copy bytes of a rank of this node to the others, where each of them has `address`."""
    written, shapes = peek(state + PUBLISH_CALL), peek(state + PUBLISH_SHAPES)
    if peek(state + LOCAL) > 1:
        describe(written + c.X, peek(shapes), address, length)
        describe(written + c.OUT, peek(shapes + WORD), address, length)
        poke(written + c.ARGUMENT, root)
    return in_node(state, PUBLISH, PUBLISH_CALL)


def describe(view, shape, address, length):
    """Write into a call which bytes an array has."""
    poke(view + c.DATA, address)
    poke(view + c.COUNT, length)
    poke(view + c.BYTES, length)
    poke(shape, length)


def in_node(state, routine, written):
    """Call a routine of the node's group, if there are other ranks. Return OK, INTERRUPTED or UNREADABLE."""
    if peek(state + LOCAL) == 1:
        return c.OK
    status = call(peek(state + routine), peek(state + INNER), peek(state + written), 0)
    if status == c.OK or status == c.INTERRUPTED:
        return status
    poke(state + FAILED, routine)
    poke(state + FAILED_STATUS, status)
    return c.UNREADABLE


def common(state):
    """Return the first mark of the ranks of this node; 0 if they differ."""
    slots = peek(state + SLOTS)
    for i in range(1, peek(state + LOCAL)):
        if peek(slots + i * SLOT_BYTES) != peek(slots):
            return 0
    return peek(slots)


def known(state):
    """Return the second mark of the ranks of this node that have one; 0 if no rank has; -1 if they differ."""
    found = 0
    for i in range(peek(state + LOCAL)):
        found = both(found, peek(peek(state + SLOTS) + i * SLOT_BYTES + WORD))
    return found


def both(one, other):
    """Return the mark that both have, or that one has if the other is 0; -1 if they differ."""
    if one == 0 or other == 0:
        return one + other
    return one if one == other else -1


# --- between the leaders ----------------------------------------------------------------------------------------------


def exchange(state, first, second, length, only):
    """Send this node's message to the other leaders, and write TOLD from those of all nodes."""
    node, nodes = peek(state + NODE), peek(state + NODES)
    own, size = message(state, node), 0
    poke(own, first)
    poke(own + WORD, second)
    if length > 0:
        size = offered_bytes(state, node, length, only)
        if length <= MOST_BROUGHT:
            copy_slots(state, own + HEAD, size, length, only)
    poke(own + 2 * WORD, size)
    status = c.OK
    for i in range(1, nodes):
        if status == c.OK:
            other = (node + i) % nodes
            status = receive(state, other, message(state, other), peek(state + MESSAGE_BYTES), OPENING_TAG)
    for i in range(1, nodes):
        if status == c.OK:
            status = send(state, (node + i) % nodes, own, HEAD + size, OPENING_TAG)
    if status == c.OK:
        status = await_messages(state)
    return judge(state, first, second, length, only) if status == c.OK else status


def copy_slots(state, target, size, length, only):
    """Copy what the ranks of this node have brought in their slots."""
    begin = peek(peek(state + INDICES) + only * WORD) if only >= 0 else 0
    slots = peek(state + SLOTS) + BROUGHT + begin * SLOT_BYTES
    for i in range(size // stride(length)):
        copy(target + i * stride(length), slots + i * SLOT_BYTES, stride(length))


def judge(state, first, second, length, only):
    """Write TOLD: the verdict, and the rows of all nodes."""
    nodes, told = peek(state + NODES), peek(state + TOLD)
    for node in range(nodes):
        if peek(message(state, node)) != first:
            first = 0
        second = both(second, peek(message(state, node) + WORD)) if second >= 0 else -1
    verdict = UNLIKE if first == 0 else PARTLY_UNLIKE if second < 0 else 0
    poke(told, verdict)
    told += WORD
    for node in range(nodes if verdict == 0 and length > 0 else 0):
        size = offered_bytes(state, node, length, only)
        if peek(message(state, node) + 2 * WORD) != size:
            return mpi_failed(state, 0)
        if size > 0:
            copy(told, message(state, node) + HEAD, size)
        told += size
    return c.OK


def along_tree(state, address, length, home):
    """Pass bytes along the binomial tree of the leaders. home: the node that has them."""
    node, nodes = peek(state + NODE), peek(state + NODES)
    place, step, status = (node - home + nodes) % nodes, 1, c.OK
    while step < nodes and place & step == 0:
        step *= 2
    if place > 0:
        status = receive(state, (place - step + home) % nodes, address, length, DATA_TAG)
        if status == c.OK:
            status = await_messages(state)
    while step > 1 and status == c.OK:
        step //= 2
        if place + step < nodes:
            status = send(state, (place + step + home) % nodes, address, length, DATA_TAG)
    return await_messages(state) if status == c.OK else status
