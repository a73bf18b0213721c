"""broadcast: every rank gets the array of the root, in place of its own.

A pipelined broadcast through shared memory (Graham and Shipman, "MPI support for multi-core architectures: optimized
shared memory collectives", EuroPVM/MPI 2008): the root copies its array into its cell, and all other ranks copy it from
there. Arrays longer than a cell go through the two cells of the root in turn, so that the root fills one cell while the
others read the other, in rounds of half a cell: with 2 ranks 512 KiB take 11 us, instead of 12.4 in rounds of a cell
(one copy takes 6).
Cost: a + 2 S b up to a cell; beyond it 2 a ceil(S / cell) + S b, as the copies in and out overlap. The others
read a long array where it is, if they can: 2 a + S b.

Protocol:

    cell (s + k) & 1 of the root: the root writes it in round k, in round 0 before the opening; for k >= 2 after every
    reader has done k - 1 steps, that is, has read round k - 2. The root leaves after all readers have read cell
    (s + 1) & 1, which the next operation may fill at once. Readers wait for steps of the root, the root for steps of
    the readers, and no reader for another reader, so there is no cycle.

A root that exposes its array (`engine/protocol/exposure.py`) has no rounds: each reader publishes step 1 when it has
read the array, and the root waits for all of them.

A rank may have no array: it learns dtype and shape from the root. The header of such a rank has dtype 0 and no
dimensions, so its fingerprint differs from the root's. Only then each rank compares the headers of all ranks: each must
have the root's fingerprint, or describe the same call without an array. If the fingerprints are not all equal, every
rank sees one that differs from its own, so all ranks compare, and all reach the same verdict before a byte of a result
moves. Headers stay unchanged until their ranks begin operation s + 2, which they cannot before this rank has begun
s + 1. A rank without an array runs the routine in two phases, because it can allocate its result only after the
opening: OPEN opens, compares, and returns the shape; DATA reads. Its peers wait for its steps as for any other's, and
the cells stay unchanged until it has done them. If the array has more dimensions than a header, the root writes the
others to the start of its cell before the opening, and the rounds use the rest of the cells.

Arguments: x of the root and out of the others are read and written; ARGUMENT is the root, ARGUMENT_2 the mark of the
elements. The EXTRA words are as in `scatter.py`: the phase; one that is not used; for OPEN the address of the words for
dtype, mark and shape.
"""

from shmcoll.collectives.scatter import DATA, OPEN, PHASE, lead, root_cell, store_more_dimensions, write_shape
from shmcoll.engine import context as c
from shmcoll.engine.atomics import load, peek, poke
from shmcoll.engine.collective import ALIKE, IN_PHASES, ROOTED, SHAPE, Collective
from shmcoll.engine.kernels.element_marks import in_words
from shmcoll.engine.layout import (
    HEADER_ARGUMENTS,
    HEADER_CALL,
    HEADER_FINGERPRINT,
    INLINE_BYTES,
    LINE,
    call_dimensions,
    call_dtype,
    pack_call,
)
from shmcoll.engine.protocol.cells import payload, write_cell
from shmcoll.engine.protocol.exposure import (
    expose,
    exposed,
    find_out,
    finish_reading,
    may_expose,
    note_result,
    read_exposed,
    results_are_apart,
)
from shmcoll.engine.protocol.nontemporal import copy_to_unread
from shmcoll.engine.protocol.sync import (
    await_all,
    await_step,
    begin,
    exchange_headers,
    header,
    publish_step,
)

COVERS = SHAPE


