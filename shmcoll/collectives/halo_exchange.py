"""halo_exchange: ranks on a Cartesian grid fill the outer layers of their arrays, the halo, from their neighbours.

The direct neighbours of each axis exchange faces, one axis after the other: later faces take with them what came from
earlier ones, so corners and edges are right without anything between diagonal neighbours (Kjolstad and Snir, "Ghost
cell pattern", ParaPLoP 2010). A face is a row of runs (see `engine/kernels/kernels.py`): gathered from the array into
the own cell, scattered from the neighbour's.
Cost: a d + 2 F b for d axes, the faces of a rank having F bytes, while each face fits its place in a cell.

    cell (s + k) & 1 of a rank: a place for each axis and side; written by the rank as round k of that axis, round 0 of
    axis 0 before the opening. The neighbour on that side alone reads it.
    step (axis, k): this rank has laid round k of the axis, and has read all rounds and axes before it. As a number it
    is (axis << ROUND_BITS) + k, so it grows, and means the same on all ranks, though ranks that are no neighbours along
    an axis may have more or fewer rounds there. After an even number of rounds comes step (axis, rounds): all is read.

Neighbours along an axis have faces of equal size, so as many rounds. Who lays round k >= 2 has read round k - 1 of both
sides, so both neighbours have published step (axis, k - 1), and have read what lies in the place: round k - 2. Axes
have places of their own, hence the next one begins at once. The next operation may fill cell (s + 1) & 1, so a rank
leaves when step (axis, rounds) of its neighbours has come along each axis with an even number; with an odd one, they
have read what lies there already. What lies in cell s & 1 is safe until s + 2, as always. A rank that is about to
publish a step has waited only for steps before it in the order of axis and round, so nobody waits in a circle.

Extents may differ between ranks, but not the faces of neighbours. Each rank compares the headers of all after the
opening, in the same order, so all find the same mismatch, before a byte of a halo is written.

Arguments: x is the array, written in place, of at most HEADER_MAX_DIMS dimensions. ARGUMENT is a hash of the grid and
of the number of dimensions, ARGUMENT_2 the width of the halo; EXTRA words are the number of axes of the grid and the
address of a table: for each of them the axis of x, the ranks along it, the distance to the next rank, and whether it is
periodic. After a mismatch of faces UNLIKE_AXIS is 1 + the axis of x, and CULPRIT and UNLIKE_NEIGHBOUR are the
neighbours; else UNLIKE_AXIS is 0.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import load, peek, poke
from shmcoll.engine.collective import DTYPE, EXTRA, Collective
from shmcoll.engine.kernels.kernels import gather_runs, move_runs, scatter_runs
from shmcoll.engine.layout import HEADER_DIMS, LINE, WORD
from shmcoll.engine.protocol.sync import await_step, begin, cell, header, meet, publish_step

COVERS = DTYPE
AXES, TABLE = (c.EXTRA + WORD * i for i in range(2))
AXIS, RANKS, DISTANCE, PERIODIC, ROW = (WORD * i for i in range(5))
NOBODY = -1
LOW, HIGH = 0, 1

ROUND_BITS = 20


def halo_exchange(ctx):
    sequence = begin(ctx, COVERS)
    poke(ctx + c.UNLIKE_AXIS, 0)
    lay(ctx, sequence, 0, 0)
    status = meet(ctx, sequence)
    if status != c.OK:
        return status
    if not faces_match(ctx, sequence):
        return c.MISMATCH
    for axis in range(peek(ctx + AXES)):
        if neighbour(ctx, peek(ctx + c.RANK), axis, LOW) == peek(ctx + c.RANK):
            wrap(ctx, axis)
        else:
            status = exchange(ctx, sequence, axis)
            if status != c.OK:
                return status
    return await_readers(ctx, sequence)


# --- the verdict ------------------------------------------------------------------------------------------------------


def faces_match(ctx, sequence):
    """Whether all neighbours have equal extents but along their axis; notes the first two that have not."""
    for axis in range(peek(ctx + AXES)):
        across = peek(peek(ctx + TABLE) + axis * ROW + AXIS)
        for rank in range(peek(ctx + c.SIZE)):
            other = neighbour(ctx, rank, axis, HIGH)
            if other != NOBODY and other != rank and not are_alike(ctx, sequence, rank, other, across):
                poke(ctx + c.CULPRIT, rank)
                poke(ctx + c.UNLIKE_AXIS, 1 + across)
                poke(ctx + c.UNLIKE_NEIGHBOUR, other)
                return 0
    return 1


def are_alike(ctx, sequence, rank, other, across):
    """Whether two headers have the same dimensions, but for one."""
    one, another = header(ctx, rank, sequence) + HEADER_DIMS, header(ctx, other, sequence) + HEADER_DIMS
    for i in range(peek(ctx + c.X + c.DIMENSIONS)):
        if i != across and load(one + i * WORD) != load(another + i * WORD):
            return 0
    return 1


# --- the data ---------------------------------------------------------------------------------------------------------


def exchange(ctx, sequence, axis):
    """Fill both halos of one axis."""
    me = peek(ctx + c.RANK)
    low, high = neighbour(ctx, me, axis, LOW), neighbour(ctx, me, axis, HIGH)
    if low == NOBODY and high == NOBODY:
        return c.OK
    rounds = rounds_of(ctx, axis)
    for k in range(rounds):
        if axis > 0 or k > 0:
            lay(ctx, sequence, axis, k)
            publish_step(ctx, sequence, step(axis, k))
        for side in range(2):
            status = fetch(ctx, sequence, axis, k, side)
            if status != c.OK:
                return status
    if rounds > 0 and rounds & 1 == 0:
        publish_step(ctx, sequence, step(axis, rounds))
    return c.OK


def await_readers(ctx, sequence):
    """Wait until what lies in the cell of the next operation has been read."""
    me = peek(ctx + c.RANK)
    for axis in range(peek(ctx + AXES)):
        rounds = rounds_of(ctx, axis)
        for side in range(2 if rounds > 0 and rounds & 1 == 0 else 0):
            peer = neighbour(ctx, me, axis, side)
            if peer != NOBODY and peer != me:
                status = await_step(ctx, sequence, step(axis, rounds), peer)
                if status != c.OK:
                    return status
    return c.OK


def lay(ctx, sequence, axis, k):
    """Gather the k-th part of both faces into this rank's cell."""
    me = peek(ctx + c.RANK)
    begin_byte = k * part_bytes(ctx)
    end = min(begin_byte + part_bytes(ctx), face_bytes(ctx, axis))
    for side in range(2):
        peer = neighbour(ctx, me, axis, side)
        if peer != NOBODY and peer != me and begin_byte < end:
            inside = peek(ctx + c.ARGUMENT_2) if side == LOW else extent(ctx, axis) - 2 * peek(ctx + c.ARGUMENT_2)
            base, run, stride = layer(ctx, axis, inside), run_of(ctx, axis), stride_of(ctx, axis)
            gather_runs(place(ctx, sequence, axis, k, me, side), base, run, stride, begin_byte, end)


