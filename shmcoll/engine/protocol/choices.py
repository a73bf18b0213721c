"""Choices between two ways of moving long arrays, which each rank makes for itself, and for each length by itself.

Four questions have no answer that holds for a length, because it depends on the processor, on the part of its caches
that others leave to us, and on whether the same arrays are used again or many in turn:

    RESULTS     0: plain stores; 1: past the caches (`nontemporal.py`)
    LONG_READS  of a peer's memory. 0: from its array into the result; 1: through a piece of private memory that fits a
                cache, and from there past the caches. The kernel's copy fetches each line of the result that it
                overwrites. The piece stays in the cache, so that fetch is saved (`peer_memory.py`)
    NEAR_READS  the same where the result begins a few bytes behind the array, modulo a page. 0: through a piece; 1:
                from the array into the result, which some processors do slowly
    MOVES       0: through cells; 1: in one copy by the kernel. One kind for each way of `ways.py`

So a rank tries both in its own calls. The words of a choice are private, one set for each power of two in length:

    CALL       the number of the last operation that asked
    CALLS      how many have asked
    TRIAL      in which of them the next trial begins
    WAY        0 or 1: the way of this call
    COUNTS     whether its copies are measured
    SINCE      when its first copy began
    BYTES, NS  what it has copied so far, and how long that took, waits between copies included
    PACES      ns for 64 KiB in the fastest call that was measured: on way 0; on way 1
    TRIED      how many calls a trial takes
    LED        1 + the way of the rank that leads, in the last call; 0: none leads

A call takes the same way in all its copies. The first calls take the usual way. BEFORE calls before a trial are
measured, but never the very first one: its result may have no memory yet. Then TRIED calls take the other way. If these
are several, the first is not measured, because it finds the caches as the other way has left them. Arrays of LONG and
more fit no cache, and their calls take milliseconds. So one call tries their stores and reads. Two try their moves,
because a first read by the kernel takes half as long again as later ones. If others interrupt a single call of a trial,
the usual way stays.

Stores are tried first, then moves, then reads, each after the trial before has ended: a trial would spoil the times of
another one, and a program that makes ten calls should not pay for all. A move of less than a window comes later, after
all cells have been used once: the first use of a page takes as long as the copy of a few.

Waits count, because a way may slow the peer down: stores past the caches take the memory's time. The fastest call on
each way is compared, as others may interrupt all the rest. After the trial the rank takes the faster way. What is not
usual must be clearly faster (LESS, MORE): plain stores leave the result in the caches for its reader, as far as they
have room for it. INTERVAL calls later comes the next trial, and so many times as many later as the slower way took
longer, up to MOST_INTERVALS. So trials cost a hundredth or two.

A rank that is led tries nothing, and takes the way that its leader took in the call before (`ways.py`). So in a trial
of the leader it lags by a call, the one that is not measured.

No agreement is needed, and no result depends on a choice. With more ranks than cores there are no such words (CHOICES
is 0): the time of a copy says which rank had the core. Then, and for lengths below LEAST_COPY (LEAST for
the others), each rank takes the usual way.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import clock, peek, poke
from shmcoll.engine.layout import WORD
from shmcoll.engine.protocol.pace import UNIT

RESULTS, LONG_READS, NEAR_READS, MOVES = range(4)
KINDS = MOVES + 5

LEAST = 16 << 10
LEAST_COPY = 256 << 10  # of RESULTS and LONG_READS
LENGTHS = 14  # the last one is for 128 MiB and all that is longer
CALL, CALLS, TRIAL, WAY, COUNTS, SINCE, BYTES, NS, PACES, _, TRIED, LED = (WORD * i for i in range(12))
CHOICE_BYTES = 12 * WORD
ALL_WORDS = KINDS * LENGTHS * CHOICE_BYTES // WORD

BEFORE, TRIES = 4, 4
LONG, LONG_TRIES, LONG_MOVES = 8 << 20, 1, 2
FIRST_TRIAL = BEFORE + 2  # of stores: the very first call does not count
LATER = BEFORE + TRIES  # of moves, and again of reads
INTERVAL, MOST_INTERVALS = 256, 16
LESS, MORE = 8, 7  # the way that is not usual takes less than seven eighths


def new_words(window_bytes):
    """Return the words of all choices before the first call. window_bytes: of each of the two windows of a rank."""
    words = [0] * ALL_WORDS
    for i in range(KINDS * LENGTHS):
        kind, power = divmod(i, LENGTHS)
        first, length = FIRST_TRIAL, LEAST << power
        if kind >= MOVES:
            first += LATER + 2 * window_bytes // length
        elif kind != RESULTS:
            first += 2 * LATER
        words[(i * CHOICE_BYTES + TRIAL) // WORD] = first
        words[(i * CHOICE_BYTES + TRIED) // WORD] = tries_of(kind, length)
    return words


def tries_of(kind, length):
    """Return how many calls try the other way."""
    if length < LONG:
        return TRIES
    return LONG_MOVES if kind >= MOVES else LONG_TRIES


def choice_of(ctx, kind, length):
    """Return where the words for a length are, from the context on; 0: there are none."""
    choices = peek(ctx + c.CHOICES)
    if choices == 0 or length < (LEAST_COPY if kind < NEAR_READS else LEAST):
        return 0
    place, rest = choices + kind * LENGTHS * CHOICE_BYTES, length // (2 * LEAST)
    last = place + (LENGTHS - 1) * CHOICE_BYTES
    while rest > 0 and place < last:
        place, rest = place + CHOICE_BYTES, rest >> 1
    return place


def way_of(ctx, choice, usual):
    """Return the way of this call, 0 or 1. `usual`: the way to take unless the other one is clearly faster."""
    if choice == 0:
        return usual
    if peek(ctx + choice + CALL) != peek(ctx + c.SEQUENCE):
        poke(ctx + choice + CALL, peek(ctx + c.SEQUENCE))
        choose(ctx, choice, usual)
    return peek(ctx + choice + WAY)


def choose(ctx, choice, usual):
    """Choose the way of a call that begins."""
    note_call(ctx, choice)
    led = peek(ctx + choice + LED)
    if led:
        poke(ctx + choice + WAY, led - 1)
        poke(ctx + choice + COUNTS, 0)
        return
    calls = peek(ctx + choice + CALLS) + 1
    poke(ctx + choice + CALLS, calls)
    if calls == 1:
        poke(ctx + choice + WAY, usual)
    turn, tried = calls - peek(ctx + choice + TRIAL), peek(ctx + choice + TRIED)
    if turn == -BEFORE or turn == 0:
        way = peek(ctx + choice + WAY) if turn < 0 else 1 - peek(ctx + choice + WAY)
        poke(ctx + choice + WAY, way)
        poke(ctx + choice + PACES + way * WORD, 0)
    elif turn == tried:
        end_trial(ctx, choice, usual)
    poke(ctx + choice + COUNTS, -BEFORE <= turn < tried and (turn != 0 or tried == 1))


def note_call(ctx, choice):
    """Let the last call count, if it was measured."""
    pace, length = choice + PACES + peek(ctx + choice + WAY) * WORD, peek(ctx + choice + BYTES)
    if length > 0:
        took = peek(ctx + choice + NS) * UNIT // length
        poke(ctx + pace, min(took, peek(ctx + pace)) if peek(ctx + pace) else took)
    poke(ctx + choice + BYTES, 0)
    poke(ctx + choice + NS, 0)


def end_trial(ctx, choice, usual):
    """Go on with the faster way, and say when to try again."""
    expected, other = peek(ctx + choice + PACES + usual * WORD), peek(ctx + choice + PACES + (1 - usual) * WORD)
    is_measured = expected > 0 and other > 0
    poke(ctx + choice + WAY, 1 - usual if is_measured and LESS * other < MORE * expected else usual)
    times = max(expected, other) // min(expected, other) if is_measured else 1
    poke(ctx + choice + TRIAL, peek(ctx + choice + TRIAL) + INTERVAL * min(times, MOST_INTERVALS))


def begin_way(ctx, choice):
    """Note when the first copy of a call begins. Without one before, it goes on where `note_way` has stopped."""
    if choice and peek(ctx + choice + COUNTS) and peek(ctx + choice + BYTES) == 0:
        poke(ctx + choice + SINCE, clock() - peek(ctx + choice + NS))


def note_way(ctx, choice, length):
    """Let a copy of so many bytes count that has just ended, and the waits since the first copy of the call."""
    if choice and peek(ctx + choice + COUNTS):
        poke(ctx + choice + NS, clock() - peek(ctx + choice + SINCE))
        poke(ctx + choice + BYTES, peek(ctx + choice + BYTES) + length)
