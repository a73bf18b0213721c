"""Rooted calls of short arrays, in which nodes do not wait for all others.

A stream is a row of calls in which the same node has something for all others (FROM that node: broadcast, scatter), or
all others have something for it (TO it: gather, reduce). The first call of a stream has a full opening (`opening.py`).
In the next ones, up to MOST_AHEAD, only those messages are sent that carry rows, and only their receivers wait:

    1. all_gather in the node     the slots, as in a full opening
    2. FROM, the root's node      its leader sends the message with the root's row to each other leader, and goes on
       FROM, another node         its leader waits for this message, compares fingerprints, and publishes the row
       TO, the root's node        its leader waits for the messages of all others, compares, and publishes the rows
       TO, another node           its leader sends the message with the rows of its node to the root's leader, and goes
                                  on

The first word of these messages has RAN_AHEAD. All else opens in full: a call of another stream, the call after
MOST_AHEAD such ones, a longer row, or one without the array. In a stream FROM a node only the root's node knows which
row it has: the others see a message of a full opening, keep it (HELD), and make that opening. The next call has a full
opening at once, so such rows wait for two messages, one after the other, only once in their row.

HISTORY, a hash of all calls so far, is part of the first fingerprint. So if ranks have made different calls, their next
full openings fail, at the latest MOST_AHEAD calls later. A leader that finds another call in a message, or a message
where it expects none, makes a full opening at once, with 0 as fingerprint (IS_SUSPECT). Its node has had nothing of
that call. Each pair of leaders sends one message each way for each full opening, and in order. In a full opening, a
leader skips the messages that ran ahead: its own calls were other ones. All leaders compare the same words, so all
ranks reach the same verdict. Then they find the first call in which they differ, and each says what it called there
(`nodes/agreement.py`; PAST).

A rank of a scatter that has another `out` than the root's parts is the only one that sees it, and refuses the call for
itself. The others have what they asked for.

Why nobody waits forever. In a stream, ranks wait for one node only (FROM), or that node for the others (TO). All ranks
agree on the stream: it began with a full opening. A rank that leaves it sends its next message to all leaders, by a
full opening. So a leader that waits for a node gets a message when that node makes its next call, whatever that is. A
node that waits for nobody comes to a full opening after MOST_AHEAD calls at the latest. There all wait for all. If a
suspect leader waits too long, because the others make no other call, it ends the group (`nodes/agreement.py`).

What is on its way: at most MOST_AHEAD messages and one of a full opening, from one leader to another, in MPI's memory.
A leader waits until MPI has taken its messages, before it changes their memory. Rows have MOST_IN_ROW_AHEAD bytes at
most, so MPI takes them at once. If it waited for their receivers, equal calls would go on all the same. But in calls
that differ, one leader may run ahead to another, which waits until its message of a full opening is taken, and all
would wait for their limits. The explorer tries both.

Cost: that of one message, in place of an exchange, and nothing for those that only send but the work for that.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek, poke
from shmcoll.engine.layout import HEADER_BYTES, HEADER_SEQUENCE, WORD
from shmcoll.engine.protocol.reduction import ALL
from shmcoll.nodes.opening import layout as o
from shmcoll.nodes.opening.node_calls import in_node
from shmcoll.nodes.opening.opening import (
    SELF_SIZED,
    both,
    common,
    contribute_rows,
    expected_rows,
    finish_rows,
    known,
    message,
    node_block,
    open_rows,
    open_rows_after_slots,
    own_stride,
    publish,
    receive_opening,
    row_of_root,
    row_place,
    send_opening,
    slot_data,
)
from shmcoll.nodes.opening.ranks import home_of, index_of
from shmcoll.nodes.opening.requests import await_messages

FROM, TO = 1, 2  # the kinds of streams; a stream is one of these, and twice its node


def make_open_from_root(carries_all):
    """Return an opening in which a root contributes a row, as in `open_rows` with SELF_SIZED.

    carries_all: returns whether a row has all that the root sends.
    """

    def open_from_root(state, root, compares):
        """Open a call that the slots describe. compares: whether arrays that only some ranks know must be alike. Return
        as `open_rows`."""
        home, status, is_full = home_of(state, root), c.OK, True
        stream = FROM + 2 * home
        if not goes_on(state, stream):
            return begun(state, stream, open_rows(state, 0, SELF_SIZED, root), root)
        status = in_node(state, o.GATHER_SLOTS)
        if status != c.OK:
            return status
        is_alike = known(state) >= 0
        if common(state) != 0 and home != peek(state + o.NODE) and (is_alike or not compares):
            status = take_from_root(state, root, compares)
            is_full = is_full_next(state, status)
        elif common(state) != 0 and home == peek(state + o.NODE) and is_alike:
            length, row = own_stride(state, SELF_SIZED), slot_data(state, index_of(state, root))
            is_whole = length > o.MOST_IN_SLOT or carries_all(row)  # without the array it is short
            if is_whole and length <= o.MOST_IN_ROW_AHEAD:
                status, is_full = send_from_root(state, root), False
        if is_full:
            return begun(state, stream, open_rows_after_slots(state, 0, SELF_SIZED, root), root)
        return count(state, status)

    def begun(state, stream, status, root):
        """Begin a stream after a full opening, unless it is one of rows that do not run ahead. Return the status."""
        row = row_of_root(state, root)
        if status == c.OK and carries_all(row) and peek(row) <= o.MOST_IN_ROW_AHEAD:
            poke(state + o.STREAM, stream)
        return status

    return open_from_root


def open_to_root(state, source, length, root):
    """Open a call in which all ranks contribute rows of `length` bytes, for one of them. Return as `open_rows`."""
    home = home_of(state, root)
    stream = TO + 2 * home
    if length > o.MOST_IN_ROW_AHEAD or not goes_on(state, stream):
        return begin(state, stream, open_rows(state, source, length, ALL))
    status = in_node(state, o.GATHER_SLOTS)
    if status != c.OK:
        return status
    is_full = common(state) == 0
    if not is_full:
        status = contribute_rows(state, source, length, ALL)
        if status == c.OK and home == peek(state + o.NODE):
            status = take_for_root(state, source, length)
            is_full = is_full_next(state, status)
        elif status == c.OK and peek(state + o.IS_LEADER):
            send_opening(state, home, common(state) | o.RAN_AHEAD, known(state))
            status = await_messages(state, 0)
    if is_full:
        return begin(state, stream, open_rows_after_slots(state, source, length, ALL))
    return count(state, status)


def goes_on(state, stream):
    """Return whether a call of this stream may run ahead."""
    return peek(state + o.STREAM) == stream and peek(state + o.AHEAD) < o.MOST_AHEAD


def begin(state, stream, status):
    """Begin a stream after a full opening. Return its status."""
    if status == c.OK:
        poke(state + o.STREAM, stream)
    return status


def count(state, status):
    """Count a call that ran ahead. Return its status."""
    poke(state + o.AHEAD, peek(state + o.AHEAD) + 1)
    return status


def send_from_root(state, root):
    """Send the row of a root of this node to the other leaders, and write it to where its ranks find it."""
    status = contribute_rows(state, 0, SELF_SIZED, root)
    if status == c.OK and peek(state + o.IS_LEADER):
        for i in range(1, peek(state + o.NODES)):
            other = (peek(state + o.NODE) + i) % peek(state + o.NODES)
            send_opening(state, other, common(state) | o.RAN_AHEAD, known(state))
        status = await_messages(state, 0)
    if peek(state + o.LOCAL) > 1:
        length = own_stride(state, SELF_SIZED)
        row = row_place(state) if length > o.MOST_IN_SLOT else slot_data(state, index_of(state, root))
        copy(row_of_root(state, root), row, length)
    return status


def take_from_root(state, root, compares):
    """Receive the row of a root of another node, and publish it, or FULL."""
    status, home = c.OK, home_of(state, root)
    if peek(state + o.IS_LEADER):
        receive_opening(state, home)
        status = await_messages(state, 0)
        for node in range(peek(state + o.NODES)):
            if node != home:
                poke(node_block(state, node), 0)
        if status == c.OK:
            verdict = looked_at(state, home, compares)
            poke(peek(state + o.PUBLISHED), verdict)
            if verdict == 0:
                status = finish_rows(state, 0, SELF_SIZED, root)
    return publish(state, expected_rows(state, 0, SELF_SIZED, root)) if status == c.OK else status


def take_for_root(state, source, length):
    """Receive the rows of the other nodes, and publish them, or FULL."""
    status, own, nodes = c.OK, peek(state + o.NODE), peek(state + o.NODES)
    if peek(state + o.IS_LEADER):
        for i in range(1, nodes):
            receive_opening(state, (own + i) % nodes)
        status, verdict = await_messages(state, 0), 0
        for node in range(nodes if status == c.OK else 0):
            if node != own and looked_at(state, node, 1):
                verdict = o.FULL
        poke(peek(state + o.PUBLISHED), verdict)
        if status == c.OK and verdict == 0:
            status = finish_rows(state, source, length, ALL)
    return publish(state, expected_rows(state, source, length, ALL)) if status == c.OK else status


def looked_at(state, node, compares):
    """Return 0 if the message that has come from a node is of this call, and ran ahead; else FULL."""
    theirs = peek(message(state, node))
    if theirs & o.RAN_AHEAD == 0:
        poke(peek(state + o.HELD) + node * WORD, 1)
        return o.FULL
    is_same = theirs == common(state) | o.RAN_AHEAD
    if is_same and compares:
        is_same = both(known(state), peek(message(state, node) + WORD)) >= 0
    if not is_same:
        poke(state + o.IS_SUSPECT, 1)
    return 0 if is_same else o.FULL


def is_full_next(state, status):
    """Return whether a status of `publish` says that a full opening follows."""
    return status == c.MISMATCH and peek(state + o.VERDICT) == o.FULL


def remember(state):
    """Note the call that is described in CALLED, for the case that ranks disagree when it is over."""
    called, sequence = peek(state + o.CALLED), peek(state + o.SEQUENCE)
    poke(called + HEADER_SEQUENCE, sequence)
    copy(peek(state + o.PAST) + (sequence & (o.PAST_CALLS - 1)) * HEADER_BYTES, called, HEADER_BYTES)
