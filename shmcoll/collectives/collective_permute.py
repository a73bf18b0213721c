"""collective_permute: every rank sends its array to at most one other rank, and gets the array of at most one (XLA's
CollectivePermute, `jax.lax.ppermute`; a common use is a shift around a ring). A rank without a source gets zeros.

A sender copies its array into its cell, and its target copies it from there. Longer arrays go through the two cells of
the sender in turn. Senders and receivers of different pairs never wait for each other after the opening.
Cost: a ceil(S / cell) + 2 S b, for any permutation; 2 a + S b if the arrays are exposed.

Protocol: one sync if the array fits a cell and is not exposed; else `engine/protocol/block_mover.py`. In place (`out`
is x) a rank writes each part of the result after it has staged that part of x, and does not expose x.

Arguments: ARGUMENT is a hash of all pairs, ARGUMENT_2 the mark of the elements. The EXTRA words are the rank from which
this rank gets an array and the rank to which it sends, -1 for none. A rank that sends to itself has itself in both.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek, poke
from shmcoll.engine.collective import ALIKE, EXTRA, SHAPE, Collective
from shmcoll.engine.kernels.element_marks import in_words
from shmcoll.engine.kernels.kernels import clear
from shmcoll.engine.layout import WORD
from shmcoll.engine.protocol.block_mover import exchange_blocks, map_blocks
from shmcoll.engine.protocol.cells import payload, write_cell
from shmcoll.engine.protocol.exposure import works_in_place
from shmcoll.engine.protocol.nontemporal import copy_to_result
from shmcoll.engine.protocol.sync import begin, exchange_headers
from shmcoll.engine.protocol.ways import EXCHANGE, is_short

COVERS = SHAPE
SOURCE, TARGET = (c.EXTRA + WORD * i for i in range(2))
NOBODY = -1


def collective_permute(ctx):
    turn, length = begin(ctx, COVERS), peek(ctx + c.X + c.BYTES)
    status = short(ctx, turn, length) if is_short(ctx, length, length) else long(ctx, turn, length)
    if status == c.OK and peek(ctx + SOURCE) == NOBODY:
        clear(peek(ctx + c.OUT + c.DATA), length)
    return status


def short(ctx, turn, length):
    """Pass an array that fits a cell."""
    me, source, target, out = peek(ctx + c.RANK), peek(ctx + SOURCE), peek(ctx + TARGET), peek(ctx + c.OUT + c.DATA)
    if target not in (NOBODY, me):
        write_cell(ctx, payload(ctx, me, turn, length), peek(ctx + c.X + c.DATA), length)
    status = exchange_headers(ctx)
    if status == c.OK and source == me and out != peek(ctx + c.X + c.DATA):
        copy_to_result(ctx, out, peek(ctx + c.X + c.DATA), length)
    elif status == c.OK and source not in (NOBODY, me):
        copy_to_result(ctx, out, payload(ctx, source, turn, length), length)
    return status


def long(ctx, turn, length):
    """Pass an array by the mover."""
    me, source, target = peek(ctx + c.RANK), peek(ctx + SOURCE), peek(ctx + TARGET)
    map_blocks(ctx, me if source == NOBODY else source, me if target == NOBODY else target, length, False)
    poke(ctx + c.READS_FROM, me if source == NOBODY else source)
    poke(ctx + c.SENDS_TO, me if target == NOBODY else target)
    poke(ctx + c.OWN_BYTES, length if source == me else 0)
    share = length if target not in (NOBODY, me) and not works_in_place(ctx) else 0
    return exchange_blocks(ctx, turn, EXCHANGE, share, True)


COLLECTIVE = Collective(
    collective_permute,
    code=18,
    form=EXTRA | ALIKE,
    covers=COVERS,
    plans=True,
    describe=lambda pairs, mark: f", pairs of hash {pairs:x}{in_words(mark)}",
)
