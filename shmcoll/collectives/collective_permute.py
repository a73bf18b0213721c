"""collective_permute: every rank sends its array to at most one other, and gets that of at most one (XLA's
CollectivePermute, `jax.lax.ppermute`; a shift round a ring is the usual one). A rank to which nobody sends gets zeros.

A sender lays its array into its cell and its target copies it from there; longer arrays go through the two cells of
the sender in turn. Senders and receivers of different pairs never wait for each other after the opening.
Cost: a ceil(S / cell) + 2 S b, of whatever permutation.

    cell (s + k) & 1 of a sender: written by it as round k, round 0 before the opening; for k >= 2 after its target has
    done k - 1 steps. Step k of a rank: it has laid round k, if it sends, and read round k - 1, if it receives. Only the
    target reads the cells, so a sender leaves when the target has read what lies in cell (s + 1) & 1, which the next
    operation may fill at once: after rounds & -2 steps. What a rank does before its step k needs steps k - 1 of others
    and no later ones, so nobody waits in a circle.

In place (`out` is x) round k of the result is written after round k of x has been laid.

Arguments: ARGUMENT is a hash of all pairs; EXTRA words are the ranks from which this one gets and to which it sends,
-1 for none. A rank that sends to itself has itself in both.
"""

from shmcoll.collectives.all_gather import lying, offset, part
from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek
from shmcoll.engine.collective import ALIKE, EXTRA, SHAPE, Collective
from shmcoll.engine.kernels.kernels import clear
from shmcoll.engine.layout import WORD
from shmcoll.engine.protocol.nontemporal import land
from shmcoll.engine.protocol.sync import await_step, begin, meet, publish_step

COVERS = SHAPE
SOURCE, TARGET = (c.EXTRA + WORD * i for i in range(2))
NOBODY = -1


def collective_permute(ctx):
    sequence = begin(ctx, COVERS)
    source, target = peek(ctx + SOURCE), peek(ctx + TARGET)
    keeps = source == peek(ctx + c.RANK)
    if target != NOBODY and not keeps:
        lay(ctx, sequence, 0)
    status = meet(ctx, sequence)
    if status != c.OK:
        return status
    if keeps:
        keep_own(ctx)
    elif source != NOBODY or target != NOBODY:
        status = move(ctx, sequence, source, target)
    if status == c.OK and source == NOBODY:
        clear(peek(ctx + c.OUT + c.DATA), peek(ctx + c.X + c.BYTES))
    return status


def move(ctx, sequence, source, target):
    """The rounds of a rank that sends, receives, or both."""
    rounds = -(-peek(ctx + c.X + c.BYTES) // peek(ctx + c.CELL_BYTES))
    for k in range(rounds):
        if k > 0:
            if target != NOBODY:
                status = lay_again(ctx, sequence, k, target)
                if status != c.OK:
                    return status
            publish_step(ctx, sequence, k)
        if source != NOBODY:
            status = fetch(ctx, sequence, k, source)
            if status != c.OK:
                return status
    if rounds < 2:
        return c.OK
    publish_step(ctx, sequence, rounds)
    return await_step(ctx, sequence, rounds & -2, target) if target != NOBODY else c.OK


def lay_again(ctx, sequence, k, target):
    """Lay round k > 0 once the target has left the cell."""
    status = await_step(ctx, sequence, k - 1, target) if k > 1 else c.OK
    if status == c.OK:
        lay(ctx, sequence, k)
    return status


def lay(ctx, sequence, k):
    """Lay the k-th part of this rank's array where the target looks for it."""
    copy(lying(ctx, sequence, k, peek(ctx + c.RANK)), peek(ctx + c.X + c.DATA) + offset(ctx, k), part(ctx, k))


def fetch(ctx, sequence, k, source):
    """Copy the k-th part of the source's array to its place; round 0 came with the header."""
    if k > 0:
        status = await_step(ctx, sequence, k, source)
        if status != c.OK:
            return status
    land(ctx, peek(ctx + c.OUT + c.DATA) + offset(ctx, k), lying(ctx, sequence, k, source), part(ctx, k))
    return c.OK


def keep_own(ctx):
    """What a rank sends to itself."""
    if peek(ctx + c.OUT + c.DATA) != peek(ctx + c.X + c.DATA):
        land(ctx, peek(ctx + c.OUT + c.DATA), peek(ctx + c.X + c.DATA), peek(ctx + c.X + c.BYTES))


COLLECTIVE = Collective(
    collective_permute,
    code=18,
    form=EXTRA | ALIKE,
    covers=COVERS,
    plans=True,
    describe=lambda pairs, _: f", pairs of hash {pairs:x}",
)
