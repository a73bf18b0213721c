"""The four functions by which numpy allocates and frees the memory of arrays (NEP 49), with long arrays in the arena.

They replace the functions of another handler, which is numpy's own, and pass to it what is shorter than THRESHOLD, what
finds no room, and what it has allocated itself: an address between BASE and END is a block of ours
(`array_blocks.py`), and any other one belongs to the other handler. So arrays of both may be freed in any order.
`state` is the word `ctx` of the handler. Nothing here enters the interpreter, because the last array may be freed when
the interpreter has ended.

    malloc    a block with anything in it
    calloc    a block of zeros: one that has been used before is cleared
    realloc   a block of ours becomes shorter in place, and longer in a new one. A private array that grows beyond the
              threshold moves into the arena
    free      a block becomes free memory of this rank, whichever thread frees it

Blocks begin at multiples of a page. Source: NEP 49; numpy/_core/src/multiarray/alloc.c for the arguments.
"""

from collections.abc import Callable

from shmcoll.engine.atomics import call, copy, peek
from shmcoll.engine.native import array_blocks as b

MOST = 1 << 46  # bytes of one array: longer than any address space


def malloc(state, length):
    address = take_or_count(state, length)
    if address:
        return address & ~b.CLEAN
    return call(peek(state + b.MALLOC), peek(state + b.CONTEXT), length, 0)


def calloc(state, count, item):
    length = product(count, item)
    address = take_or_count(state, length)
    if address & b.CLEAN:
        return address - b.CLEAN
    if address:
        return call(peek(state + b.MEMSET), address, 0, length)
    return call(peek(state + b.CALLOC), peek(state + b.CONTEXT), count, item)


def realloc(state, old, length):
    if is_ours(state, old):
        return move(state, old, length)
    if old == 0:
        return malloc(state, length)
    address = take_or_count(state, length) & ~b.CLEAN
    if address == 0:
        return call(peek(state + b.REALLOC), peek(state + b.CONTEXT), old, length)
    usable = call(peek(state + b.USABLE), old, 0, 0)
    copy(address, old, min(usable, length))
    call(peek(state + b.FREE), peek(state + b.CONTEXT), old, usable)
    return address


def move(state, old, length):
    """Reallocate a block of ours."""
    have = b.length_of(state, old)
    if 0 < length <= have:
        if is_alive(state):
            b.shorten(state, old, length)
        return old
    address = malloc(state, length)
    if address:
        copy(address, old, min(have, length))
        free(state, old, have)
    return address


def free(state, address, length):
    if not is_ours(state, address):
        return call(peek(state + b.FREE), peek(state + b.CONTEXT), address, length)
    if is_alive(state):
        b.release(state, address)
    return 0


def take_or_count(state, length):
    """Return a block, plus CLEAN if it reads as zero; 0 for an array that is to be private."""
    if length < peek(state + b.THRESHOLD) or length > MOST or not is_alive(state):
        return 0
    address = b.take(state, length)
    if address == 0:
        b.note_unfit(state, length)
    return address


def product(count, item):
    """Return the length of an array; -1 if it is longer than any address space."""
    if (count | item) >> 31 == 0:
        return count * item
    return count * item if item > 0 and 0 <= count <= MOST // item else -1


def is_ours(state, address):
    return peek(state + b.BASE) <= address < peek(state + b.END)


def is_alive(state):
    """Return whether this process is the rank, and not a fork of it."""
    return peek(peek(state + b.ALIVE)) != 0


#: name: function, number of arguments; in the order of numpy's structure
FUNCTIONS: dict[str, tuple[Callable[..., int], int]] = {
    "malloc": (malloc, 2),
    "calloc": (calloc, 3),
    "realloc": (realloc, 3),
    "free": (free, 3),
}
