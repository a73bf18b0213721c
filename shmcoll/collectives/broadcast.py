"""broadcast: every rank gets the array of the root, in place of its own.

A pipelined broadcast through shared memory (Graham and Shipman, "MPI support for multi-core architectures: optimized
shared memory collectives", EuroPVM/MPI 2008): the root copies its array into its cell, and all other ranks copy it from
there. Arrays longer than a cell go through the two cells of the root in turn, so that the root fills one cell while the
others read the other, in rounds of half a cell: with 2 ranks 512 KiB take 11 us, instead of 12.4 in rounds of a cell
(one copy takes 6).
Cost: a + 2 S b up to a cell; beyond it 2 a ceil(S / cell) + S b, as the copies in and out overlap.

Protocol:

    cell (s + k) & 1 of the root: the root writes it in round k, in round 0 before the opening; for k >= 2 after every
    reader has done k - 1 steps, that is, has read round k - 2. The root leaves after all readers have read cell
    (s + 1) & 1, which the next operation may fill at once. Readers wait for steps of the root, the root for steps of
    the readers, and no reader for another reader, so there is no cycle.

Arguments: x of the root and out of the others are read and written; ARGUMENT is the root.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek
from shmcoll.engine.collective import ALIKE, ROOTED, SHAPE, Collective
from shmcoll.engine.protocol.nontemporal import copy_to_unread
from shmcoll.engine.protocol.sync import await_all, await_step, begin, cell, exchange_headers, payload, publish_step

COVERS = SHAPE


def broadcast(ctx):
    sequence = begin(ctx, COVERS)
    if peek(ctx + c.SIZE) == 1:
        return c.OK
    root, me = peek(ctx + c.ARGUMENT), peek(ctx + c.RANK)
    length = peek(ctx + c.X + c.BYTES)
    size = round_bytes(ctx, length)
    rounds = -(-length // size)
    if me == root:
        copy(payload(ctx, me, sequence, length), peek(ctx + c.X + c.DATA), min(length, size))
    status = exchange_headers(ctx, sequence)
    if status != c.OK:
        return status
    return send(ctx, sequence, rounds, size) if me == root else receive(ctx, sequence, rounds, size, root)


def round_bytes(ctx, length):
    """Return the bytes of one round."""
    size = peek(ctx + c.CELL_BYTES)
    return size if length <= size else size // 2


def send(ctx, sequence, rounds, size):
    """Do the root's rounds after the first."""
    for k in range(1, rounds):
        status = await_readers(ctx, sequence, k - 1)
        if status != c.OK:
            return status
        offset = k * size
        place = cell(ctx, peek(ctx + c.RANK), sequence + k)
        copy(place, peek(ctx + c.X + c.DATA) + offset, min(size, peek(ctx + c.X + c.BYTES) - offset))
        publish_step(ctx, sequence, k)
    return await_readers(ctx, sequence, rounds & -2)


def await_readers(ctx, sequence, rounds):
    """Wait until every other rank has read so many rounds."""
    return await_all(ctx, sequence, rounds) if rounds > 0 else c.OK


def receive(ctx, sequence, rounds, size, root):
    """Do a reader's rounds: copy from the root's cell, then publish the step."""
    length = peek(ctx + c.X + c.BYTES)
    for k in range(rounds):
        if k > 0:
            status = await_step(ctx, sequence, k, root)
            if status != c.OK:
                return status
        offset = k * size
        source = payload(ctx, root, sequence, length) if k == 0 else cell(ctx, root, sequence + k)
        copy_to_unread(ctx, peek(ctx + c.OUT + c.DATA) + offset, source, min(size, length - offset))
        if rounds > 1:
            publish_step(ctx, sequence, k + 1)
    return c.OK


COLLECTIVE = Collective(broadcast, code=7, form=ROOTED | ALIKE, covers=COVERS, plans=True)
