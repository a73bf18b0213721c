"""scatter: rank i gets part i of the root's array, or array i of the root's list.

The mirror of gather (its linear algorithm; within one machine a tree would only copy more): the root copies the part of
each other rank into its cell, which is divided evenly among them, and each rank copies its own part. Longer parts go
through the two cells of the root in turn.
Cost: a + ((n - 1) + 1) S / n b; beyond a cell a ceil(S / cell) + (n - 1) / n S b, where the copies in and out overlap.
The others read their parts of a long array, but not of a list, where they are, if they can: 2 a + S / n b.

Protocol: an eager operation (`engine/protocol/sync.py`) if the parts of all others fit beside a header: a reader waits
for the root, and the root for nobody. One sync if all parts fit a cell and are not exposed; else
`engine/protocol/block_mover.py`.

Only the root knows what it sends. Its header describes one part: dtype, mark of the elements, shape, count. The header
of a rank that has an `out` describes that. A rank without `out` has dtype 0. The mark is in the second word of the
arguments. It is written after the fingerprint is made, because it differs on a rank without `out`. In a full operation
each rank compares all headers after the opening, so all ranks reach the same verdict before a byte of a result moves.
In an eager one a rank compares its own header with the root's, and refuses the call by itself; the others have what
they asked for, and the group goes on. Dimensions that do not fit a header are stored in the table of their rank
(`mailboxes.table`); such a call is full.

The root's header says whether the operation is eager. A rank publishes its own header, waits for the root's, and only
then takes its turn, if the operation is full.

A rank without `out` runs the routine in two phases, because it can allocate its result only after the opening: OPEN
opens, checks, and returns the shape; DATA moves the pieces.

Rows of objects (REDUCTION is ROWS) are as long as the root chooses. A rank that reads has no x, so its header describes
nothing, and an `out` with room for the longest row. It takes the length from the root's header after the opening, and
notes it in place of that of `out`; then all ranks find the same places.

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
    HEADER_ARGUMENTS,
    HEADER_CALL,
    HEADER_COUNT,
    HEADER_DIMS,
    HEADER_EAGER,
    HEADER_MAX_DIMS,
    MOST_DIMENSIONS,
    WORD,
    call_dimensions,
    call_dtype,
)
from shmcoll.engine.protocol.block_mover import (
    copy_own,
    get_block,
    map_blocks,
    map_sources,
    move_blocks,
    offer_blocks,
    put_block,
    readers_of_a_cell,
)
from shmcoll.engine.protocol.cells import may_be_eager, part_beside_header, payload_for, whole_lines
from shmcoll.engine.protocol.count_checks import ANYONE
from shmcoll.engine.protocol.exposure import note_result
from shmcoll.engine.protocol.mailboxes import table
from shmcoll.engine.protocol.sync import (
    announce,
    exchange_headers,
    header,
    is_eager,
    keep_room,
    meet,
    meet_all,
    my_header,
    next_turn,
    peer_after,
    publish_header,
)
from shmcoll.engine.protocol.ways import FROM_ROOT, is_short

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
    turn, root, me = peek(ctx + c.TURN), peek(ctx + c.ARGUMENT), peek(ctx + c.RANK)
    if me != root and not has_room_for_row(ctx, root):
        return c.BROKEN
    block = map_parts(ctx)
    if not is_eager(ctx, root) and not has_short_parts(ctx, block):
        return move_blocks(ctx, turn)
    if me == root:
        copy_own(ctx, 0, block)
    elif is_eager(ctx, root):
        get_block(ctx, part_beside_header(ctx, root, me, block), root, 0, block)
    else:
        get_block(ctx, payload_for(ctx, root, me, turn, block), root, 0, block)
    return keep_room(ctx) if is_eager(ctx, root) else c.OK


def map_parts(ctx):
    """Map the parts of the root's array or list. Return the bytes of one."""
    root, length = peek(ctx + c.ARGUMENT), peek(ctx + c.X + c.BYTES)
    if peek(ctx + c.RANK) != root:
        map_blocks(ctx, root, ANYONE, peek(ctx + c.OUT + c.BYTES), True)
    elif peek(ctx + SOURCES):
        map_blocks(ctx, root, ANYONE, length, True)
        map_sources(ctx, 0, 1, peek(ctx + SOURCES))
    else:
        map_blocks(ctx, root, ANYONE, length // peek(ctx + c.SIZE), True)
    return peek(ctx + c.LENGTH)


def has_short_parts(ctx, block):
    return is_short(ctx, readers_of_a_cell(ctx) * whole_lines(block), block)


# --- the check --------------------------------------------------------------------------------------------------------


def open_and_check(ctx):
    """Open, and check whether each rank that has an `out` has one of the shape that the root sends."""
    announce(ctx, COVERS)
    root, me = peek(ctx + c.ARGUMENT), peek(ctx + c.RANK)
    describe(ctx)
    if me != root:
        return open_with_root(ctx, root)
    block = map_parts(ctx)
    eager = fits_header(ctx, readers_of_a_cell(ctx) * block)
    store(my_header(ctx) + HEADER_EAGER, eager)
    if eager:
        for i in range(1, peek(ctx + c.SIZE)):
            reader = peer_after(ctx, i)
            put_block(ctx, part_beside_header(ctx, me, reader, block), reader, 0, block)
        publish_header(ctx)
        return c.OK
    turn = next_turn(ctx)
    store_more_dimensions(ctx, turn)
    offer_parts(ctx, turn, block)
    status = exchange_headers(ctx)
    return check_all(ctx, root) if status == c.OK else status


def open_with_root(ctx, root):
    """Do that on a rank that reads."""
    note_result(ctx, peek(ctx + PHASE) == BOTH and peek(ctx + c.REDUCTION) != c.ROWS)
    store_more_dimensions(ctx, peek(ctx + c.TURN) + 1)
    publish_header(ctx)
    status = meet(ctx, root)
    if status != c.OK:
        return status
    if is_eager(ctx, root):
        if fits(ctx, peek(ctx + c.RANK), root):
            return c.OK
        status = keep_room(ctx)
        return c.DISAGREE if status == c.OK else status
    next_turn(ctx)
    status = meet_all(ctx)
    return check_all(ctx, root) if status == c.OK else status


def check_all(ctx, root):
    """Return OK, or DISAGREE if the `out` of a rank is not like the part that the root sends."""
    for rank in range(peek(ctx + c.SIZE)):
        if not fits(ctx, rank, root):
            poke(ctx + c.CULPRIT, rank)
            return c.DISAGREE
    return c.OK


def fits_header(ctx, length):
    """Return whether `length` bytes, and the dimensions of x, fit a header."""
    return may_be_eager(length) and peek(ctx + c.X + c.DIMENSIONS) <= HEADER_MAX_DIMS


def offer_parts(ctx, turn, block):
    """Let the other ranks read their parts."""
    if not has_short_parts(ctx, block):
        offer_blocks(ctx, turn, FROM_ROOT, 0 if peek(ctx + SOURCES) else block, True)
        return
    for i in range(1, peek(ctx + c.SIZE)):
        reader = peer_after(ctx, i)
        put_block(ctx, payload_for(ctx, peek(ctx + c.RANK), reader, turn, block), reader, 0, block)


def describe(ctx):
    """Complete this rank's header: the shape of one part, and the mark."""
    size, me = peek(ctx + c.SIZE), peek(ctx + c.RANK)
    store(my_header(ctx) + MARK_IN_HEADER, peek(ctx + MARK) if peek(ctx + PHASE) == BOTH else 0)
    if me == peek(ctx + c.ARGUMENT) and peek(ctx + SOURCES) == 0:
        store(my_header(ctx) + HEADER_DIMS, peek(peek(ctx + c.X + c.DIMS)) // size)
        store(my_header(ctx) + HEADER_COUNT, peek(ctx + c.X + c.COUNT) // size)


def store_more_dimensions(ctx, turn):
    """Write the dimensions of x that do not fit the header to this rank's table. It may be that of the next turn, which
    no rank reads before that: the last one that it was used for is finished on all ranks."""
    for i in range(HEADER_MAX_DIMS, peek(ctx + c.X + c.DIMENSIONS)):
        place = table(ctx, peek(ctx + c.RANK), turn) + (i - HEADER_MAX_DIMS) * WORD
        store(place, peek(peek(ctx + c.X + c.DIMS) + i * WORD))


def fits(ctx, rank, root):
    """Return whether the header of `rank` describes the same array as the root's header, or no array."""
    call = load(header(ctx, rank) + HEADER_CALL)
    if rank == root or call_dtype(call) == 0:
        return 1
    if call != load(header(ctx, root) + HEADER_CALL):
        return 0
    if load(header(ctx, rank) + MARK_IN_HEADER) != load(header(ctx, root) + MARK_IN_HEADER):
        return 0
    for i in range(call_dimensions(call)):
        if dimension(ctx, rank, i) != dimension(ctx, root, i):
            return 0
    return 1


def has_room_for_row(ctx, root):
    """Take the length of a row of objects from the root's header, after the opening. Returns whether `out` has room for
    it; 1 if no rows are moved."""
    if peek(ctx + c.REDUCTION) != c.ROWS:
        return 1
    length = load(header(ctx, root) + HEADER_COUNT) * peek(ctx + c.OUT + c.ITEM)
    if not 0 < length <= peek(ctx + c.OUT + c.BYTES):
        poke(ctx + c.CULPRIT, root)
        return 0
    poke(ctx + c.OUT + c.BYTES, length)
    return 1


def dimension(ctx, rank, i):
    if i < HEADER_MAX_DIMS:
        return load(header(ctx, rank) + HEADER_DIMS + i * WORD)
    return load(table(ctx, rank, peek(ctx + c.TURN)) + (i - HEADER_MAX_DIMS) * WORD)


def write_shape(ctx):
    """Write dtype, mark and shape of what this rank gets to where the caller reads them. Return SHAPE_KNOWN, or BROKEN
    for more dimensions than arrays have."""
    root = peek(ctx + c.ARGUMENT)
    shape = peek(ctx + SHAPE)
    call = load(header(ctx, root) + HEADER_CALL)
    dimensions = call_dimensions(call)
    if not 0 <= dimensions <= MOST_DIMENSIONS:
        poke(ctx + c.CULPRIT, root)
        return c.BROKEN
    poke(shape, call_dtype(call) | load(header(ctx, root) + MARK_IN_HEADER) << MARK_SHIFT)
    poke(shape + WORD, dimensions)
    for i in range(dimensions):
        poke(shape + (2 + i) * WORD, dimension(ctx, root, i))
    return c.SHAPE_KNOWN


COLLECTIVE = Collective(
    scatter,
    code=9,
    form=ROOTED | X_AT_ROOT | SCATTERS | OWN_PART | IN_PHASES,
    covers=COVERS,
    plans=True,
    describe=lambda _root, mark: in_words(mark),
)
