"""halo_exchange: ranks on a Cartesian grid fill the outer layers of their arrays, the halo, from their neighbours.

The direct neighbours along each axis exchange faces, one axis after the other. Later faces carry what earlier ones
brought, so corners and edges are right without any exchange between diagonal neighbours (Kjolstad and Snir, "Ghost cell
pattern", ParaPLoP 2010). Each rank gathers its faces from the array into its cell, and its neighbours scatter them from
there into their arrays.
Cost: a d + 2 F b for d axes and faces of F bytes, if each face fits its place in a cell.

Extents may differ between ranks, but the faces of neighbours must be equal. Each rank compares the headers of all ranks
after the opening, in the same order. So all ranks find the same mismatch, before a byte of a halo is written.

Protocol: a face is a row of runs (see `engine/kernels/kernels.py`).

    cell (t + k) & 1 of a rank: it has a place for each axis and side. The rank writes it in round k of that axis, in
    round 0 of axis 0 before the opening. Only the neighbour on that side reads the place.
    step (axis, k): this rank has staged round k of the axis, and has read all rounds and axes before it. Its number is
    (axis << ROUND_BITS) + k, so it grows, and it means the same on all ranks, although ranks that are not neighbours
    along an axis may have more or fewer rounds there. After an even number of rounds follows step (axis, rounds): all
    is read.

Neighbours along an axis have faces of equal size, so they have equally many rounds. A rank that stages round k >= 2 has
read round k - 1 of both sides. So both neighbours have published step (axis, k - 1), and have read the content of the
place, round k - 2. Each axis has places of its own, so the next axis begins at once. The next operation may fill cell
(t + 1) & 1. So a rank leaves after step (axis, rounds) of its neighbours along each axis with an even number of rounds;
after an odd number, the neighbours have already read that cell. The content of cell t & 1 is safe until t + 2, as
always. A rank that is about to publish a step has waited only for steps before it, in the order of axis and round, so
no ranks wait in a circle.

Arguments: x is the array, written in place, of at most HEADER_MAX_DIMS dimensions. ARGUMENT is a hash of the grid and
of the number of dimensions, ARGUMENT_2 the width of the halo. The EXTRA words are the number of axes of the grid and
the address of a table. Its rows are, for each axis: the axis of x, the ranks along it, the distance to the next rank,
and whether it is periodic. After a mismatch of faces UNLIKE_AXIS is 1 + the axis of x, and CULPRIT and UNLIKE_NEIGHBOUR
are the neighbours; else UNLIKE_AXIS is 0.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import load, peek, poke
from shmcoll.engine.collective import DTYPE, EXTRA, Collective
from shmcoll.engine.kernels.kernels import gather_runs, move_runs, scatter_runs
from shmcoll.engine.layout import HEADER_DIMS, LINE, WORD
from shmcoll.engine.protocol.cells import full_cell
from shmcoll.engine.protocol.sync import await_step, begin, exchange_headers, header, publish_step

COVERS = DTYPE
AXES, TABLE = (c.EXTRA + WORD * i for i in range(2))
AXIS, RANKS, DISTANCE, PERIODIC, ROW = (WORD * i for i in range(5))
NOBODY = -1
LOW, HIGH = 0, 1

ROUND_BITS = 20


def halo_exchange(ctx):
    turn = begin(ctx, COVERS)
    poke(ctx + c.UNLIKE_AXIS, 0)
    if peek(ctx + AXES) > 0:
        stage(ctx, turn, 0, 0)
    status = exchange_headers(ctx)
    if status != c.OK:
        return status
    if not faces_match(ctx):
        return c.MISMATCH
    for axis in range(peek(ctx + AXES)):
        if neighbour(ctx, peek(ctx + c.RANK), axis, LOW) == peek(ctx + c.RANK):
            copy_own_faces(ctx, axis)
        else:
            status = exchange_faces(ctx, turn, axis)
            if status != c.OK:
                return status
    return await_readers(ctx, turn)


# --- the check --------------------------------------------------------------------------------------------------------


def faces_match(ctx):
    """Return whether all neighbours have equal extents except along their axis. Note the first two that do not."""
    for axis in range(peek(ctx + AXES)):
        across = peek(peek(ctx + TABLE) + axis * ROW + AXIS)
        for rank in range(peek(ctx + c.SIZE)):
            other = neighbour(ctx, rank, axis, HIGH)
            if other != NOBODY and other != rank and not are_alike(ctx, rank, other, across):
                poke(ctx + c.CULPRIT, rank)
                poke(ctx + c.UNLIKE_AXIS, 1 + across)
                poke(ctx + c.UNLIKE_NEIGHBOUR, other)
                return 0
    return 1


def are_alike(ctx, rank, other, across):
    """Return whether two headers have the same dimensions, except for one."""
    one, another = header(ctx, rank) + HEADER_DIMS, header(ctx, other) + HEADER_DIMS
    for i in range(peek(ctx + c.X + c.DIMENSIONS)):
        if i != across and load(one + i * WORD) != load(another + i * WORD):
            return 0
    return 1


# --- the data ---------------------------------------------------------------------------------------------------------


def exchange_faces(ctx, turn, axis):
    """Fill both halos of one axis."""
    me = peek(ctx + c.RANK)
    low, high = neighbour(ctx, me, axis, LOW), neighbour(ctx, me, axis, HIGH)
    if low == NOBODY and high == NOBODY:
        return c.OK
    rounds = rounds_of(ctx, axis)
    for k in range(rounds):
        if axis > 0 or k > 0:
            stage(ctx, turn, axis, k)
            publish_step(ctx, turn, step(axis, k))
        for side in range(2):
            status = fetch(ctx, turn, axis, k, side)
            if status != c.OK:
                return status
    if rounds > 0 and rounds & 1 == 0:
        publish_step(ctx, turn, step(axis, rounds))
    return c.OK


def await_readers(ctx, turn):
    """Wait until the neighbours have read the cell of the next operation."""
    me = peek(ctx + c.RANK)
    for axis in range(peek(ctx + AXES)):
        rounds = rounds_of(ctx, axis)
        for side in range(2 if rounds > 0 and rounds & 1 == 0 else 0):
            peer = neighbour(ctx, me, axis, side)
            if peer != NOBODY and peer != me:
                status = await_step(ctx, turn, step(axis, rounds), peer)
                if status != c.OK:
                    return status
    return c.OK


def stage(ctx, turn, axis, k):
    """Gather the k-th part of both faces into this rank's cell."""
    me = peek(ctx + c.RANK)
    begin_byte = k * part_bytes(ctx)
    end = min(begin_byte + part_bytes(ctx), face_bytes(ctx, axis))
    for side in range(2):
        peer = neighbour(ctx, me, axis, side)
        if peer != NOBODY and peer != me and begin_byte < end:
            inside = peek(ctx + c.ARGUMENT_2) if side == LOW else extent(ctx, axis) - 2 * peek(ctx + c.ARGUMENT_2)
            base, run, stride = layer(ctx, axis, inside), run_of(ctx, axis), stride_of(ctx, axis)
            gather_runs(place(ctx, turn, axis, k, me, side), base, run, stride, begin_byte, end)


