"""gather: the root gets the arrays of all ranks, in rank order; the others get nothing.

Every rank except the root copies its array into its cell, and the root copies it from there to its place. Longer arrays
go through the two cells of the sender in turn.
Cost: a + 2 S b at a sender, a + (n - 1) S b at the root, where copies of different ranks overlap. The root
reads a long shared array where it is: then its sender copies nothing.

Protocol:

    cell (s + k) & 1 of a sender: the sender writes it in round k; for k >= 2 after the root has done k - 1 steps, that
    is, has read round k - 2. A sender leaves after the root has read cell (s + 1) & 1, which the next operation may
    fill at once. The root waits for steps of the senders, a sender only for steps of the root, so there is no cycle.

A sender that exposes its array (`engine/protocol/exposure.py`) waits for step 1 of the root, which reads it in round 0.

Arguments: ARGUMENT is the root, ARGUMENT_2 the mark of the elements; EXTRA, at the root, the address of n target
addresses, or 0 for one array.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek
from shmcoll.engine.collective import GATHERS, OUT_AT_ROOT, OWN_PART, ROOTED, SHAPE, Collective
from shmcoll.engine.kernels.element_marks import in_words
from shmcoll.engine.layout import WORD
from shmcoll.engine.protocol.cells import cell, payload, write_cell
from shmcoll.engine.protocol.exposure import (
    NEVER,
    expose,
    exposed,
    how_many_expose,
    may_expose,
    note_result,
    read_exposed,
    results_are_apart,
)
from shmcoll.engine.protocol.nontemporal import copy_to_result, copy_to_unread
from shmcoll.engine.protocol.sync import await_step, begin, exchange_headers, has_ended, publish_step

COVERS = SHAPE


def gather(ctx):
    sequence = begin(ctx, COVERS)
    root, me = peek(ctx + c.ARGUMENT), peek(ctx + c.RANK)
    length = peek(ctx + c.X + c.BYTES)
    if may_expose(ctx, length):
        note_result(ctx, sequence, me == root and peek(ctx + c.EXTRA) == 0)
    if not expose_array(ctx, sequence) and me != root:
        first = min(length, peek(ctx + c.CELL_BYTES))
        write_cell(ctx, payload(ctx, me, sequence, length), peek(ctx + c.X + c.DATA), first)
    status = exchange_headers(ctx, sequence)
    if status != c.OK:
        return status
    exposing = how_many_expose(ctx, sequence, length)
    if exposing and not results_are_apart(ctx, sequence):
        return c.OVERLAP
    rounds = -(-length // peek(ctx + c.CELL_BYTES))
    if me == root:
        return collect(ctx, sequence, 1 if exposing == peek(ctx + c.SIZE) - 1 else rounds, exposing)
    if exposed(ctx, sequence, me, length):
        return await_step(ctx, sequence, 1, root)
    return deliver(ctx, sequence, rounds, root)


def expose_array(ctx, sequence):
    """Expose a sender's array, if that pays. Return whether the root reads it where it is."""
    length = peek(ctx + c.X + c.BYTES)
    if not may_expose(ctx, length):
        return 0
    sends = peek(ctx + c.RANK) != peek(ctx + c.ARGUMENT)
    return expose(ctx, sequence, peek(ctx + c.X + c.DATA), length, length if sends else 0, NEVER)


def deliver(ctx, sequence, rounds, root):
    """Do the rounds after the first of a sender that uses cells."""
    size = peek(ctx + c.CELL_BYTES)
    for k in range(1, rounds):
        if k > 1:
            status = await_step(ctx, sequence, k - 1, root)
            if status != c.OK:
                return status
        offset = k * size
        place = cell(ctx, peek(ctx + c.RANK), sequence, k, peek(ctx + c.X + c.BYTES))
        write_cell(ctx, place, peek(ctx + c.X + c.DATA) + offset, min(size, peek(ctx + c.X + c.BYTES) - offset))
        publish_step(ctx, sequence, k)
    return await_step(ctx, sequence, rounds & -2, root) if rounds > 1 else c.OK


def collect(ctx, sequence, rounds, exposing):
    """Do the root's rounds: read every sender's array or cell, publish the step, and copy a piece of its own array
    meanwhile; all of it if there is one round."""
    length, me = peek(ctx + c.X + c.BYTES), peek(ctx + c.RANK)
    size = peek(ctx + c.CELL_BYTES) if rounds > 1 else length
    for k in range(rounds):
        offset = k * size
        for sender in range(peek(ctx + c.SIZE)):
            status = fetch(ctx, sequence, k, sender, offset) if sender != me else c.OK
            if status != c.OK:
                return status
        if exposing and has_ended(ctx):
            return c.ABORTED
        if rounds > 1 or exposing:
            publish_step(ctx, sequence, k + 1)
        if target(ctx, me) != peek(ctx + c.X + c.DATA):
            copy_to_result(ctx, target(ctx, me) + offset, peek(ctx + c.X + c.DATA) + offset, min(size, length - offset))
    return c.OK


def fetch(ctx, sequence, k, sender, offset):
    """Wait for the k-th part of a sender's array and copy it to its place. An exposed array is one part."""
    length = peek(ctx + c.X + c.BYTES)
    if exposed(ctx, sequence, sender, length):
        return read_exposed(ctx, sequence, sender, 0, target(ctx, sender), length) if k == 0 else c.OK
    if k > 0:
        status = await_step(ctx, sequence, k, sender)
        if status != c.OK:
            return status
    source = payload(ctx, sender, sequence, length) if k == 0 else cell(ctx, sender, sequence, k, length)
    copy_to_unread(ctx, target(ctx, sender) + offset, source, min(peek(ctx + c.CELL_BYTES), length - offset))
    return c.OK


def target(ctx, rank):
    """Return where the array of `rank` goes."""
    table = peek(ctx + c.EXTRA)
    if table:
        return peek(table + rank * WORD)
    return peek(ctx + c.OUT + c.DATA) + rank * peek(ctx + c.X + c.BYTES)


COLLECTIVE = Collective(
    gather,
    code=4,
    form=ROOTED | OUT_AT_ROOT | GATHERS | OWN_PART,
    covers=COVERS,
    plans=True,
    describe=lambda _root, mark: in_words(mark),
)
