"""How the bytes of long calls move that are not reduced, after their opening: within the node through shared memory, to
other nodes by messages.

swap               a block from every rank to every rank: one message for each pair of ranks on different nodes. They
                   are begun before the node's part is moved, and awaited after it. `leaders.py`: fewer messages
permute            the same, with one block
gather_long        the same, with blocks for one rank
scatter_long       the same, with blocks of one rank
all_gather_long    rails: rank j of a node sends its block once to each other node, to rank j (modulo its ranks) there.
                   Then the ranks of a node share what they have received. Cost for N nodes: N - 1 blocks of a rank on
                   the wire, and an all_gather_v in the node for each of them
broadcast_long     in segments: the root's node shares a segment, each rail sends its part along the binomial tree of
                   the nodes, and each node shares what its rails have received. While the messages of a segment are
                   on their way, the one before is shared

Why there is no circle: a rank begins its own messages of a step before it waits for one of others. In `broadcast_long`
it waits for a node that is nearer to the root. Within the node the ranks make the same calls in the same order. See
`messages.py` for why nobody waits forever.

Only this rank and MPI write its memory. Every address here is of the arrays of the call, which its caller keeps alive.
"""

from shmcoll.collectives.collective_permute import NOBODY
from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek, poke
from shmcoll.engine.kernels.kernels import clear
from shmcoll.engine.layout import WORD
from shmcoll.nodes.algorithms.leaders import swap_by_leaders
from shmcoll.nodes.opening import layout as o
from shmcoll.nodes.opening import node_calls
from shmcoll.nodes.opening.ranks import home_of, index_of, member, ranks_in_all, ranks_of
from shmcoll.nodes.opening.requests import await_messages, receive, send

SEGMENT_BYTES = 1 << 20  # of a broadcast that several ranks of a node share, or that several nodes pass on
SENT, SENT_FROM, RECEIVED, RECEIVED_AT, BLOCK_ROWS_COUNT = range(5)  # rows of BLOCK_ROWS, in bytes


def send_to_rank(state, lane, rank, address, length):
    send(state, lane, rank, address, length, o.DATA_TAG)


def receive_from_rank(state, lane, rank, address, length):
    receive(state, lane, rank, address, length, o.DATA_TAG)


# --- blocks for each rank ---------------------------------------------------------------------------------------------


def set_sent_block(state, rank, length, place):
    """Write what is sent to a rank in the next swap: bytes, and where they begin in the source."""
    poke(block_row(state, SENT) + rank * WORD, length)
    poke(block_row(state, SENT_FROM) + rank * WORD, place)


def set_received_block(state, rank, length, place):
    """Write what is received from a rank: bytes, and where they begin in the target."""
    poke(block_row(state, RECEIVED) + rank * WORD, length)
    poke(block_row(state, RECEIVED_AT) + rank * WORD, place)


def block_of(state, row, rank):
    return peek(block_row(state, row) + rank * WORD)


def block_row(state, row):
    return peek(state + o.BLOCK_ROWS) + row * ranks_in_all(state) * WORD


def swap(state, source, target):
    """Send a block to every rank, and receive one from every rank, as BLOCK_ROWS says."""
    begin_blocks(state, source, target)
    status = share_blocks(state, source, target)
    return await_messages(state, 0) if status == c.OK else status


def begin_blocks(state, source, target):
    """Begin the messages of a swap."""
    size, me, here = ranks_in_all(state), peek(state + o.RANK), peek(state + o.NODE)
    for i in range(1, size):
        peer = (me - i + size) % size
        if home_of(state, peer) != here:
            place = target + block_of(state, RECEIVED_AT, peer)
            receive_from_rank(state, 0, peer, place, block_of(state, RECEIVED, peer))
    for i in range(1, size):
        peer = (me + i) % size
        if home_of(state, peer) != here:
            send_to_rank(state, 0, peer, source + block_of(state, SENT_FROM, peer), block_of(state, SENT, peer))