def fetch(ctx, turn, axis, k, side):
    """Wait for the k-th part of the neighbour's face on one side and scatter it into the halo there."""
    peer = neighbour(ctx, peek(ctx + c.RANK), axis, side)
    if peer == NOBODY:
        return c.OK
    if axis > 0 or k > 0:
        status = await_step(ctx, turn, step(axis, k), peer)
        if status != c.OK:
            return status
    begin_byte = k * part_bytes(ctx)
    end = min(begin_byte + part_bytes(ctx), face_bytes(ctx, axis))
    outside = 0 if side == LOW else extent(ctx, axis) - peek(ctx + c.ARGUMENT_2)
    base, run, stride = layer(ctx, axis, outside), run_of(ctx, axis), stride_of(ctx, axis)
    scatter_runs(base, run, stride, place(ctx, turn, axis, k, peer, 1 - side), begin_byte, end)
    return c.OK


def copy_own_faces(ctx, axis):
    """Fill both halos of an axis along which this rank is its own neighbour."""
    width, length = peek(ctx + c.ARGUMENT_2), face_bytes(ctx, axis)
    run, stride = run_of(ctx, axis), stride_of(ctx, axis)
    outermost = extent(ctx, axis) - width
    if length > 0:
        move_runs(layer(ctx, axis, 0), run, stride, layer(ctx, axis, outermost - width), run, stride, length)
        move_runs(layer(ctx, axis, outermost), run, stride, layer(ctx, axis, width), run, stride, length)


# --- the grid ---------------------------------------------------------------------------------------------------------


def neighbour(ctx, rank, axis, side):
    """Return the rank beside another along an axis of the grid; NOBODY at an open boundary."""
    row = peek(ctx + TABLE) + axis * ROW
    ranks, distance = peek(row + RANKS), peek(row + DISTANCE)
    direction = 1 if side == HIGH else -1
    coordinate = rank // distance % ranks + direction
    if 0 <= coordinate < ranks:
        return rank + direction * distance
    return rank - direction * (ranks - 1) * distance if peek(row + PERIODIC) else NOBODY


def step(axis, k):
    return (axis << ROUND_BITS) + k


def place(ctx, turn, axis, k, rank, side):
    """Return where a rank stages the k-th part of one of its faces."""
    return full_cell(ctx, rank, turn, k) + (2 * axis + side) * part_bytes(ctx)


def part_bytes(ctx):
    """Return the share of a cell that one face has."""
    return peek(ctx + c.CELL_BYTES) // (2 * peek(ctx + AXES)) // LINE * LINE


def rounds_of(ctx, axis):
    return -(-face_bytes(ctx, axis) // part_bytes(ctx))


# --- the array --------------------------------------------------------------------------------------------------------


def extent(ctx, axis):
    """Return how long x is along an axis of the grid."""
    return peek(peek(ctx + c.X + c.DIMS) + peek(peek(ctx + TABLE) + axis * ROW + AXIS) * WORD)


def face_bytes(ctx, axis):
    return peek(ctx + c.X + c.BYTES) // extent(ctx, axis) * peek(ctx + c.ARGUMENT_2)


def layer(ctx, axis, number):
    """Return the address of a layer of x across an axis of the grid."""
    return peek(ctx + c.X + c.DATA) + number * layer_bytes(ctx, axis)


def run_of(ctx, axis):
    """Return the length of a run of a face, in bytes."""
    return peek(ctx + c.ARGUMENT_2) * layer_bytes(ctx, axis)


def stride_of(ctx, axis):
    """Return the distance from one run of a face to the next."""
    return extent(ctx, axis) * layer_bytes(ctx, axis)


def layer_bytes(ctx, axis):
    """Return the contiguous bytes of one layer across an axis of the grid."""
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
