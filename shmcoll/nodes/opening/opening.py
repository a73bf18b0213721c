"""The opening of a call: all ranks of all nodes make the same one, and share what they contribute to it.

    1. all_gather in the node     SLOT of each rank: its two fingerprints (`fingerprint.py`), the first one with the
                                  number of the call in it, and up to MOST_IN_SLOT bytes that it contributes
       `contribute`               what the ranks of the node contribute beside that, if their fingerprints agree, goes
                                  into the message of their leader
    2. exchange of the leaders    a message to each other leader: the two fingerprints of the node, 0 or -1 if its ranks
                                  disagree, the length of what follows, and what the node contributes
       `finish`                   the leader makes of all messages what its node gets
    3. broadcast in the node      PUBLISHED: the verdict, the length of what follows, and what the node gets. All ranks
                                  of the node know how much of it there is at least (`expected`). The rest follows in
                                  a second broadcast

All openings have these steps, in the same memory, so ranks that make different calls meet in them, and find that out.
`open_rows` is the one in which every rank gets what all ranks, or one of them, contribute: a row of bytes of each. What
two nodes send to each other, and what is published, is a block for each node: its length, and its rows, one after the
other, all as long as the longest. Either all rows have a length that all ranks know, or each begins with its own
(SELF_SIZED). `reductions.py` has the other one, in which each node contributes what it has reduced.

A rank leaves step 3 only after every rank of every node has entered step 1. All leaders see the same fingerprints, so
all ranks reach the same verdict, before a byte of a result moves. If they disagree, every rank raises, and puts its
call into words in another opening (`nodes/agreement.py`). A leader of a node that disagrees sends its message all the
same. A receiver provides MESSAGE_BYTES, so a message of another call, which may be longer than expected, does no harm.

Cost, O(S) in all files here: 2 a + A + (N - 2) o + (N - 1) S / B, for S bytes that a node contributes. N nodes, a a
sync in the node, A the time of a message between two leaders, o the work of a leader for each further one, B bytes per
second of a node's link each way.

If the node has one rank, the rows stay in the messages. A row of LEAST_APART bytes or more is not even copied into this
rank's own message: MPI sends it from where it is, behind the beginning of the message (APART, `send_pieces`). If no
node has several ranks, a scatter or an all_to_all sends each of them only its own bytes in this way (APART_STEP).

Who writes what. The state is private memory of one rank. The thread that has the turn on the group writes all of it
(`engine/native/entering.py`, ACTIVE and OWNER). MPI writes the messages of other nodes. It reads this rank's message,
and what is apart, until the exchange is complete, and nobody writes them before that. A result is written after it, so
it may be in place of what is apart.

Why nobody waits forever. Within the node the routines wait with a limit, and see ranks that die. For a leader that
waits for MPI see `messages.py`. A rank waits for the ranks of its node, a leader for the other leaders, and all of them
make the same steps in the same order, so there is no circle.

The GIL is held, except while a leader waits for MPI. The routines of the node release it by themselves.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek, poke
from shmcoll.engine.layout import WORD
from shmcoll.engine.protocol.reduction import ALL
from shmcoll.engine.protocol.sync import mix
from shmcoll.nodes.opening import layout as o
from shmcoll.nodes.opening.fingerprint import positive
from shmcoll.nodes.opening.node_calls import broadcast_in_node, gather_to_leader, in_node
from shmcoll.nodes.opening.ranks import home_of, index_of, leader, ranks_before, ranks_in_all, ranks_of
from shmcoll.nodes.opening.requests import await_messages, mpi_failed, receive, send, send_pieces

SELF_SIZED = -1  # instead of the length of a row: its first word has that, a multiple of WORD
AT_ONCE = 4 << 10  # bytes of the first broadcast if the ranks of a node do not know how much there is


def make_opening(contribute, finish, expected):
    """Return an opening of functions that take the same arguments, whatever these are, and the steps of it that follow
    the first.

    contribute: writes what this node contributes into the message of its leader, and its length there. finish: writes
    PUBLISHED, on leaders. expected: returns how many bytes of that all ranks of this node know. The first two return a
    status.
    """

    def opening(state, source, length, root):
        """Agree on the call that the slots describe. Return OK; MISMATCH, with the VERDICT; UNREADABLE if a routine of
        the node or MPI has FAILED; or INTERRUPTED."""
        status = in_node(state, o.GATHER_SLOTS)
        return after_slots(state, source, length, root) if status == c.OK else status

    def after_slots(state, source, length, root):
        status = c.OK
        first, second = common(state), known(state)
        poke(state + o.STREAM, o.NOBODY)
        poke(state + o.AHEAD, 0)
        agree = first != 0 and second >= 0
        if not agree:
            poke(state + o.APART_BYTES, 0)
        poke(node_block(state, peek(state + o.NODE)), 0)
        if agree:
            status = contribute(state, source, length, root)
        if peek(state + o.IS_LEADER) and status == c.OK:
            status = exchange(state, first, second)
            if status == c.OK and peek(peek(state + o.PUBLISHED)) == 0:
                status = finish(state, source, length, root)
        if status == c.OK:
            status = publish(state, expected(state, source, length, root) if agree else 0)
        return status

    return opening, after_slots


def announce(state, first, second, source, length):
    """Write this rank's slot: the fingerprints of its next call, and what it contributes."""
    sequence = peek(state + o.SEQUENCE) + 1
    poke(state + o.SEQUENCE, sequence)
    poke(state + o.APART_BYTES, 0)
    poke(state + o.APART_STEP, 0)
    slot = peek(state + o.SLOT)
    history = mix(peek(state + o.HISTORY), positive(first))
    poke(state + o.HISTORY, history)
    poke(slot, positive(history))
    poke(slot + WORD, second)
    if 0 < length <= o.MOST_IN_SLOT:
        copy(slot + o.SLOT_DATA, source, length)


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