def share_blocks(state, source, target):
    """Move the blocks of a swap within the node."""
    here = peek(state + o.NODE)
    sent = received = 0  # how far the blocks of this node reach
    for i in range(peek(state + o.LOCAL)):
        peer = member(state, here, i)
        length, begin = block_of(state, SENT, peer), block_of(state, SENT_FROM, peer)
        node_calls.set_sent(state, i, length, begin)
        sent = max(sent, begin + length)
        length, begin = block_of(state, RECEIVED, peer), block_of(state, RECEIVED_AT, peer)
        node_calls.set_received(state, i, length, begin)
        received = max(received, begin + length)
    return node_calls.swap_blocks(state, source, sent, target, received)


def exchange_blocks(state, source, target, length):
    """Send block r of `source`, `length` bytes, to rank r, and write what rank r has sent to block r of `target`."""
    if length < peek(state + o.DIRECT_BYTES):
        return swap_by_leaders(state, source, target, length)
    for rank in range(ranks_in_all(state)):
        set_sent_block(state, rank, length, rank * length)
        set_received_block(state, rank, length, rank * length)
    return swap(state, source, target)


def permute(state, sender, receiver, source, target, length):
    """Send a block to a rank, and receive one from another, which may be NOBODY. They do not overlap."""
    for rank in range(ranks_in_all(state)):
        set_sent_block(state, rank, length if rank == receiver else 0, 0)
        set_received_block(state, rank, length if rank == sender else 0, 0)
    if sender == NOBODY:
        clear(target, length)
    return swap(state, source, target)


# --- one rank, and all others -----------------------------------------------------------------------------------------


def gather_long(state, block, length, rows, root):
    """Write the blocks of all ranks, of equal length in bytes, into `rows` of the root. Its own may be there."""
    me = peek(state + o.RANK)
    for rank in range(ranks_in_all(state)):
        set_sent_block(state, rank, length if rank == root != me else 0, 0)
        set_received_block(state, rank, length if rank != root == me else 0, rank * length)
    if me == root:
        node_calls.copy_freely(rows + me * length, block, length)
    return swap_at_home(state, block, rows, root)


def scatter_long(state, rows, target, length, root):
    """Write to `target` of each rank its block, of equal length in bytes, of `rows` of the root. The root's may be
    there."""
    me = peek(state + o.RANK)
    for rank in range(ranks_in_all(state)):
        set_sent_block(state, rank, length if rank != root == me else 0, rank * length)
        set_received_block(state, rank, length if rank == root != me else 0, 0)
    if me == root:
        node_calls.copy_freely(target, rows + me * length, length)
    return swap_at_home(state, rows, target, root)


def swap_at_home(state, source, target, root):
    """Make a swap in which only the root's node has blocks to share."""
    status = c.OK
    begin_blocks(state, source, target)
    if home_of(state, root) == peek(state + o.NODE):
        status = share_blocks(state, source, target)
    return await_messages(state, 0) if status == c.OK else status


# --- from one to all --------------------------------------------------------------------------------------------------


def all_gather_long(state, block, length, rows):
    """Write the blocks of all ranks, of equal length in bytes, into `rows`. This rank's may be there already."""
    nodes, here, local = peek(state + o.NODES), peek(state + o.NODE), peek(state + o.LOCAL)
    me, room = peek(state + o.INDEX), ranks_in_all(state) * length
    for i in range(1, nodes):
        node = (here - i + nodes) % nodes
        for index in range(me, ranks_of(state, node), local):
            rank = member(state, node, index)
            receive_from_rank(state, 0, rank, rows + rank * length, length)
    for i in range(1, nodes):
        node = (here + i) % nodes
        send_to_rank(state, 0, member(state, node, me % ranks_of(state, node)), block, length)
    status = share_rows(state, block, here, 0, length, rows, room)
    if status == c.OK:
        status = await_messages(state, 0)
    for i in range(1, nodes):
        node = (here - i + nodes) % nodes
        for first in range(0, ranks_of(state, node) if local > 1 else 0, local):
            if status == c.OK:
                own = member(state, node, first + me) if first + me < ranks_of(state, node) else 0
                status = share_rows(state, rows + own * length, node, first, length, rows, room)
    return status


