"""Short blocks from every rank to every rank, among many ranks: they travel in the messages of the leaders, of which
there are fewer.

    1. in the node         the leader gathers the blocks of all ranks: BY_SENDER
    2. between leaders     one message to each other node: all blocks for its ranks, by sender
    3. in the node         the leader scatters what all have sent: BY_RECEIVER

Cost: O(0) + A + (N - 2) o + r^2 (N - 1) s / B and two moves in the node, for N nodes of r ranks and blocks of s bytes,
in place of ((N - 1) r - 1) o. A, o, B, and O(S) for an opening: see `opening.py`.

Why there is no circle: a leader begins all of its messages before it waits for one.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek
from shmcoll.nodes.opening import layout as o
from shmcoll.nodes.opening.node_calls import set_received, set_sent, swap_blocks
from shmcoll.nodes.opening.opening import message
from shmcoll.nodes.opening.ranks import leader, member, ranks_in_all, ranks_of
from shmcoll.nodes.opening.requests import await_messages, receive, send


def swap_by_leaders(state, source, target, length):
    """Send block r of `source`, `length` bytes, to rank r, and write what rank r has sent to block r of `target`."""
    local, leads, row, status = peek(state + o.LOCAL), peek(state + o.IS_LEADER), ranks_in_all(state) * length, c.OK
    for i in range(local):
        set_sent(state, i, row if i == 0 else 0, 0)
        set_received(state, i, row if leads else 0, i * row)
    status = swap_blocks(state, source, row, peek(state + o.BY_SENDER), local * row if leads else 0)
    if leads and status == c.OK:
        status = swap_between_nodes(state, length, row)
    for i in range(local):
        set_sent(state, i, row if leads else 0, i * row)
        set_received(state, i, row if i == 0 else 0, 0)
    if status == c.OK:
        status = swap_blocks(state, peek(state + o.BY_RECEIVER), local * row if leads else 0, target, row)
    return status


def swap_between_nodes(state, length, row):
    nodes, here, local = peek(state + o.NODES), peek(state + o.NODE), peek(state + o.LOCAL)
    for i in range(1, nodes):
        node = (here - i + nodes) % nodes
        room = local * ranks_of(state, node) * length
        receive(state, 0, leader(state, node), message(state, node), room, o.DATA_TAG)
    for i in range(nodes):
        node = (here + i) % nodes
        written = peek(state + o.TO_NODES) + node * peek(state + o.MESSAGE_BYTES)
        place = written
        for sender in range(local):
            for j in range(ranks_of(state, node)):
                copy(place, peek(state + o.BY_SENDER) + sender * row + member(state, node, j) * length, length)
                place += length
        if node != here:
            send(state, 0, leader(state, node), written, place - written, o.DATA_TAG)
    status = await_messages(state, 0)
    for node in range(nodes if status == c.OK else 0):
        place = message(state, node)
        if node == here:
            place = peek(state + o.TO_NODES) + node * peek(state + o.MESSAGE_BYTES)
        for i in range(ranks_of(state, node)):
            for receiver in range(local):
                copy(peek(state + o.BY_RECEIVER) + receiver * row + member(state, node, i) * length, place, length)
                place += length
    return status
