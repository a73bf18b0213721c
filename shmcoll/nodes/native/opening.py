"""The opening of a call: all ranks of all nodes make the same one. Here every rank gets what all ranks have brought.

There are four forms of the opening, with the same three steps, in the same memory and with the same formats, so ranks
that make different calls meet in it, and find that out. In `root_opening.py` one rank brings something for all, in
`counted_opening.py` the ranks bring tables of counts, in `partial_opening.py` a node brings what it has reduced.

    1. all_gather in the node     SLOT of each rank: its two fingerprints (`fingerprint.py`), the first one with the
                                  number of the call in it, and up to MOST_BROUGHT bytes that it brings
       gather to the leader       what the ranks of the node bring, if it is longer, and if their fingerprints agree
    2. exchange of the leaders    a message to each other leader: the two fingerprints of the node, 0 or -1 if its ranks
                                  disagree, the length of what follows, and what the ranks of the node have brought, one
                                  after the other
    3. broadcast in the node      TOLD: the verdict, and what all ranks have brought, by node

A rank leaves step 3 only after every rank of every node has entered step 1. All leaders see the same fingerprints, so
all ranks reach the same verdict, before a byte of a result moves. If they disagree, every rank raises, and puts its
call into words in another opening (`nodes/agreement.py`). A leader of a node that disagrees sends its message all the
same. A receiver provides MESSAGE_BYTES, so a message of another call, which may be longer than expected, does no harm.

Cost, O(S) in all files here: 2 a + A + (N - 2) o + (N - 1) S / B, for S bytes that a node brings. N nodes, a a sync in
the node, A the time of a message between two leaders, o the work of a leader for each further one, B bytes per second
of a node's link each way.

If the node has one rank, what all ranks have brought stays in the messages.

The steps in the node are routines of its group, called by their address. MPI's functions are called by their address,
too (`messages.py`).

Who writes what. The state is private memory of one rank. The thread that has the turn on the group writes all of it
(`engine/native/entry.py`, ACTIVE and OWNER). MPI writes the messages of other nodes.

Why nobody waits forever. Within the node the routines wait with a limit, and see ranks that die. For a leader that
waits for MPI see `messages.py`. A rank waits for the ranks of its node, a leader for the other leaders, and all of them
make the same steps in the same order, so there is no circle.

The GIL is held, except while a leader waits for MPI. The routines of the node release it by themselves.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import call, copy, peek, poke
from shmcoll.engine.layout import WORD
from shmcoll.nodes.native import layout as o
from shmcoll.nodes.native.fingerprint import positive
from shmcoll.nodes.native.messages import await_messages, mpi_failed, receive, send


def stride(length):
    """Return the bytes from one row to the next. Rows of slots begin at words."""
    return (length + WORD - 1) // WORD * WORD if length <= o.MOST_BROUGHT else length


def row_of(state, rank, length):
    """Return the address of what a rank has brought, when all ranks have it."""
    node, index = peek(peek(state + o.HOMES) + rank * WORD), peek(peek(state + o.INDICES) + rank * WORD)
    return rows_of(state, node, length) + index * stride(length)


def rows_of(state, node, length):
    """Return the address of what the ranks of a node have brought. The only rank of a node leaves it in messages."""
    if peek(state + o.LOCAL) == 1:
        return message(state, node) + o.HEAD
    return peek(state + o.TOLD) + WORD + peek(peek(state + o.STARTS) + node * WORD) * stride(length)


def member(state, node, index):
    """Return a rank of a node."""
    return peek(peek(state + o.MEMBERS) + (peek(peek(state + o.STARTS) + node * WORD) + index) * WORD)


def ranks_of(state, node):
    """Return the number of ranks of a node."""
    return peek(peek(state + o.STARTS) + (node + 1) * WORD) - peek(peek(state + o.STARTS) + node * WORD)


def ranks_in_all(state):
    return peek(peek(state + o.STARTS) + peek(state + o.NODES) * WORD)


def leader(state, node):
    return member(state, node, 0)


def message(state, node):
    return peek(state + o.MESSAGES) + node * peek(state + o.MESSAGE_BYTES)


def bring(state, first, second, source, length):
    """Write this rank's slot: the fingerprints of its next call, and what it brings."""
    sequence = peek(state + o.SEQUENCE) + 1
    poke(state + o.SEQUENCE, sequence)
    slot = peek(state + o.SLOT)
    poke(slot, positive(positive(first) + sequence))
    poke(slot + WORD, second)
    if 0 < length <= o.MOST_BROUGHT:
        copy(slot + o.BROUGHT, source, length)


def open_rows(state, source, length):
    """Agree on the call that the slots describe, and give all ranks what all have brought, `length` bytes each.
    source: where this rank's bytes are, if there are too many for a slot.

    Return OK; MISMATCH, with the VERDICT; UNREADABLE if a routine of the node or MPI has FAILED; or INTERRUPTED.
    """
    status = in_node(state, o.GATHER_SLOTS, o.GATHER_SLOTS_CALL)
    if status != c.OK:
        return status
    first, second, nodes = common(state), known(state), peek(state + o.NODES)
    agree = first != 0 and second >= 0
    if agree and length > o.MOST_BROUGHT:
        status = collect(state, source, length)
    if peek(state + o.IS_LEADER) and status == c.OK:
        status = exchange_rows(state, first, second, length if agree else 0)
    if status != c.OK:
        return status
    size = peek(peek(state + o.STARTS) + nodes * WORD) * stride(length) if agree else 0
    return publish(state, size)