def fetch(ctx, sequence, axis, k, side):
    """Scatter the k-th part of the face of the neighbour on one side into the halo there."""
    peer = neighbour(ctx, peek(ctx + c.RANK), axis, side)
    if peer == NOBODY:
        return c.OK
    if axis > 0 or k > 0:
        status = await_step(ctx, sequence, step(axis, k), peer)
        if status != c.OK:
            return status
    begin_byte = k * part_bytes(ctx)
    end = min(begin_byte + part_bytes(ctx), face_bytes(ctx, axis))
    outside = 0 if side == LOW else extent(ctx, axis) - peek(ctx + c.ARGUMENT_2)
    base, run, stride = layer(ctx, axis, outside), run_of(ctx, axis), stride_of(ctx, axis)
    scatter_runs(base, run, stride, place(ctx, sequence, axis, k, peer, 1 - side), begin_byte, end)
    return c.OK


def wrap(ctx, axis):
    """Fill both halos of an axis along which this rank is its own neighbour."""
    width, length = peek(ctx + c.ARGUMENT_2), face_bytes(ctx, axis)
    run, stride = run_of(ctx, axis), stride_of(ctx, axis)
    outermost = extent(ctx, axis) - width
    if length > 0:
        move_runs(layer(ctx, axis, 0), run, stride, layer(ctx, axis, outermost - width), run, stride, length)
        move_runs(layer(ctx, axis, outermost), run, stride, layer(ctx, axis, width), run, stride, length)


# --- the grid ---------------------------------------------------------------------------------------------------------


def neighbour(ctx, rank, axis, side):
    """The rank beside another along an axis of the grid; NOBODY at an open boundary."""
    row = peek(ctx + TABLE) + axis * ROW
    ranks, distance = peek(row + RANKS), peek(row + DISTANCE)
    direction = 1 if side == HIGH else -1
    coordinate = rank // distance % ranks + direction
    if 0 <= coordinate < ranks:
        return rank + direction * distance
    return rank - direction * (ranks - 1) * distance if peek(row + PERIODIC) else NOBODY


def step(axis, k):
    return (axis << ROUND_BITS) + k


def place(ctx, sequence, axis, k, rank, side):
    """Where a rank lays the k-th part of one of its faces."""
    return cell(ctx, rank, sequence + k) + (2 * axis + side) * part_bytes(ctx)


def part_bytes(ctx):
    """The share of a cell that one face has."""
    return peek(ctx + c.CELL_BYTES) // (2 * peek(ctx + AXES)) // LINE * LINE


def rounds_of(ctx, axis):
    return -(-face_bytes(ctx, axis) // part_bytes(ctx))


# --- the array --------------------------------------------------------------------------------------------------------


def extent(ctx, axis):
    """How long x is along an axis of the grid."""
    return peek(peek(ctx + c.X + c.DIMS) + peek(peek(ctx + TABLE) + axis * ROW + AXIS) * WORD)


def face_bytes(ctx, axis):
    return peek(ctx + c.X + c.BYTES) // extent(ctx, axis) * peek(ctx + c.ARGUMENT_2)


def layer(ctx, axis, number):
    """Address of a layer of x across an axis of the grid."""
    return peek(ctx + c.X + c.DATA) + number * layer_bytes(ctx, axis)


def run_of(ctx, axis):
    """Contiguous bytes of a face, and the distance from one such run to the next."""
    return peek(ctx + c.ARGUMENT_2) * layer_bytes(ctx, axis)


def stride_of(ctx, axis):
    return extent(ctx, axis) * layer_bytes(ctx, axis)


def layer_bytes(ctx, axis):
    """Contiguous bytes of one layer across an axis of the grid."""
    length = peek(ctx + c.X + c.ITEM)
    for i in range(peek(peek(ctx + TABLE) + axis * ROW + AXIS) + 1, peek(ctx + c.X + c.DIMENSIONS)):
        length *= peek(peek(ctx + c.X + c.DIMS) + i * WORD)
    return length


COLLECTIVE = Collective(
    halo_exchange,
    code=19,
    form=EXTRA,
    covers=COVERS,
    describe=lambda grid, width: f", width={width}, grid of hash {grid:x}",
)