def slot_data(state, index):
    """Return the address of what a rank of this node has in its slot."""
    return peek(state + o.SLOTS) + index * o.SLOT_BYTES + o.SLOT_DATA


def message(state, node):
    return peek(state + o.MESSAGES) + node * peek(state + o.MESSAGE_BYTES)


def node_block(state, node):
    """Return the address of the block in the message of a node: its length and its bytes."""
    return message(state, node) + o.HEAD - WORD


def block_place(state, node):
    """Return the address of the bytes of a block, behind its length. Those of this node may be apart, all of them."""
    if node == peek(state + o.NODE) and peek(state + o.APART_BYTES):
        return apart_for(state, node)
    return node_block(state, node) + WORD


def apart_for(state, node):
    """Return the address of what follows the message to a node from where it is."""
    return peek(state + o.APART) + leader(state, node) * peek(state + o.APART_STEP)


def sends_apart(state, address, length):
    """Return whether bytes that this rank contributes go from where they are, behind its message. Note it, if so."""
    if peek(state + o.LOCAL) > 1 or length < o.LEAST_APART:
        return 0
    poke(state + o.APART, address)
    poke(state + o.APART_BYTES, length)
    return 1


def parts_fit(state, length):
    """Return whether a message has room for bytes that are for one rank, of so many for each, and carries only these:
    if no node has several ranks, and they go from where they are."""
    return peek(state + o.SHARES) == 0 and o.LEAST_APART <= length <= o.MOST_FOR_ONE