def publish(state, size):
    """Give TOLD of the leader, the verdict and so many bytes, to all ranks of the node. Return OK or MISMATCH, or what
    has failed."""
    length = max(WORD + size, o.SLOT_BYTES)  # the same for all calls that bring little
    status = broadcast_in_node(state, peek(state + o.TOLD), length, 0)
    if status != c.OK:
        return status
    verdict = peek(peek(state + o.TOLD))
    poke(state + o.VERDICT, verdict)
    return c.MISMATCH if verdict else c.OK


# --- in the node ------------------------------------------------------------------------------------------------------


def collect(state, source, length):
    """Gather what the ranks of this node bring, in the message of their leader."""
    target = message(state, peek(state + o.NODE)) + o.HEAD
    if peek(state + o.LOCAL) == 1:
        copy(target, source, length)
        return c.OK
    written, shapes = peek(state + o.COLLECT_CALL), peek(state + o.COLLECT_SHAPES)
    describe(written + c.X, peek(shapes), source, length)
    if peek(state + o.IS_LEADER):
        describe(written + c.OUT, peek(shapes + WORD), target, length * peek(state + o.LOCAL))
    return in_node(state, o.COLLECT, o.COLLECT_CALL)


def broadcast_in_node(state, address, length, root):
    """Copy bytes of a rank of this node to the others, where each of them has `address`."""
    written, shapes = peek(state + o.PUBLISH_CALL), peek(state + o.PUBLISH_SHAPES)
    if peek(state + o.LOCAL) > 1:
        describe(written + c.X, peek(shapes), address, length)
        describe(written + c.OUT, peek(shapes + WORD), address, length)
        poke(written + c.ARGUMENT, root)
    return in_node(state, o.PUBLISH, o.PUBLISH_CALL)


def describe(view, shape, address, length):
    """Write into a call which bytes an array has."""
    poke(view + c.DATA, address)
    poke(view + c.COUNT, length)
    poke(view + c.BYTES, length)
    poke(shape, length)


def in_node(state, routine, written):
    """Call a routine of the node's group, if there are other ranks. Return OK, INTERRUPTED or UNREADABLE."""
    if peek(state + o.LOCAL) == 1:
        return c.OK
    status = call(peek(state + routine), peek(state + o.INNER), peek(state + written), 0)
    if status == c.OK or status == c.INTERRUPTED:
        return status
    poke(state + o.FAILED, routine)
    poke(state + o.FAILED_STATUS, status)
    return c.UNREADABLE


def common(state):
    """Return the first fingerprint of the ranks of this node; 0 if they differ."""
    slots = peek(state + o.SLOTS)
    for i in range(1, peek(state + o.LOCAL)):
        if peek(slots + i * o.SLOT_BYTES) != peek(slots):
            return 0
    return peek(slots)


def known(state):
    """Return the second fingerprint of the ranks of this node that have one; 0 if no rank has; -1 if they differ."""
    found = 0
    for i in range(peek(state + o.LOCAL)):
        found = both(found, peek(peek(state + o.SLOTS) + i * o.SLOT_BYTES + WORD))
    return found


def both(one, other):
    """Return the fingerprint that both have, or that one has if the other is 0; -1 if they differ."""
    if one == 0 or other == 0:
        return one + other
    return one if one == other else -1


# --- between the leaders ----------------------------------------------------------------------------------------------


def exchange_rows(state, first, second, length):
    """Exchange what the ranks of all nodes have brought, and write TOLD."""
    node, nodes = peek(state + o.NODE), peek(state + o.NODES)
    if 0 < length <= o.MOST_BROUGHT:
        slots, target = peek(state + o.SLOTS) + o.BROUGHT, message(state, node) + o.HEAD
        for i in range(peek(state + o.LOCAL)):
            copy(target + i * stride(length), slots + i * o.SLOT_BYTES, stride(length))
    status = exchange(state, first, second, peek(state + o.LOCAL) * stride(length))
    if status != c.OK or peek(peek(state + o.TOLD)) != 0:
        return status
    for other in range(nodes if length > 0 else 0):
        size = ranks_of(state, other) * stride(length)
        if peek(message(state, other) + 2 * WORD) != size:
            return mpi_failed(state, 0)
        if peek(state + o.LOCAL) > 1:
            copy(rows_of(state, other, length), message(state, other) + o.HEAD, size)
    return c.OK


def exchange(state, first, second, size):
    """Send this node's fingerprints to the other leaders, with `size` bytes that are in its message, receive theirs,
    and write the verdict."""
    node, nodes, room, status = peek(state + o.NODE), peek(state + o.NODES), peek(state + o.MESSAGE_BYTES), c.OK
    own = message(state, node)
    poke(own, first)
    poke(own + WORD, second)
    poke(own + 2 * WORD, size)
    for i in range(1, nodes):
        if status == c.OK:
            other = (node + i) % nodes
            status = receive(state, 0, leader(state, other), message(state, other), room, o.OPENING_TAG)
    for i in range(1, nodes):
        if status == c.OK:
            status = send(state, 0, leader(state, (node + i) % nodes), own, o.HEAD + size, o.OPENING_TAG)
    if status == c.OK:
        status = await_messages(state, 0)
    if status != c.OK:
        return status
    for other in range(nodes):
        if peek(message(state, other)) != first:
            first = 0
        second = both(second, peek(message(state, other) + WORD)) if second >= 0 else -1
    poke(peek(state + o.TOLD), o.UNLIKE if first == 0 else o.PARTLY_UNLIKE if second < 0 else 0)
    return c.OK
