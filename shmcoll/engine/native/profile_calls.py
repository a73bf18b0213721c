"""What the end of a native call writes into the profile of its rank: see `engine/protocol/profile.py`.

A call is what begins with a routine that enters, and ends with one that is not HALFWAY. It is one span and counts once,
however many phases it has. A receive that gives way, and one that only looks, is no call; the phase that reads the
message is. Parts of composite calls are spans, and are in no total: the composite call is (`profiling/recorder.py`).
"""

from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.atomics import (
    bit_length,
    clock,
    cycles,
    load,
    peek,
    poke,
    prefetch,
    store,
    store_release,
    wrapping_multiply,
)
from shmcoll.engine.collective import ANY_SOURCE, PEER
from shmcoll.engine.layout import WORD
from shmcoll.engine.messages import recv, send
from shmcoll.engine.messages import ring_buffers as r
from shmcoll.engine.messages.ring_buffers import chain_to, found_message
from shmcoll.engine.protocol import profile as p
from shmcoll.engine.protocol.sync import MULTIPLIER

NAME = "profile"

FIRST_PAUSE = 50_000  # ns
LONGEST_LAPSE = 100_000_000  # ns
TRIES = 5
AHEAD = 512  # bytes


def count_wait(ctx, begun, peer):
    """Count a wait for a rank of the group, or for several if `peer` is below 0."""
    profile = peek(ctx + c.PROFILE)
    recorder = peek(profile + p.RECORDER)
    waited = to_ns(p.counter(ctx) - begun, peek(recorder + p.RATE))
    poke(profile + p.WAITED, peek(profile + p.WAITED) + waited)
    if peer >= 0:
        word = peek(recorder + p.WAITED_FOR) + peek(peek(ctx + c.RANKS) + peer * WORD) * WORD
        store(word, load(word) + waited)
    return 0


# --- calls ------------------------------------------------------------------------------------------------------------


def begin_call(ctx, kind):
    """Note when a call begins, in its first phase."""
    recorder, place = peek(peek(ctx + c.PROFILE) + p.RECORDER), begun_at(ctx, kind)
    if peek(recorder + p.RATE) == 0:
        make_first_anchor(recorder, peek(peek(ctx + c.PROFILE) + p.USES_CLOCK))
    if peek(place) == 0 or peek(ctx + c.ACTIVE) == 0:
        poke(place, p.counter(ctx))
        poke(place + WORD, peek(peek(ctx + c.PROFILE) + p.WAITED))
    return 0


def begun_at(ctx, kind):
    """Return where it is noted. A receive between the phases of a send has a place of its own."""
    return peek(ctx + c.PROFILE) + (p.SEND_BEGUN if kind & PEER and kind & ANY_SOURCE == 0 else p.CALL_BEGUN)


def end_call(ctx, kind, status, ended, thread):
    """Write the span of a call that has ended, and count it. ended: the counter."""
    place, is_message = begun_at(ctx, kind), kind & PEER
    begun = peek(place)
    if begun == 0 or (status == c.HALFWAY and (is_message == 0 or peek(ctx + c.REDUCTION) != recv.SEEK)):
        return 0
    poke(place, 0)
    if status == c.HALFWAY or status == c.NO_EFFECT or status == c.GIVES_WAY or (is_message and only_looks(ctx, kind)):
        return 0
    recorder = peek(peek(ctx + c.PROFILE) + p.RECORDER)
    if ended - peek(recorder + p.ANCHOR) > peek(recorder + p.LAPSE):
        make_anchor(recorder)
    waited = peek(peek(ctx + c.PROFILE) + p.WAITED) - peek(place + WORD)
    begin = time_at(recorder, begun)
    end = max(time_at(recorder, ended), begin)
    waited, length = min(waited, end - begin), bytes_of(ctx, kind, status)
    if not is_part(ctx, kind):
        count(peek(recorder + p.TOTALS), peek(ctx + c.OPERATION), length, end - begin, waited)
    if peek(recorder + p.SPANS):
        write_span(ctx, recorder, kind, status, begin, packed(end - begin, waited), length, thread)
    return 0


def is_part(ctx, kind):
    if kind & PEER:
        return 0
    return peek(peek(ctx + c.PROFILE) + p.PARTS) != 0 or peek(ctx + c.ALGORITHM) >> layout.COMPOSITE_SHIFT != 0


def only_looks(ctx, kind):
    """Return whether this phase of a message is no call, and no end of one."""
    phase = peek(ctx + c.REDUCTION)
    if kind & ANY_SOURCE:
        return phase > recv.DATA
    return phase == send.LOOK or phase == send.GIVE_UP


def bytes_of(ctx, kind, status):
    """Return the bytes of this rank's array, or of the message."""
    if kind & ANY_SOURCE:
        return peek(found_message(ctx) + r.FOUND_TOTAL) if status < c.OK else 0
    return peek(ctx + c.X + c.BYTES)


def count(totals, operation, length, passed, waited):
    row = totals + (operation * p.SIZES + bit_length(length)) * p.TOTAL_BYTES
    store(row + p.CALLS, load(row + p.CALLS) + 1)
    store(row + p.BYTES, load(row + p.BYTES) + length)
    store(row + p.TIME, load(row + p.TIME) + passed)
    store(row + p.WAITED_TIME, load(row + p.WAITED_TIME) + waited)


def packed(lasted, waited):
    """Return how long a call lasted and waited as one word. The longest time is 36 minutes."""
    most = (1 << p.LASTED_BITS) - 1
    if lasted <= most:
        return lasted | waited << p.LASTED_BITS
    return min(lasted >> p.COARSE, most) | (min(waited >> p.COARSE, most) | 1 << p.LASTED_BITS) << p.LASTED_BITS