def exchange(state, first, second):
    """Send this node's fingerprints to the other leaders, with the block that is in its message, receive theirs, and
    write the verdict."""
    node, nodes = peek(state + o.NODE), peek(state + o.NODES)
    if peek(state + o.IS_SUSPECT):
        first = 0
    if first == 0:
        poke(state + o.IS_SUSPECT, 1)
    for i in range(1, nodes):
        receive_opening(state, (node + i) % nodes)
    for i in range(1, nodes):
        send_opening(state, (node + i) % nodes, first, second)
    status, left = await_messages(state, 0), 1
    while status == c.OK and left:
        left = 0
        for other in range(nodes):
            if other != node and peek(message(state, other)) & o.RAN_AHEAD:
                receive_opening(state, other)
                left = 1
        if left:
            status = await_messages(state, 0)
    if status != c.OK:
        return status
    poke(state + o.IS_SUSPECT, 0)
    for other in range(nodes):
        poke(peek(state + o.HELD) + other * WORD, 0)
        if peek(message(state, other)) != first:
            first = 0
        second = both(second, peek(message(state, other) + WORD)) if second >= 0 else -1
    poke(peek(state + o.PUBLISHED), o.UNLIKE if first == 0 else o.PARTLY_UNLIKE if second < 0 else 0)
    return c.OK


def receive_opening(state, node):
    """Begin to receive the next message of the leader of a node, unless that of its full opening has come already."""
    if not peek(peek(state + o.HELD) + node * WORD):
        place, room = message(state, node), peek(state + o.MESSAGE_BYTES)
        receive(state, 0, leader(state, node), place, room, o.OPENING_TAG)


def send_opening(state, node, first, second):
    """Begin to send this node's fingerprints to the leader of another node, with the block that is in its message."""
    own, apart = message(state, peek(state + o.NODE)), peek(state + o.APART_BYTES)
    poke(own, first)
    poke(own + WORD, second)
    size = o.HEAD + peek(node_block(state, peek(state + o.NODE))) - apart
    if apart:
        send_pieces(state, 0, leader(state, node), own, size, apart_for(state, node), apart, o.OPENING_TAG)
    else:
        send(state, 0, leader(state, node), own, size, o.OPENING_TAG)


def publish(state, size):
    """Give PUBLISHED of the leader to all ranks of the node, which know that there are `size` bytes in it. Return OK or
    MISMATCH, or what has failed."""
    published, length = peek(state + o.PUBLISHED), max(2 * WORD + size, o.SLOT_BYTES)  # the same for all short calls
    status = broadcast_in_node(state, published, length, 0)
    if status != c.OK:
        return status
    verdict, rest = peek(published), 2 * WORD + peek(published + WORD) - length
    poke(state + o.VERDICT, verdict)
    if verdict == 0 and rest > 0 and peek(state + o.LOCAL) > 1:
        status = broadcast_in_node(state, published + length, rest, 0)
    return c.MISMATCH if verdict else status


# --- rows -------------------------------------------------------------------------------------------------------------


def stride_of(length):
    """Return the bytes from one row to the next. Rows of slots begin at words."""
    return (length + WORD - 1) // WORD * WORD if length <= o.MOST_IN_SLOT else length


def own_stride(state, length):
    """Return the same for the rows of this node: of SELF_SIZED ones, the length of the longest."""
    if length != SELF_SIZED:
        return stride_of(length)
    longest = 0
    for i in range(peek(state + o.LOCAL)):
        longest = max(longest, peek(slot_data(state, i)))
    return longest


def rows_in(state, node, root):
    """Return how many rows a node contributes."""
    return ranks_of(state, node) if root == ALL else home_of(state, root) == node


def row_place(state):
    """Return the address where a rank writes its row, if it may be too long for a slot."""
    return node_block(state, peek(state + o.NODE)) + WORD