def broadcast(ctx):
    phase = peek(ctx + PHASE)
    if phase == DATA:
        return receive(ctx, peek(ctx + c.SEQUENCE), peek(ctx + c.ARGUMENT))
    sequence = begin(ctx, COVERS)
    if peek(ctx + c.SIZE) == 1:
        return c.OK
    root, me = peek(ctx + c.ARGUMENT), peek(ctx + c.RANK)
    if phase == OPEN or may_expose(ctx, peek(ctx + c.OUT + c.BYTES)):
        note_result(ctx, sequence, phase != OPEN)
    if me == root:
        store_more_dimensions(ctx, sequence)
        if not expose_array(ctx, sequence):
            stage(ctx, sequence, 0)
    status = exchange_headers(ctx, sequence)
    if status == c.MISMATCH:
        status = compare_headers(ctx, sequence, root)
    if status != c.OK:
        return status
    if phase == OPEN:
        return write_shape(ctx)
    return send(ctx, sequence) if me == root else receive(ctx, sequence, root)


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


def expose_array(ctx, sequence):
    """Expose the root's array, if that pays. Return whether the others read it where it is."""
    length = peek(ctx + c.X + c.BYTES)
    if not may_expose(ctx, length):
        return 0
    return expose(ctx, sequence, peek(ctx + c.X + c.DATA), length, length, peek(ctx + c.TO_ALL_BYTES))


def round_bytes(ctx, sequence, length):
    """Return the bytes of one round."""
    size = peek(ctx + c.CELL_BYTES) - lead(ctx, sequence)
    return size if length <= size else size // 2 // LINE * LINE


def place(ctx, sequence, k, length):
    """Return where the root stages round k: beside its header if all fits there, else behind the dimensions in its
    cell."""
    root = peek(ctx + c.ARGUMENT)
    if length <= INLINE_BYTES:
        return payload(ctx, root, sequence, length)
    size = round_bytes(ctx, sequence, length)
    return root_cell(ctx, sequence, k, -(-length // size), min(length, size))


def send(ctx, sequence):
    """Do the root's rounds after the first."""
    length = peek(ctx + c.X + c.BYTES)
    if exposed(ctx, sequence, peek(ctx + c.RANK), length):
        return await_all(ctx, sequence, 1) if results_are_apart(ctx, sequence) else c.OVERLAP
    rounds = -(-length // round_bytes(ctx, sequence, length))
    for k in range(1, rounds):
        status = await_readers(ctx, sequence, k - 1)
        if status != c.OK:
            return status
        stage(ctx, sequence, k)
        publish_step(ctx, sequence, k)
    return await_readers(ctx, sequence, rounds & -2)


def stage(ctx, sequence, k):
    """Copy round k of the array to where the others read it."""
    length = peek(ctx + c.X + c.BYTES)
    size = round_bytes(ctx, sequence, length)
    target = place(ctx, sequence, k, length)
    write_cell(ctx, target, peek(ctx + c.X + c.DATA) + k * size, min(size, length - k * size))


def await_readers(ctx, sequence, rounds):
    """Wait until every other rank has read so many rounds."""
    return await_all(ctx, sequence, rounds) if rounds > 0 else c.OK


def receive(ctx, sequence, root):
    """Do a reader's rounds: copy from the root's cell, then publish the step."""
    length = peek(ctx + c.OUT + c.BYTES)
    find_out(ctx, length)
    if exposed(ctx, sequence, root, length):
        if not results_are_apart(ctx, sequence):
            return c.OVERLAP
        status = read_exposed(ctx, sequence, root, 0, peek(ctx + c.OUT + c.DATA), length)
        return finish_reading(ctx, sequence) if status == c.OK else status
    size = round_bytes(ctx, sequence, length)
    rounds = -(-length // size)
    for k in range(rounds):
        if k > 0:
            status = await_step(ctx, sequence, k, root)
            if status != c.OK:
                return status
        offset = k * size
        source = place(ctx, sequence, k, length)
        copy_to_unread(ctx, peek(ctx + c.OUT + c.DATA) + offset, source, min(size, length - offset))
        if rounds > 1:
            publish_step(ctx, sequence, k + 1)
    return c.OK


COLLECTIVE = Collective(
    broadcast,
    code=7,
    form=ROOTED | ALIKE | IN_PHASES,
    covers=COVERS,
    plans=True,
    describe=lambda _root, mark: in_words(mark),
)
