"""broadcast: every rank gets the array of the root, in place of its own.

A pipelined broadcast through shared memory (Graham and Shipman, "MPI support for multi-core architectures: optimized
shared memory collectives", EuroPVM/MPI 2008): the root copies its array into its cell, and all other ranks copy it from
there. Arrays longer than a cell go through the two cells of the root in turn, so that the root fills one cell while the
others read the other. Rounds are half a cell: with 2 ranks 512 KiB take 11 us, instead of 12.4 in rounds of a cell (one
copy takes 6). But they are a cell if that is a window: then ranks outnumber cores, or are many, and each round may put
each of them to sleep.
Cost: a + 2 S b up to a cell; beyond it 2 a ceil(S / cell) + S b, as the copies in and out overlap. The others
read a long array where it is, if they can: 2 a + S b.

Protocol: an eager operation (`engine/protocol/sync.py`) if the array fits beside a header: a reader waits for the root,
and the root for nobody. One sync if it fits a cell and is not exposed; else `engine/protocol/block_mover.py`.

A rank may have no array: it learns dtype and shape from the root. The header of such a rank has dtype 0 and no
dimensions, so its fingerprint differs from the root's. Only then headers are compared: each must have the root's
fingerprint, or describe the same call without an array. In an eager operation a reader compares its own header. In a
full one, if the fingerprints are not all equal, every rank sees one that differs from its own, so all ranks compare all
headers, and all reach the same verdict before a byte of a result moves.

A rank without an array does not know whether the operation is eager before it has the root's header. It publishes its
own, waits for the root's, and only then takes its turn, if the operation is full: it stages nothing. Such a rank runs
the routine in two phases, because it can allocate its result only after the opening: OPEN opens, compares, and returns
the shape; DATA reads. Its peers wait for its steps as for any other's, and the header and the cells stay unchanged
until it has done them, or begun another operation. Dimensions that do not fit the header are in the root's table, as
in `scatter.py`; such a call is full.

A row of objects is as long as the root chooses, as in `scatter.py`: a rank that reads it has no x, but an `out`.

Arguments: x of the root and out of the others are read and written; ARGUMENT is the root, ARGUMENT_2 the mark of the
elements. The EXTRA words are as in `scatter.py`: the phase; one that is not used; for OPEN the address of the words for
dtype, mark and shape.
"""

from shmcoll.collectives.scatter import (
    DATA,
    OPEN,
    PHASE,
    fits_header,
    has_room_for_row,
    store_more_dimensions,
    write_shape,
)
from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, load, peek, poke, store
from shmcoll.engine.collective import ALIKE, IN_PHASES, ROOTED, SHAPE, Collective
from shmcoll.engine.kernels.element_marks import in_words
from shmcoll.engine.layout import (
    HEADER_CALL,
    HEADER_EAGER,
    HEADER_FINGERPRINT,
    HEADER_HISTORY,
    LINE,
    call_dimensions,
    call_dtype,
    pack_call,
)
from shmcoll.engine.protocol.block_mover import map_blocks, move_blocks, offer_blocks
from shmcoll.engine.protocol.cells import beside_header, payload, write_cell
from shmcoll.engine.protocol.count_checks import ANYONE
from shmcoll.engine.protocol.exposure import note_result
from shmcoll.engine.protocol.nontemporal import copy_to_unread
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
    publish_header,
)
from shmcoll.engine.protocol.ways import TO_ALL, is_short

COVERS = SHAPE


def broadcast(ctx):
    phase, root = peek(ctx + PHASE), peek(ctx + c.ARGUMENT)
    if phase != DATA:
        status = open_and_check(ctx, phase, root)
        if status != c.OK or peek(ctx + c.SIZE) == 1:
            return status
        if phase == OPEN:
            return write_shape(ctx)
    is_reader = peek(ctx + c.RANK) != root
    if is_reader and not has_room_for_row(ctx, root):
        return c.BROKEN
    length, turn = peek(ctx + (c.OUT if is_reader else c.X) + c.BYTES), peek(ctx + c.TURN)
    if is_eager(ctx, root):
        if is_reader:
            copy(peek(ctx + c.OUT + c.DATA), beside_header(ctx, root), length)
        return keep_room(ctx)
    if not is_short(ctx, length, length):
        map_array(ctx, root, length)
        return move_blocks(ctx, turn)
    if is_reader:
        copy_to_unread(ctx, peek(ctx + c.OUT + c.DATA), payload(ctx, root, turn, length), length)
    return c.OK


