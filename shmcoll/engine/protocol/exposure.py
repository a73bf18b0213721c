"""Long arrays without cells: a rank exposes its array, and its peers copy what they need straight from there.

An array in the arena is mapped by every rank. An array in private memory is read with the kernel's help, if all ranks
of the group can read each other (`peer_memory.py`). Each byte is copied once, instead of into a cell and out of it, and
there are two syncs instead of one for each cell. The words, in place of a payload in the header of rank r; only r
writes them, before the opening:

    EXPOSED        0: r's peers read r's cells. Above 0: 1 + the offset of r's array in the arena. Below 0: minus its
                   address in r's private memory
    EXPOSED_BYTES  how many bytes r exposes
    RESULT         1 + the offset of r's result in the arena; 0 if it is not there, or is a list of arrays
    RESULT_BYTES   how long it is

`ways.py` says when that pays. Each rank decides for its own array. In one call some ranks may do so and others not.
After the opening all ranks see all headers, which do not change until this rank begins the next operation. So they
agree on which ranks expose.

    array of r     r's peers read it after the opening, and before a step of theirs which says that they have read it.
                   r returns only after these steps. So the array is unchanged until it has been read
    result of r    only r writes it, after the opening

An array and a result of different ranks must not overlap: one rank would write what another reads. In private memory
they cannot. In the arena all ranks find that from the headers, and refuse the call (`results_are_apart`). Where x and
the result of one rank overlap, the collective knows whether x may be exposed.

A rank that is interrupted, or whose limit passes, leaves earlier, and then its memory may change. It ends the group
first. So after a peer has read everything, and before it publishes the step or returns, it looks whether the group has
ended (`sync.has_ended`). A rank that has been killed has no memory any more, and the read fails. By then its pid could
be that of another process. Our launcher notes the end of a rank before its pid is free, and `read_exposed` looks at
that. Under another launcher a reader that still waits for the killed rank finds its end; the readers of a root do not
wait for it, so there a pid that comes back within this moment would go unnoticed.

No rank waits for what is exposed except for the steps of its readers, which they make unless they fail. A reader waits
for no reader.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import load, peek, poke, store
from shmcoll.engine.layout import (
    HEADER_EXPOSED,
    HEADER_EXPOSED_BYTES,
    HEADER_RESULT,
    HEADER_RESULT_BYTES,
)
from shmcoll.engine.protocol.nontemporal import copy_to_unread
from shmcoll.engine.protocol.peer_memory import is_readable, read_peer
from shmcoll.engine.protocol.sync import has_ended, header, my_header, publish_and_await_step
from shmcoll.engine.protocol.wait import has_failed
from shmcoll.engine.protocol.ways import may_expose


def expose(ctx, share, least):
    """Expose x before the opening if that pays. Return whether it is exposed. share: the bytes of it that each peer
    reads; 0 on a rank that has nothing to expose. least: the smallest share of private memory for which that pays."""
    place = 0
    if may_expose(ctx, share) and peek(ctx + c.SIZE) > 1:
        place = place_in_arena(ctx, peek(ctx + c.X + c.DATA))
        if place and share < peek(ctx + c.SHARED_BYTES):
            place = 0
        elif place == 0 and share >= least and is_readable(ctx):
            place = -peek(ctx + c.X + c.DATA)
    store(my_header(ctx) + HEADER_EXPOSED, place)
    store(my_header(ctx) + HEADER_EXPOSED_BYTES, peek(ctx + c.X + c.BYTES))
    return place != 0


def note_result(ctx, is_array):
    """Write into this rank's header, before the opening, where its result is, and that it exposes nothing so far.
    `is_array`: the result is one array, and exists."""
    store(my_header(ctx) + HEADER_EXPOSED, 0)
    store(my_header(ctx) + HEADER_RESULT, place_in_arena(ctx, peek(ctx + c.OUT + c.DATA)) if is_array else 0)
    store(my_header(ctx) + HEADER_RESULT_BYTES, peek(ctx + c.OUT + c.BYTES))


def expose_in_arena(ctx, length, has_result):
    """Note, before the opening, where `length` bytes of x are if they are in the arena, and where this rank's result
    is. With 0 bytes x is not exposed. For reductions: they read the arrays of all ranks where they are, or of none."""
    note_result(ctx, has_result)
    if length > 0:
        store(my_header(ctx) + HEADER_EXPOSED, place_in_arena(ctx, peek(ctx + c.X + c.DATA)))
    store(my_header(ctx) + HEADER_EXPOSED_BYTES, length)


def are_all_in_arena(ctx, which, length):
    """Return, after the opening, whether the array that a word of the header names, EXPOSED or RESULT, is in the arena
    on every rank. length: its bytes."""
    last = peek(ctx + c.ARENA_BYTES) - length + 1
    for rank in range(peek(ctx + c.SIZE)):
        if not 0 < load(header(ctx, rank) + which) <= last:
            return 0
    return 1


def place_in_arena(ctx, address):
    offset = address - peek(ctx + c.ARENA)
    return offset + 1 if 0 <= offset < peek(ctx + c.ARENA_BYTES) else 0


def exposed(ctx, rank):
    """Return, after the opening, where a rank exposes what is read; 0: it does not."""
    return load(header(ctx, rank) + HEADER_EXPOSED)


def end_exposure(ctx, turn, steps):
    """End an operation in which every rank may read what every other exposes, with step number `steps`."""
    return c.ABORTED if has_ended(ctx) else publish_and_await_step(ctx, turn, steps)


def works_in_place(ctx):
    """Return whether x and the result of this rank overlap."""
    x, out = peek(ctx + c.X + c.DATA), peek(ctx + c.OUT + c.DATA)
    return x < out + peek(ctx + c.OUT + c.BYTES) and out < x + peek(ctx + c.X + c.BYTES)


def results_are_apart(ctx):
    """Return whether no rank's result overlaps what another rank exposes. Both are in the arena."""
    for a in range(peek(ctx + c.SIZE)):
        place = load(header(ctx, a) + HEADER_EXPOSED)
        if place <= 0:
            continue
        end = place + load(header(ctx, a) + HEADER_EXPOSED_BYTES)
        for b in range(peek(ctx + c.SIZE)):
            result = load(header(ctx, b) + HEADER_RESULT)
            result_end = result + load(header(ctx, b) + HEADER_RESULT_BYTES)
            if a != b and result > 0 and result < end and place < result_end:
                return 0
    return 1


def read_exposed(ctx, rank, offset, target, length):
    """Copy `length` bytes from byte `offset` on of what a rank exposes. Return OK, or why the call must end."""
    box = header(ctx, rank)
    place, available = load(box + HEADER_EXPOSED), load(box + HEADER_EXPOSED_BYTES)
    if length <= 0:
        return c.OK
    if place == 0 or offset < 0 or length > available or offset > available - length:
        return c.BROKEN
    return read_place(ctx, rank, place - offset if place < 0 else place + offset, target, length)


def read_place(ctx, rank, place, target, length):
    """Copy `length` bytes from a place in the memory of a rank, in the form of EXPOSED. Return OK, or why the call must
    end."""
    if place < 0:
        status = read_peer(ctx, rank, target, -place, length)
        if status != c.OK:
            return status
        poke(ctx + c.CULPRIT, rank)
        return c.PEER_LOST if has_failed(ctx, rank) else c.OK
    if place == 0 or place > peek(ctx + c.ARENA_BYTES) or length > peek(ctx + c.ARENA_BYTES) - place + 1:
        poke(ctx + c.CULPRIT, rank)
        return c.BROKEN
    copy_to_unread(ctx, target, peek(ctx + c.ARENA) + place - 1, length)
    return c.OK
