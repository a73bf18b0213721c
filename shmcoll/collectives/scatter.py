"""scatter: rank i gets part i of the root's array, or array i of the root's list.

The mirror of gather (its linear algorithm; within one machine a tree would only copy more): the root copies the part of
each other rank into its cell, which is divided evenly among them, and each rank copies its own part. Longer parts go
through the two cells of the root in turn. There is one sync if all parts fit a cell.
Cost: a + ((n - 1) + 1) S / n b; beyond a cell a ceil(S / cell) + (n - 1) / n S b, where the copies in and out overlap.
The others read their parts of a long array, but not of a list, where they are, if they can: 2 a + S / n b.

Protocol:

    cell (s + k) & 1 of the root: the root writes it in round k, in round 0 before the opening; for k >= 2 the piece of
    a reader after that reader has done k - 1 steps, that is, has read round k - 2. The root leaves after all readers
    have read cell (s + 1) & 1, which the next operation may fill at once. Readers wait for steps of the root, the root
    for steps of the readers, and no reader for another reader, so there is no cycle.

A root that exposes its array (`engine/protocol/exposure.py`) has no rounds: each reader publishes step 1 when it has
read its part, and the root waits for all of them.

Only the root knows what it sends. Its header describes one part: dtype, mark of the elements, shape, count. The header
of a rank that has an `out` describes that. A rank without `out` has dtype 0. The mark is in the second word of the
arguments. It is written after the fingerprint is made, because it differs on a rank without `out`. After the opening
each rank compares all headers, so all ranks reach the same verdict before a byte of a result moves. Dimensions that do
not fit a header are stored at the start of the cell (s & 1) of their rank, and the pieces of the root follow them.

A rank without `out` runs the routine in two phases, because it can allocate its result only after the opening: OPEN
opens, checks, and returns the shape; DATA moves the pieces.

Arguments: ARGUMENT is the root. x: the root's array, or the first of its list; on a rank with `out` it is `out` too.
The EXTRA words are the phase; at the root the address of n source addresses, or 0 for one array; for OPEN the address
of 2 + MOST_DIMENSIONS words, for dtype and mark (`engine/kernels/element_marks.py`), number of dimensions and
dimensions of the part; for BOTH the mark in its place.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import load, peek, poke, store
from shmcoll.engine.collective import IN_PHASES, NOTHING, OWN_PART, ROOTED, SCATTERS, X_AT_ROOT, Collective
from shmcoll.engine.kernels.element_marks import MARK_SHIFT, in_words
from shmcoll.engine.layout import (
    DIMENSIONS_BYTES,
    HEADER_ARGUMENTS,
    HEADER_CALL,
    HEADER_COUNT,
    HEADER_DIMS,
    HEADER_INLINE,
    HEADER_MAX_DIMS,
    INLINE_BYTES,
    LINE,
    MOST_DIMENSIONS,
    WORD,
    call_dimensions,
    call_dtype,
)
from shmcoll.engine.protocol.cells import cell, cell_of_round, write_cell
from shmcoll.engine.protocol.exposure import (
    expose,
    exposed,
    find_out,
    finish_reading,
    note_result,
    read_exposed,
    results_are_apart,
)
from shmcoll.engine.protocol.nontemporal import copy_to_result, copy_to_unread
from shmcoll.engine.protocol.sync import (
    await_all,
    await_step,
    begin,
    exchange_headers,
    header,
    my_header,
    peer_after,
    publish_step,
)

COVERS = NOTHING
PHASE, SOURCES, SHAPE = (c.EXTRA + WORD * i for i in range(3))
MARK = SHAPE  # for BOTH
BOTH, OPEN, DATA = 0, 1, c.LATER
MARK_IN_HEADER = HEADER_ARGUMENTS + WORD


def scatter(ctx):
    phase = peek(ctx + PHASE)
    if phase != DATA:
        status = open_and_check(ctx)
        if status != c.OK:
            return status
        if phase == OPEN:
            return write_shape(ctx)
    sequence, root = peek(ctx + c.SEQUENCE), peek(ctx + c.ARGUMENT)
    return send(ctx, sequence) if peek(ctx + c.RANK) == root else receive(ctx, sequence, root)


# --- the check --------------------------------------------------------------------------------------------------------


def open_and_check(ctx):
    """Open, and check whether each rank that has an `out` has one of the shape that the root sends."""
    sequence = begin(ctx, COVERS)
    describe(ctx, sequence)
    root = peek(ctx + c.ARGUMENT)
    note_result(ctx, sequence, peek(ctx + PHASE) == BOTH)
    if peek(ctx + c.RANK) == root and not expose_array(ctx, sequence):
        stage(ctx, sequence, 0)
    status = exchange_headers(ctx, sequence)
    if status != c.OK:
        return status
    for rank in range(peek(ctx + c.SIZE)):
        if not fits(ctx, sequence, rank, root):
            poke(ctx + c.CULPRIT, rank)
            return c.DISAGREE
    return c.OK


def expose_array(ctx, sequence):
    """Expose the root's array, if it is one and that pays. Return whether the others read their parts there."""
    share = part_bytes(ctx) if peek(ctx + SOURCES) == 0 else 0
    limit = peek(ctx + c.DIRECT_BYTES)
    return expose(ctx, sequence, peek(ctx + c.X + c.DATA), peek(ctx + c.X + c.BYTES), share, limit)