def packed_what(ctx, kind, status, thread):
    group = peek(peek(ctx + c.PROFILE) + p.GROUP) | is_part(ctx, kind) << p.PART_BIT
    return group | max(status, c.OK) << p.STATUS_SHIFT | part_of_thread(thread) << p.THREAD_SHIFT


def part_of_thread(thread):
    """Return the part of the identity of a thread, an address, that tells it from others."""
    return (thread >> 6) & ((1 << (63 - p.THREAD_SHIFT)) - 1)


def write_span(ctx, recorder, kind, status, begin, lasted, length, thread):
    number = peek(recorder + p.COUNT)
    span = peek(recorder + p.SPANS) + (number & peek(recorder + p.MASK)) * p.SPAN_LENGTH
    prefetch(span + AHEAD)
    store_release(span + p.SPAN_BEGIN, begin)
    store_release(span + p.SPAN_LASTED, lasted)
    store_release(span + p.SPAN_BYTES, length)
    store_release(span + p.SPAN_WHAT, packed_what(ctx, kind, status, thread))
    if kind & PEER:
        write_message(ctx, span, kind, status)
    else:
        call = layout.pack_call(
            peek(ctx + c.OPERATION),
            peek(ctx + c.X + c.DTYPE),
            peek(ctx + c.REDUCTION),
            peek(ctx + c.ALGORITHM),
            peek(ctx + c.X + c.DIMENSIONS),
        )
        store_release(span + p.SPAN_CALL, call)
        store_release(span + p.SPAN_ARGUMENT, peek(ctx + c.ARGUMENT))
        store_release(span + p.SPAN_ARGUMENT_2, peek(ctx + c.ARGUMENT_2))
        store_release(span + p.SPAN_NUMBER, peek(ctx + c.SEQUENCE))
    poke(recorder + p.COUNT, number + 1)
    store_release(peek(recorder + p.REGION) + p.HEAD_COUNT, number + 1)


def write_message(ctx, span, kind, status):
    """Write peer and tag of a message, and where in which ring it began: sender and receiver find the same."""
    peer, tag, dtype = peek(ctx + c.ARGUMENT), peek(ctx + c.ARGUMENT_2), peek(ctx + c.X + c.DTYPE)
    found = found_message(ctx)
    if kind & ANY_SOURCE == 0:
        ring, at = peek(chain_to(ctx, peer) + r.BEGUN_IN), peek(chain_to(ctx, peer) + r.BEGUN)
    else:
        ring, at = peek(found + r.FOUND_RING), peek(found + r.FOUND_AT) + 1
        if status < c.OK:
            peer, tag, dtype = peek(found + r.FOUND_SOURCE), peek(found + r.FOUND_TAG), peek(found + r.FOUND_TYPE)
    store_release(span + p.SPAN_CALL, layout.pack_call(peek(ctx + c.OPERATION), dtype, 0, 0, 0))
    store_release(span + p.SPAN_ARGUMENT, peer)
    store_release(span + p.SPAN_ARGUMENT_2, tag)
    store_release(span + p.SPAN_NUMBER, wrapping_multiply(ring - peek(ctx + c.ARENA), MULTIPLIER) ^ at)


# --- time -------------------------------------------------------------------------------------------------------------


def to_ns(number, rate):
    """Return a number of ticks in ns. The upper and the lower 32 bits are multiplied apart: the products stay words."""
    return (number >> 32) * (rate << (32 - p.RATE_BITS)) + (((number & 0xFFFFFFFF) * rate) >> p.RATE_BITS)


def time_at(recorder, when):
    """Return the time in ns at which the counter was at `when`."""
    return peek(recorder + p.ANCHOR_TIME) + to_ns(when - peek(recorder + p.ANCHOR), peek(recorder + p.RATE))


def make_first_anchor(recorder, uses_clock):
    """Find out how long a tick is. A tick of the clock is 1 ns."""
    if uses_clock:
        poke(recorder + p.LAPSE, 1 << 62)
        poke(recorder + p.RATE, 1 << p.RATE_BITS)
        return
    make_anchor(recorder)
    until = peek(recorder + p.ANCHOR_TIME) + FIRST_PAUSE
    while clock() < until:
        pass
    make_anchor(recorder)


def make_anchor(recorder):
    """Read counter and clock together, again if something came between, and correct the rate."""
    before, time_before = peek(recorder + p.ANCHOR), peek(recorder + p.ANCHOR_TIME)
    shortest = 1 << 62
    for _ in range(TRIES):
        first = cycles()
        now = clock()
        last = cycles()
        if last - first < shortest:
            shortest = last - first
            poke(recorder + p.ANCHOR, first + (last - first) // 2)
            poke(recorder + p.ANCHOR_TIME, now)
    passed, gone = peek(recorder + p.ANCHOR) - before, peek(recorder + p.ANCHOR_TIME) - time_before
    if before != 0 and passed > 0 and FIRST_PAUSE // 2 < gone < 1 << (62 - p.RATE_BITS):
        poke(recorder + p.RATE, (gone << p.RATE_BITS) // passed)
        poke(recorder + p.LAPSE, (min(2 * gone, LONGEST_LAPSE) << p.RATE_BITS) // max(peek(recorder + p.RATE), 1))


def functions():
    """Return all for the compiler."""
    return {
        "profile_begin": (begin_call, 2),
        "profile_end": (end_call, 5),
        "profile_wait": (count_wait, 3),
    }