def share_rows(state, block, node, first, length, rows, room):
    """Share the rows of some ranks of a node, from index `first` on: rank i of this node has that of index first + i,
    if there is one."""
    for i in range(peek(state + o.LOCAL)):
        has = first + i < ranks_of(state, node)
        rank = member(state, node, first + i) if has else 0
        node_calls.set_received(state, i, length if has else 0, rank * length)
    return node_calls.gather_blocks(state, block, rows, room)


def broadcast_long(state, address, length, root):
    """Copy bytes of the root to all ranks, where each of them has `address`."""
    home, step, status, k = home_of(state, root), segment_bytes(state, length), c.OK, 0
    is_home = peek(state + o.NODE) == home
    if not is_home:
        receive_segment(state, address, length, home, step, 0)
    while k * step < length and status == c.OK:
        begin = k * step
        count = min(step, length - begin)
        if is_home:
            status = node_calls.broadcast_in_node(state, address + begin, count, index_of(state, root))
        else:
            receive_segment(state, address, length, home, step, k + 1)
            status = await_messages(state, k & 1)
        if status == c.OK:
            status = await_messages(state, 2 + (k & 1))  # of the segment before the last
        if status == c.OK:
            send_segment(state, address + begin, count, home, 2 + (k & 1))
            if not is_home:
                status = share_segment(state, address + begin, count)
        k += 1
    for lane in (2, 3):
        if status == c.OK:
            status = await_messages(state, lane)
    return status


def segment_bytes(state, length):
    """Return the bytes of a segment: all of them if there are only two ranks, so that nothing is passed on."""
    return length if ranks_in_all(state) == 2 else SEGMENT_BYTES


def part_begin(state, count, index):
    """Return where the part of a rail begins in a segment. Behind the last rail it ends."""
    rails = peek(state + o.RAILS)
    return count * min(index, rails) // rails


def receive_segment(state, address, length, home, step, k):
    """Begin to receive this rail's part of a segment from the node before this one in the tree."""
    begin, nodes, me = k * step, peek(state + o.NODES), peek(state + o.INDEX)
    count = min(step, length - begin)
    if count <= 0 or me >= peek(state + o.RAILS):
        return
    place, bit = (peek(state + o.NODE) - home + nodes) % nodes, 1
    while place & bit == 0:
        bit *= 2
    part = part_begin(state, count, me)
    sender = member(state, (place - bit + home) % nodes, me)
    receive_from_rank(state, k & 1, sender, address + begin + part, part_begin(state, count, me + 1) - part)


def send_segment(state, address, count, home, lane):
    """Begin to send this rail's part of a segment to the nodes behind this one in the binomial tree."""
    nodes, me, bit = peek(state + o.NODES), peek(state + o.INDEX), 1
    if me >= peek(state + o.RAILS):
        return
    place = (peek(state + o.NODE) - home + nodes) % nodes
    part = part_begin(state, count, me)
    while bit < nodes and place & bit == 0:
        bit *= 2
    while bit > 1:
        bit //= 2
        if place + bit < nodes:
            receiver = member(state, (place + bit + home) % nodes, me)
            send_to_rank(state, lane, receiver, address + part, part_begin(state, count, me + 1) - part)


def share_segment(state, address, count):
    """Copy the parts of the rails to all ranks of this node."""
    for i in range(peek(state + o.LOCAL)):
        begin = part_begin(state, count, i)
        node_calls.set_received(state, i, part_begin(state, count, i + 1) - begin, begin)
    return node_calls.gather_blocks(state, address + part_begin(state, count, peek(state + o.INDEX)), address, count)