def open_and_check(ctx, phase, root):
    """Offer the root's array, open, and compare the headers."""
    announce(ctx, COVERS)
    if peek(ctx + c.SIZE) == 1:
        return c.OK
    eager = fits_header(ctx, peek(ctx + c.X + c.BYTES))
    if peek(ctx + c.RANK) != root:
        note_result(ctx, phase != OPEN and peek(ctx + c.REDUCTION) != c.ROWS)
        return open_with_root(ctx, root, eager)
    store(my_header(ctx) + HEADER_EAGER, eager)
    if eager:
        copy(beside_header(ctx, root), peek(ctx + c.X + c.DATA), peek(ctx + c.X + c.BYTES))
        publish_header(ctx)
        return c.OK
    offer_array(ctx, next_turn(ctx), root, peek(ctx + c.X + c.BYTES))
    return compare_headers(ctx, exchange_headers(ctx), root)


def open_with_root(ctx, root, eager):
    """Open on a rank that reads, and compare the headers. eager: whether the call is eager as far as it knows."""
    if not eager:
        next_turn(ctx)
        return compare_headers(ctx, exchange_headers(ctx), root)
    publish_header(ctx)
    status = meet(ctx, root)
    if status == c.MISMATCH and describes_call_of(ctx, peek(ctx + c.RANK), root):
        status = c.OK
    if status != c.OK or is_eager(ctx, root):
        return status
    next_turn(ctx)
    return compare_headers(ctx, meet_all(ctx), root)


def offer_array(ctx, turn, root, length):
    """Let the readers of a full operation read the root's array."""
    store_more_dimensions(ctx, turn)
    if is_short(ctx, length, length):
        write_cell(ctx, payload(ctx, root, turn, length), peek(ctx + c.X + c.DATA), length)
    else:
        map_array(ctx, root, length)
        offer_blocks(ctx, turn, TO_ALL, length, True)


def map_array(ctx, root, length):
    """Map the root's array. See above how long its parts are."""
    map_blocks(ctx, root, ANYONE, length, False)
    poke(ctx + c.OWN_BYTES, 0)
    if length > peek(ctx + c.CELL_BYTES) < peek(ctx + c.WINDOW_BYTES):
        poke(ctx + c.PART, peek(ctx + c.CELL_BYTES) // 2 // LINE * LINE)


def compare_headers(ctx, status, root):
    """Return the status of an opening; instead of MISMATCH, return OK if every rank calls this broadcast with an array
    like the root's, or without one."""
    if status == c.MISMATCH:
        for rank in range(peek(ctx + c.SIZE)):
            if not describes_call_of(ctx, rank, root):
                return c.MISMATCH
        return c.OK
    return status


def describes_call_of(ctx, rank, root):
    """Return whether a rank calls this broadcast as the root does, with an array like the root's, or without one."""
    theirs, box = header(ctx, root), header(ctx, rank)
    call, without = load(theirs + HEADER_CALL), load(box + HEADER_CALL)
    if load(box + HEADER_FINGERPRINT) == load(theirs + HEADER_FINGERPRINT):
        return True
    if (
        call_dtype(call) != 0
        and without == call - pack_call(0, call_dtype(call), 0, 0, call_dimensions(call))
        and load(box + HEADER_HISTORY) == load(theirs + HEADER_HISTORY)
    ):
        return True
    poke(ctx + c.CULPRIT, rank)
    return False


COLLECTIVE = Collective(
    broadcast,
    code=7,
    form=ROOTED | ALIKE | IN_PHASES,
    covers=COVERS,
    plans=True,
    describe=lambda _root, mark: in_words(mark),
)
