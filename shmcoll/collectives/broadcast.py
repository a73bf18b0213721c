"""broadcast: every rank gets the array of the root, in place of its own.

A pipelined broadcast through shared memory (Graham and Shipman, "MPI support for multi-core architectures: optimized
shared memory collectives", EuroPVM/MPI 2008): the root copies its array into its cell, and all other ranks copy it from
there. Arrays longer than a cell go through the two cells of the root in turn, so that the root fills one cell while the
others read the other. Rounds are half a cell: with 2 ranks 512 KiB take 11 us, instead of 12.4 in rounds of a cell (one
copy takes 6). But they are a cell if that is a window: then ranks outnumber cores, or are many, and each round may put
each of them to sleep.
Cost: a + 2 S b up to a cell; beyond it 2 a ceil(S / cell) + S b, as the copies in and out overlap. The others
read a long array where it is, if they can: 2 a + S b.

Protocol: one sync if the array fits a cell and is not exposed; else `engine/protocol/block_mover.py`.

A rank may have no array: it learns dtype and shape from the root. The header of such a rank has dtype 0 and no
dimensions, so its fingerprint differs from the root's. Only then each rank compares the headers of all ranks: each must
have the root's fingerprint, or describe the same call without an array. If the fingerprints are not all equal, every
rank sees one that differs from its own, so all ranks compare, and all reach the same verdict before a byte of a result
moves. Headers stay unchanged until their ranks begin operation s + 2, which they cannot before this rank has begun
s + 1. A rank without an array runs the routine in two phases, because it can allocate its result only after the
opening: OPEN opens, compares, and returns the shape; DATA reads. Its peers wait for its steps as for any other's, and
the cells stay unchanged until it has done them. Dimensions that do not fit the header are in the
root's table, as in `scatter.py`.

Arguments: x of the root and out of the others are read and written; ARGUMENT is the root, ARGUMENT_2 the mark of the
elements. The EXTRA words are as in `scatter.py`: the phase; one that is not used; for OPEN the address of the words for
dtype, mark and shape.
"""

from shmcoll.collectives.scatter import DATA, OPEN, PHASE, store_more_dimensions, write_shape
from shmcoll.engine import context as c
from shmcoll.engine.atomics import load, peek, poke
from shmcoll.engine.collective import ALIKE, IN_PHASES, ROOTED, SHAPE, Collective
from shmcoll.engine.kernels.element_marks import in_words
from shmcoll.engine.layout import (
    HEADER_ARGUMENTS,
    HEADER_CALL,
    HEADER_FINGERPRINT,
    LINE,
    call_dimensions,
    call_dtype,
    pack_call,
)
from shmcoll.engine.protocol.block_mover import map_blocks, move_blocks, offer_blocks
from shmcoll.engine.protocol.cells import payload, write_cell
from shmcoll.engine.protocol.count_checks import ANYONE
from shmcoll.engine.protocol.exposure import note_result
from shmcoll.engine.protocol.nontemporal import copy_to_unread
from shmcoll.engine.protocol.sync import begin, exchange_headers, header
from shmcoll.engine.protocol.ways import TO_ALL, is_short

COVERS = SHAPE


def broadcast(ctx):
    phase = peek(ctx + PHASE)
    if phase != DATA:
        status = open_and_check(ctx, phase)
        if status != c.OK or peek(ctx + c.SIZE) == 1:
            return status
        if phase == OPEN:
            return write_shape(ctx)
    sequence, root = peek(ctx + c.SEQUENCE), peek(ctx + c.ARGUMENT)
    is_reader = peek(ctx + c.RANK) != root
    length = peek(ctx + (c.OUT if is_reader else c.X) + c.BYTES)
    if not is_short(ctx, length, length):
        map_array(ctx, root, length)
        return move_blocks(ctx, sequence)
    if is_reader:
        copy_to_unread(ctx, peek(ctx + c.OUT + c.DATA), payload(ctx, root, sequence, length), length)
    return c.OK


def open_and_check(ctx, phase):
    """Offer the root's array, open, and compare the headers."""
    sequence, root, length = begin(ctx, COVERS), peek(ctx + c.ARGUMENT), peek(ctx + c.X + c.BYTES)
    if peek(ctx + c.SIZE) == 1:
        return c.OK
    if peek(ctx + c.RANK) != root:
        note_result(ctx, sequence, phase != OPEN)
    else:
        store_more_dimensions(ctx, sequence)
        if is_short(ctx, length, length):
            write_cell(ctx, payload(ctx, root, sequence, length), peek(ctx + c.X + c.DATA), length)
        else:
            map_array(ctx, root, length)
            offer_blocks(ctx, sequence, TO_ALL, length, True)
    status = exchange_headers(ctx, sequence)
    return compare_headers(ctx, sequence, root) if status == c.MISMATCH else status


def map_array(ctx, root, length):
    """Map the root's array. See above how long its parts are."""
    map_blocks(ctx, root, ANYONE, length, False)
    poke(ctx + c.OWN_BYTES, 0)
    if length > peek(ctx + c.CELL_BYTES) < peek(ctx + c.WINDOW_BYTES):
        poke(ctx + c.PART, peek(ctx + c.CELL_BYTES) // 2 // LINE * LINE)


def compare_headers(ctx, sequence, root):
    """Return OK if every rank calls this broadcast with an array like the root's, or without one; else MISMATCH."""
    theirs = header(ctx, root, sequence)
    call = load(theirs + HEADER_CALL)
    for rank in range(peek(ctx + c.SIZE)):
        box = header(ctx, rank, sequence)
        if load(box + HEADER_FINGERPRINT) == load(theirs + HEADER_FINGERPRINT):
            continue
        without = load(box + HEADER_CALL)
        if (
            call_dtype(call) == 0
            or without != call - pack_call(0, call_dtype(call), 0, 0, call_dimensions(call))
            or load(box + HEADER_ARGUMENTS) != load(theirs + HEADER_ARGUMENTS)
        ):
            poke(ctx + c.CULPRIT, rank)
            return c.MISMATCH
    return c.OK


COLLECTIVE = Collective(
    broadcast,
    code=7,
    form=ROOTED | ALIKE | IN_PHASES,
    covers=COVERS,
    plans=True,
    describe=lambda _root, mark: in_words(mark),
)
