"""all_gather: every rank gets the arrays of all ranks, in rank order.

Every rank copies its array into its cell once, and all other ranks copy it from there to its place. Longer arrays go in
rounds through the two cells of each rank. This is a direct exchange. A ring or a Bruck algorithm saves messages, which
do not exist here: each byte is copied in once and out n - 1 times in any order. Each rank starts with its right
neighbour, so that the ranks do not all read the same cell at once. There is one sync if the array fits a cell, else
one per round. Cost: a ceil(S / cell) + (n + 1) S b. This includes a rank's own part, which it copies while the cache
has it. Peers read a long array where it is, if they can: 2 a + n S b.

Protocol:

    exposed arrays   see `engine/protocol/exposure.py`. Peers read them in one round. If some ranks expose and others do
                     not, there are the rounds of those that do not. One more step follows, which means "I have read
                     everything". In place, x is a part of the result that no rank writes, so it may be exposed
    cell (s + k) & 1 of a rank: that rank writes it in round k, in round 0 before the opening, and publishes it as step
    k. It writes the cell again for round k + 2, after step k + 1 of every peer, which follows the peer's reads of round
    k. An even number of rounds ends with one more step (`release_cells`).

Arguments: ARGUMENT_2 is the mark of the elements; EXTRA is the address of n target addresses, or 0 for one array.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek
from shmcoll.engine.collective import GATHERS, OWN_PART, SHAPE, Collective
from shmcoll.engine.kernels.element_marks import in_words
from shmcoll.engine.layout import WORD
from shmcoll.engine.protocol.cells import cell, payload, write_cell
from shmcoll.engine.protocol.exposure import (
    ALL_READ,
    end_exposure,
    expose,
    exposed,
    how_many_expose,
    may_expose,
    note_result,
    read_exposed,
    results_are_apart,
)
from shmcoll.engine.protocol.nontemporal import copy_to_result, copy_to_unread
from shmcoll.engine.protocol.pace import begin_copy, limit_by_pace, note_copy
from shmcoll.engine.protocol.sync import (
    await_step,
    begin,
    exchange_headers,
    peer_after,
    publish_step,
    release_cells,
)

COVERS = SHAPE


def all_gather(ctx):
    sequence = begin(ctx, COVERS)
    if not expose_array(ctx, sequence):
        stage(ctx, sequence, 0)
    status = exchange_headers(ctx, sequence)
    if status != c.OK:
        return status
    length = peek(ctx + c.X + c.BYTES)
    exposing = how_many_expose(ctx, sequence, length)
    if exposing and not results_are_apart(ctx, sequence):
        return c.OVERLAP
    rounds = 1 if exposing == peek(ctx + c.SIZE) else max(-(-length // peek(ctx + c.CELL_BYTES)), 1)
    piece = length if rounds == 1 else peek(ctx + c.CELL_BYTES)
    for k in range(rounds):
        if k > 0:
            if not exposed(ctx, sequence, peek(ctx + c.RANK), length):
                stage(ctx, sequence, k)
            publish_step(ctx, sequence, k)
        copy_own(ctx, k * piece, min(piece, length - k * piece))
        for i in range(1, peek(ctx + c.SIZE)):
            status = fetch(ctx, sequence, k, peer_after(ctx, i), piece)
            if status != c.OK:
                return status
    return end_exposure(ctx, sequence, rounds) if exposing else release_cells(ctx, sequence, rounds, rounds)


def expose_array(ctx, sequence):
    """Expose this rank's array, if that pays. Return whether peers read it where it is."""
    length = peek(ctx + c.X + c.BYTES)
    if not may_expose(ctx, length):
        return 0
    note_result(ctx, sequence, peek(ctx + c.EXTRA) == 0)
    limit = peek(ctx + c.TO_ALL_BYTES) // ALL_READ
    if peek(ctx + c.SIZE) == 2:  # with more, several peers read each cell
        limit = limit_by_pace(ctx, length, limit)
    return expose(ctx, sequence, peek(ctx + c.X + c.DATA), length, length, limit)


def stage(ctx, sequence, k):
    """Copy the k-th part of this rank's array to where its peers read it."""
    if peek(ctx + c.SIZE) > 1:
        begin_byte = k * peek(ctx + c.CELL_BYTES)
        count = min(peek(ctx + c.CELL_BYTES), peek(ctx + c.X + c.BYTES) - begin_byte)
        write_cell(ctx, staged(ctx, sequence, k, peek(ctx + c.RANK)), peek(ctx + c.X + c.DATA) + begin_byte, count)


def copy_own(ctx, begin_byte, count):
    """Copy a part of this rank's array to its place in the result, if it is not there."""
    place = target(ctx, peek(ctx + c.RANK))
    if place != peek(ctx + c.X + c.DATA):
        copy_to_result(ctx, place + begin_byte, peek(ctx + c.X + c.DATA) + begin_byte, count)


def fetch(ctx, sequence, k, peer, piece):
    """Wait for the k-th part of a peer's array, of `piece` bytes, and copy it to its place. Part 0 was published with
    the header. A peer that exposes its array makes the same steps: it reads the cells of others."""
    if k > 0:
        status = await_step(ctx, sequence, k, peer)
        if status != c.OK:
            return status
    begin_byte, length = k * piece, peek(ctx + c.X + c.BYTES)
    place, count = target(ctx, peer) + begin_byte, min(piece, length - begin_byte)
    if exposed(ctx, sequence, peer, length):
        return read_exposed(ctx, sequence, peer, begin_byte, place, count)
    begun = begin_copy(ctx, count)
    copy_to_unread(ctx, place, staged(ctx, sequence, k, peer), count)
    note_copy(ctx, c.FETCH_PACE, begun, count)
    return c.OK


def staged(ctx, sequence, k, rank):
    """Return where peers read the k-th part of a rank's array."""
    length = peek(ctx + c.X + c.BYTES)
    return payload(ctx, rank, sequence, length) if k == 0 else cell(ctx, rank, sequence, k, length)


def target(ctx, rank):
    """Return where the array of `rank` goes."""
    table = peek(ctx + c.EXTRA)
    if table:
        return peek(table + rank * WORD)
    return peek(ctx + c.OUT + c.DATA) + rank * peek(ctx + c.X + c.BYTES)


COLLECTIVE = Collective(all_gather, 8, GATHERS | OWN_PART, COVERS, plans=True, describe=lambda _, mark: in_words(mark))
