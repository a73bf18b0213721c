"""all_gather: every rank gets the arrays of all ranks, in rank order.

Every rank lays its array into its cell, once, and all others copy it from there to its place; longer arrays go in
rounds through the two cells of each rank. A direct exchange (a ring or a Bruck algorithm saves messages, of which
there are none here: each byte is copied in once and out n - 1 times, whatever the order). Each rank starts with its
right neighbour, so that not all read the same cell at once. One sync up to a cell, else one a round.
Cost: a ceil(S / cell) + (n + 1) S b, the own part included, which is copied while the cache has it.

    cell (s + k) & 1 of a rank: written by it as round k, round 0 before the opening, published as step k; written again
    for round k + 2, after step k + 1 of every peer, which comes after the peer's reads of round k. An even number of
    rounds ends with one more step (`release_cells`).

Arguments: EXTRA is the address of n target addresses, or 0 for one array.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek
from shmcoll.engine.collective import GATHERS, OWN_PART, SHAPE, Collective
from shmcoll.engine.layout import WORD
from shmcoll.engine.protocol.nontemporal import land, replace
from shmcoll.engine.protocol.sync import await_step, begin, cell, meet, payload, publish_step, release_cells

COVERS = SHAPE


def all_gather(ctx):
    sequence = begin(ctx, COVERS)
    size, me = peek(ctx + c.SIZE), peek(ctx + c.RANK)
    length = peek(ctx + c.X + c.BYTES)
    rounds = max(-(-length // peek(ctx + c.CELL_BYTES)), 1)
    fill(ctx, sequence, 0)
    status = meet(ctx, sequence)
    if status != c.OK:
        return status
    for k in range(rounds):
        if k > 0:
            fill(ctx, sequence, k)
            publish_step(ctx, sequence, k)
        keep_own(ctx, k)
        for i in range(1, size):
            peer = me + i if me + i < size else me + i - size
            status = fetch(ctx, sequence, k, peer)
            if status != c.OK:
                return status
    return release_cells(ctx, sequence, rounds, rounds)


def fill(ctx, sequence, k):
    """Lay the k-th part of this rank's array where the others look for it."""
    if peek(ctx + c.SIZE) > 1:
        copy(lying(ctx, sequence, k, peek(ctx + c.RANK)), peek(ctx + c.X + c.DATA) + offset(ctx, k), part(ctx, k))


def keep_own(ctx, k):
    """Copy the k-th part of this rank's array to its place in the result, if it is not there."""
    place = target(ctx, peek(ctx + c.RANK))
    if place != peek(ctx + c.X + c.DATA):
        land(ctx, place + offset(ctx, k), peek(ctx + c.X + c.DATA) + offset(ctx, k), part(ctx, k))


def fetch(ctx, sequence, k, peer):
    """Copy the k-th part of a peer's array to its place; round 0 came with the header."""
    if k > 0:
        status = await_step(ctx, sequence, k, peer)
        if status != c.OK:
            return status
    replace(ctx, target(ctx, peer) + offset(ctx, k), lying(ctx, sequence, k, peer), part(ctx, k))
    return c.OK


def lying(ctx, sequence, k, rank):
    """Where the k-th part of a rank's array lies for who takes it."""
    return payload(ctx, rank, sequence, peek(ctx + c.X + c.BYTES)) if k == 0 else cell(ctx, rank, sequence + k)


def offset(ctx, k):
    return k * peek(ctx + c.CELL_BYTES)


def part(ctx, k):
    """Bytes of the k-th part."""
    return min(peek(ctx + c.CELL_BYTES), peek(ctx + c.X + c.BYTES) - offset(ctx, k))


def target(ctx, rank):
    """Where the array of `rank` goes."""
    table = peek(ctx + c.EXTRA)
    if table:
        return peek(table + rank * WORD)
    return peek(ctx + c.OUT + c.DATA) + rank * peek(ctx + c.X + c.BYTES)


COLLECTIVE = Collective(all_gather, code=8, form=GATHERS | OWN_PART, covers=COVERS, plans=True)