def describe(ctx, sequence):
    """Complete this rank's header: the shape of one part, the mark, and the dimensions that do not fit the header."""
    size, me = peek(ctx + c.SIZE), peek(ctx + c.RANK)
    store(my_header(ctx, sequence) + MARK_IN_HEADER, peek(ctx + MARK) if peek(ctx + PHASE) == BOTH else 0)
    if me == peek(ctx + c.ARGUMENT) and peek(ctx + SOURCES) == 0:
        store(my_header(ctx, sequence) + HEADER_DIMS, peek(peek(ctx + c.X + c.DIMS)) // size)
        store(my_header(ctx, sequence) + HEADER_COUNT, peek(ctx + c.X + c.COUNT) // size)
    store_more_dimensions(ctx, sequence)


def store_more_dimensions(ctx, sequence):
    """Write the dimensions of x that do not fit the header to the start of this rank's cell."""
    for i in range(HEADER_MAX_DIMS, peek(ctx + c.X + c.DIMENSIONS)):
        place = cell(ctx, peek(ctx + c.RANK), sequence, 0, 0) + (i - HEADER_MAX_DIMS) * WORD
        store(place, peek(peek(ctx + c.X + c.DIMS) + i * WORD))


def fits(ctx, sequence, rank, root):
    """Return whether the header of `rank` describes the same array as the root's header, or no array."""
    call = load(header(ctx, rank, sequence) + HEADER_CALL)
    if rank == root or call_dtype(call) == 0:
        return 1
    if call != load(header(ctx, root, sequence) + HEADER_CALL):
        return 0
    if load(header(ctx, rank, sequence) + MARK_IN_HEADER) != load(header(ctx, root, sequence) + MARK_IN_HEADER):
        return 0
    for i in range(call_dimensions(call)):
        if dimension(ctx, sequence, rank, i) != dimension(ctx, sequence, root, i):
            return 0
    return 1


def dimension(ctx, sequence, rank, i):
    if i < HEADER_MAX_DIMS:
        return load(header(ctx, rank, sequence) + HEADER_DIMS + i * WORD)
    return load(cell(ctx, rank, sequence, 0, 0) + (i - HEADER_MAX_DIMS) * WORD)


def write_shape(ctx):
    """Write dtype, mark and shape of what this rank gets to where the caller reads them. Return SHAPE_KNOWN, or BROKEN
    for more dimensions than arrays have."""
    sequence, root = peek(ctx + c.SEQUENCE), peek(ctx + c.ARGUMENT)
    shape = peek(ctx + SHAPE)
    call = load(header(ctx, root, sequence) + HEADER_CALL)
    dimensions = call_dimensions(call)
    if not 0 <= dimensions <= MOST_DIMENSIONS:
        poke(ctx + c.CULPRIT, root)
        return c.BROKEN
    poke(shape, call_dtype(call) | load(header(ctx, root, sequence) + MARK_IN_HEADER) << MARK_SHIFT)
    poke(shape + WORD, dimensions)
    for i in range(dimensions):
        poke(shape + (2 + i) * WORD, dimension(ctx, sequence, root, i))
    return c.SHAPE_KNOWN


# --- the data ---------------------------------------------------------------------------------------------------------


def send(ctx, sequence):
    """Do the root's rounds after the first, and copy its own part."""
    me, block = peek(ctx + c.RANK), part_bytes(ctx)
    exposes = exposed(ctx, sequence, me, block)
    if exposes and not results_are_apart(ctx, sequence):
        return c.OVERLAP
    rounds = 1 if exposes else -(-block // piece_bytes(ctx, sequence))
    for k in range(1, rounds):
        status = stage(ctx, sequence, k)
        if status != c.OK:
            return status
        publish_step(ctx, sequence, k)
    if source(ctx, me) != peek(ctx + c.OUT + c.DATA):
        copy_to_result(ctx, peek(ctx + c.OUT + c.DATA), source(ctx, me), block)
    if exposes:
        return await_all(ctx, sequence, 1)
    return await_all(ctx, sequence, rounds & -2) if rounds > 1 else c.OK


def stage(ctx, sequence, k):
    """Copy the k-th piece of every other rank's part into the root's cell, each after its reader has left the place."""
    block, piece = part_bytes(ctx), piece_bytes(ctx, sequence)
    for i in range(1, peek(ctx + c.SIZE)):
        reader = peer_after(ctx, i)
        if k > 1:
            status = await_step(ctx, sequence, k - 1, reader)
            if status != c.OK:
                return status
        target = place(ctx, sequence, k, reader, block)
        write_cell(ctx, target, source(ctx, reader) + k * piece, min(piece, block - k * piece))
    return c.OK


def receive(ctx, sequence, root):
    """Do a reader's rounds: copy its piece from the root's cell, then publish the step."""
    me, block, piece = peek(ctx + c.RANK), peek(ctx + c.OUT + c.BYTES), piece_bytes(ctx, sequence)
    find_out(ctx, block)
    if exposed(ctx, sequence, root, block):
        if not results_are_apart(ctx, sequence):
            return c.OVERLAP
        status = read_exposed(ctx, sequence, root, me * block, peek(ctx + c.OUT + c.DATA), block)
        return finish_reading(ctx, sequence) if status == c.OK else status
    rounds = -(-block // piece)
    for k in range(rounds):
        if k > 0:
            status = await_step(ctx, sequence, k, root)
            if status != c.OK:
                return status
        target = peek(ctx + c.OUT + c.DATA) + k * piece
        copy_to_unread(ctx, target, place(ctx, sequence, k, me, block), min(piece, block - k * piece))
        if rounds > 1:
            publish_step(ctx, sequence, k + 1)
    return c.OK


def place(ctx, sequence, k, reader, block):
    """Return where the root stages the k-th piece for `reader`: beside its header if all fit, else in its cell."""
    size, root = peek(ctx + c.SIZE), peek(ctx + c.ARGUMENT)
    i = reader - root - 1 if reader > root else reader - root - 1 + size
    if (size - 1) * block <= INLINE_BYTES:
        return header(ctx, root, sequence) + HEADER_INLINE + i * block
    piece = min(piece_bytes(ctx, sequence), -(-block // LINE) * LINE)
    rounds = -(-block // piece_bytes(ctx, sequence))
    return root_cell(ctx, sequence, k, rounds, (size - 1) * piece) + i * piece


def piece_bytes(ctx, sequence):
    """Return the share of the root's cell that one reader has."""
    readers = max(peek(ctx + c.SIZE) - 1, 1)
    return (peek(ctx + c.CELL_BYTES) - lead(ctx, sequence)) // readers // LINE * LINE


def root_cell(ctx, sequence, k, rounds, length):
    """Return where the root stages `length` bytes in round k of so many: behind the dimensions, if its cell has some.
    Such cells do not move on, because ranks read the dimensions before they know a length."""
    root, reserved = peek(ctx + c.ARGUMENT), lead(ctx, sequence)
    return cell_of_round(ctx, root, sequence, k, rounds, 0 if reserved else length) + reserved


def lead(ctx, sequence):
    """Return the bytes at the start of the root's cells that are reserved for dimensions."""
    call = load(header(ctx, peek(ctx + c.ARGUMENT), sequence) + HEADER_CALL)
    return DIMENSIONS_BYTES if call_dimensions(call) > HEADER_MAX_DIMS else 0


def part_bytes(ctx):
    """Return the bytes of the part of one rank, as the root knows them."""
    length = peek(ctx + c.X + c.BYTES)
    return length if peek(ctx + SOURCES) else length // peek(ctx + c.SIZE)


def source(ctx, rank):
    """Return where the root has the part of `rank`."""
    table = peek(ctx + SOURCES)
    if table:
        return peek(table + rank * WORD)
    return peek(ctx + c.X + c.DATA) + rank * part_bytes(ctx)


COLLECTIVE = Collective(
    scatter,
    code=9,
    form=ROOTED | X_AT_ROOT | SCATTERS | OWN_PART | IN_PHASES,
    covers=COVERS,
    plans=True,
    describe=lambda _root, mark: in_words(mark),
)