def contribute_rows(state, source, length, root):
    """Write the rows of this node into its message. source: this rank's row, if it is too long for a slot. Only a root
    that contributes alone has it at `row_place`."""
    block, stride = node_block(state, peek(state + o.NODE)), own_stride(state, length)
    count = rows_in(state, peek(state + o.NODE), root)
    first = 0 if root == ALL else index_of(state, root)
    if o.HEAD + stride * count > peek(state + o.MESSAGE_BYTES):
        return mpi_failed(state, 0)
    poke(block, stride * count)
    if stride > o.MOST_IN_SLOT and count > 0:
        if root == ALL:
            if length != SELF_SIZED and sends_apart(state, source, length):
                return c.OK
            return gather_to_leader(state, source, stride, block + WORD)
        return broadcast_in_node(state, block + WORD, stride, first)
    for i in range(count if peek(state + o.IS_LEADER) else 0):
        copy(block + WORD + i * stride, slot_data(state, first + i), stride)
    return c.OK


def finish_rows(state, source, length, root):
    """Write the blocks of all nodes to PUBLISHED, if there are other ranks in this node."""
    begin = peek(state + o.PUBLISHED) + 2 * WORD
    place = begin
    for node in range(peek(state + o.NODES)):
        block = node_block(state, node)
        if not is_expected(state, block, rows_in(state, node, root), length):
            return mpi_failed(state, 0)
        if peek(state + o.LOCAL) > 1:
            copy(place, block, WORD + peek(block))
        place += WORD + peek(block)
    poke(begin - WORD, place - begin)
    return c.OK


def is_expected(state, block, count, length):
    """Return whether a block has so many rows, of this length."""
    size = peek(block)
    if length != SELF_SIZED or count == 0:
        return size == count * stride_of(length)
    stride = size // count
    if stride < WORD or stride * count != size or o.HEAD + size > peek(state + o.MESSAGE_BYTES):
        return 0
    for i in range(count):
        if not WORD <= peek(block + WORD + i * stride) <= stride:
            return 0
    return 1


def expected_rows(state, source, length, root):
    """Return how many bytes all ranks of this node know to be published, at least. A rank that knows the length of the
    root's row has it in its slot."""
    blocks = peek(state + o.NODES) * WORD
    if length != SELF_SIZED:
        return blocks + ranks_in_all(state) * stride_of(length)
    if root == ALL:
        return AT_ONCE
    if home_of(state, root) == peek(state + o.NODE):
        return blocks + own_stride(state, length)
    for i in range(peek(state + o.LOCAL)):
        if peek(slot_data(state, i)) == 0:
            return AT_ONCE
    return blocks + own_stride(state, length)


open_rows, open_rows_after_slots = make_opening(contribute_rows, finish_rows, expected_rows)


def open_rows_of_all(state, source, length):
    """Make an opening in which all ranks contribute rows of `length` bytes."""
    return open_rows(state, source, length, ALL)


def rows_of(state, node, length):
    """Return the address of the rows of a node, when all ranks have them. length: that of all rows."""
    if peek(state + o.LOCAL) == 1:
        return block_place(state, node)
    before = (node + 1) * WORD + ranks_before(state, node) * stride_of(length)
    return peek(state + o.PUBLISHED) + 2 * WORD + before


def row_of(state, rank, length):
    """Return the address of the row of a rank. length: that of all rows."""
    return rows_of(state, home_of(state, rank), length) + index_of(state, rank) * stride_of(length)


def copy_rows(state, target, length):
    """Copy the rows of all ranks, in their order, to `target`. length: that of all rows."""
    for rank in range(ranks_in_all(state)):
        copy(target + rank * length, row_of(state, rank, length), length)
    return c.OK


def first_block(state):
    """Return the address of the block of node 0, when all ranks have the blocks."""
    return node_block(state, 0) if peek(state + o.LOCAL) == 1 else peek(state + o.PUBLISHED) + 2 * WORD


def block_behind(state, node, block):
    """Return the address of the block of the next node."""
    return node_block(state, node + 1) if peek(state + o.LOCAL) == 1 else block + WORD + peek(block)


def row_of_root(state, root):
    """Return the address of the row of a root that contributes alone."""
    if peek(state + o.LOCAL) == 1:
        return node_block(state, home_of(state, root)) + WORD
    return peek(state + o.PUBLISHED) + (2 + home_of(state, root) + 1) * WORD
