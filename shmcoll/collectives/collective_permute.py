"""collective_permute: every rank sends its array to at most one other rank, and gets the array of at most one (XLA's
CollectivePermute, `jax.lax.ppermute`; a common use is a shift around a ring). A rank without a source gets zeros.

A sender copies its array into its cell, and its target copies it from there. Longer arrays go through the two cells of
the sender in turn. Senders and receivers of different pairs never wait for each other after the opening.
Cost: a ceil(S / cell) + 2 S b, for any permutation; 2 a + S b if the arrays are exposed.

Protocol:

    cell (s + k) & 1 of a sender: the sender writes it in round k, in round 0 before the opening; for k >= 2 after its
    target has done k - 1 steps. Step k of a rank: it has staged round k, if it sends, and read round k - 1, if it
    receives. Only the target reads the cells. So a sender leaves after the target has read cell (s + 1) & 1, which the
    next operation may fill at once: after rounds & -2 steps. What a rank does before its step k needs only steps up to
    k - 1 of other ranks, so no ranks wait in a circle.

    exposed arrays (`engine/protocol/exposure.py`): the target reads them, in the rounds of its own cells if it has any,
    and publishes the last step when it has read everything. The sender waits for that.

In place (`out` is x) a rank writes round k of the result after it has staged round k of x, and does not expose x.

Arguments: ARGUMENT is a hash of all pairs, ARGUMENT_2 the mark of the elements. The EXTRA words are the rank from which
this rank gets an array and the rank to which it sends, -1 for none. A rank that sends to itself has itself in both.
"""

from shmcoll.collectives.all_gather import stage, staged
from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek
from shmcoll.engine.collective import ALIKE, EXTRA, SHAPE, Collective
from shmcoll.engine.kernels.element_marks import in_words
from shmcoll.engine.kernels.kernels import clear
from shmcoll.engine.layout import WORD
from shmcoll.engine.protocol.exposure import (
    expose,
    exposed,
    find_out,
    how_many_expose,
    may_expose,
    note_result,
    read_exposed,
    results_are_apart,
    works_in_place,
)
from shmcoll.engine.protocol.nontemporal import copy_to_result
from shmcoll.engine.protocol.pace import begin_copy, limit_by_pace, note_copy
from shmcoll.engine.protocol.sync import await_step, begin, exchange_headers, has_ended, publish_step

COVERS = SHAPE
SOURCE, TARGET = (c.EXTRA + WORD * i for i in range(2))
NOBODY = -1


def collective_permute(ctx):
    sequence = begin(ctx, COVERS)
    source, target = peek(ctx + SOURCE), peek(ctx + TARGET)
    keeps = source == peek(ctx + c.RANK)
    sends = target != NOBODY and not keeps
    if not expose_array(ctx, sequence, sends) and sends:
        stage(ctx, sequence, 0)
    status = exchange_headers(ctx, sequence)
    if status != c.OK:
        return status
    if how_many_expose(ctx, sequence, peek(ctx + c.X + c.BYTES)) and not results_are_apart(ctx, sequence):
        return c.OVERLAP
    if keeps:
        copy_own(ctx)
    elif source != NOBODY or target != NOBODY:
        status = move(ctx, sequence, source, target)
    if status == c.OK and source == NOBODY:
        clear(peek(ctx + c.OUT + c.DATA), peek(ctx + c.X + c.BYTES))
    return status


def move(ctx, sequence, source, target):
    """Do the rounds of a rank that sends, receives, or both; one round if it uses no cell."""
    length = peek(ctx + c.X + c.BYTES)
    exposes = target != NOBODY and exposed(ctx, sequence, peek(ctx + c.RANK), length)
    reads = source != NOBODY and exposed(ctx, sequence, source, length)
    steps = rounds = -(-length // peek(ctx + c.CELL_BYTES))
    if (exposes or target == NOBODY) and (reads or source == NOBODY):
        rounds = 1
    piece = length if rounds == 1 else peek(ctx + c.CELL_BYTES)
    for k in range(rounds):
        if k > 0:
            if target != NOBODY and not exposes:
                status = stage_next(ctx, sequence, k, target)
                if status != c.OK:
                    return status
            publish_step(ctx, sequence, k)
        if source != NOBODY:
            status = fetch(ctx, sequence, k, source, piece)
            if status != c.OK:
                return status
    if reads and has_ended(ctx):
        return c.ABORTED
    if steps < 2 and not exposes and not reads:
        return c.OK
    publish_step(ctx, sequence, steps)
    if target == NOBODY or (steps < 2 and not exposes):
        return c.OK
    return await_step(ctx, sequence, steps if exposes else steps & -2, target)


def expose_array(ctx, sequence, sends):
    """Expose this rank's array, if it sends it, not in place, and that pays. Return whether its target reads it
    there."""
    length = peek(ctx + c.X + c.BYTES)
    if not may_expose(ctx, length):
        return 0
    note_result(ctx, sequence, 1)
    find_out(ctx, length)
    share = length if sends and not works_in_place(ctx) else 0
    limit = limit_by_pace(ctx, share, peek(ctx + c.EXCHANGE_BYTES))
    return expose(ctx, sequence, peek(ctx + c.X + c.DATA), length, share, limit)


def stage_next(ctx, sequence, k, target):
    """Stage round k > 0 after the target has read what was in the cell."""
    status = await_step(ctx, sequence, k - 1, target) if k > 1 else c.OK
    if status == c.OK:
        stage(ctx, sequence, k)
    return status


def fetch(ctx, sequence, k, source, piece):
    """Wait for the k-th part of the source's array, of `piece` bytes, and copy it to its place. Part 0 was published
    with the header."""
    begin_byte, length = k * piece, peek(ctx + c.X + c.BYTES)
    place, count = peek(ctx + c.OUT + c.DATA) + begin_byte, min(piece, length - begin_byte)
    if exposed(ctx, sequence, source, length):
        return read_exposed(ctx, sequence, source, begin_byte, place, count)
    if k > 0:
        status = await_step(ctx, sequence, k, source)
        if status != c.OK:
            return status
    begun = begin_copy(ctx, count)
    copy_to_result(ctx, place, staged(ctx, sequence, k, source), count)
    note_copy(ctx, c.FETCH_PACE, begun, count)
    return c.OK


def copy_own(ctx):
    """Copy what a rank sends to itself."""
    if peek(ctx + c.OUT + c.DATA) != peek(ctx + c.X + c.DATA):
        copy_to_result(ctx, peek(ctx + c.OUT + c.DATA), peek(ctx + c.X + c.DATA), peek(ctx + c.X + c.BYTES))


COLLECTIVE = Collective(
    collective_permute,
    code=18,
    form=EXTRA | ALIKE,
    covers=COVERS,
    plans=True,
    describe=lambda pairs, mark: f", pairs of hash {pairs:x}{in_words(mark)}",
)
