"""The profile of a rank: what it called, when, for how long, and for whom it waited. Off unless a user asks for it.

A rank that records has a region in its own heap, which its directory names. Only this rank writes there. Anybody who
maps the arena may read at any time, also after the rank has been killed: the launcher, `inspect`, other ranks.

    header     MAGIC last: what follows has its place and size. RANKS. SLOTS: how many there are. MAIN: the rank's main
               thread. BEGAN and ENDED: CLOCK_MONOTONIC in ns; ENDED is 0 while the rank records. TRACE: where in the
               arena the notes and the spans are, in a block of their own, and how many spans there may be, CAPACITY,
               which is 0 while only totals are counted. COUNT: how many spans native code has written
    WAITED_FOR a word for each rank of the world: ns that this rank has waited for it
    TOTALS     a row for each operation and class of size: calls, bytes, ns, ns waited. The rows of composite calls are
               behind those of operations
    SLOTS      texts, in chains of slots (`profiling/recorder.py`, which writes them): names, groups, threads

    NOTES      what Python writes: ranges, composite calls, calls of front ends. Each has its number in its last word
    SPANS      a ring of what native code writes: span i is entry i % CAPACITY

Who writes in native code. WAITED_FOR: a wait, without the GIL. If two threads of a rank end waits for the same rank in
the same moment, one of these may not count: an atomic operation would take as long as all else of a wait. All
else: the end of a call, with the GIL and without any Python in between, so one thread at a time, and no signal handler.

    writer   the words of span i, each a release;  COUNT = i + 1 (release)
    reader   n = COUNT (acquire);  read spans;  acquire fence;  m = COUNT;  keep the spans i with m - CAPACITY < i < n

Why no reader takes a span that is half written. Span m, which may be half written, is in the place of m - CAPACITY. Its
first word is stored after COUNT = m, because each store of it is a release. So a reader that has read any word of it
finds m or more in COUNT afterwards, and drops the span m - CAPACITY. A rank that is killed within span m leaves COUNT
at m. Totals are counted without such care: a killed rank may have counted a call and not its bytes.

What writes is an object of its own (`native/profile_calls.py`), which is loaded when a rank begins to record. Routines
call it by addresses in the profile of the communicator. So it is not compiled into each of them.

Nobody waits for any of these words, and no routine acts on one. Native code reads nothing from the region but totals:
its own numbers and addresses are in private memory, the *recorder* of the process. So another process that writes into
the region spoils the numbers that are shown, and nothing else. Readers trust no word (`profiling/reading.py`).

Time. Spans have ns of CLOCK_MONOTONIC. Reading that clock takes 23 ns. So the cycle counter is read (10 ns) where Linux
itself takes it for a clock. The recorder has an anchor: a value of the counter, the time then, and the ns of a tick
(RATE). At the end of a call that is more than LAPSE ticks behind the anchor, a new anchor is made. The first is made
with a pause of 50 us, and LAPSE grows from 50 us to 0.1 s. So the times of all ranks of a node are right to about 0.1
us, whatever NTP does to the clock, and Python's `time.monotonic_ns()` fits them.

Cost: off, a load and a branch that is not taken, at the begin and at the end of a call, and in a wait whose word was
not there at first. On, about 40 ns a call.
"""

from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.atomics import call, call_long, clock, cycles, peek
from shmcoll.engine.collective import OPERATION_CODES
from shmcoll.engine.layout import LINE, PAGE, WORD

MAGIC = int.from_bytes(b"PROFILE\x01", "little")

# --- the region -------------------------------------------------------------------------------------------------------
HEAD_MAGIC, HEAD_RANKS, HEAD_SLOTS, HEAD_MAIN, HEAD_BEGAN, HEAD_ENDED, HEAD_TRACE, HEAD_CAPACITY = (
    WORD * i for i in range(8)
)
HEAD_COUNT = LINE
HEAD_OFFSET, HEAD_ACCURACY = (
    LINE + WORD,
    LINE + 2 * WORD,
)  # what to add for the clock of node 0, and how well it is known
HEAD_BYTES = 2 * LINE

COMPOSITE_ROWS = 32  # rows of composite calls, behind those of operations
SIZES = 64  # classes: 0 bytes, 1, 2 to 3, 4 to 7 ...
CALLS, BYTES, TIME, WAITED_TIME = (WORD * i for i in range(4))
TOTAL_BYTES = 4 * WORD
TOTALS_BYTES = (OPERATION_CODES + COMPOSITE_ROWS) * SIZES * TOTAL_BYTES

SLOT_BYTES = 128
NOTE_BYTES = 8 * WORD
NOTE_SHARE = 4  # there is a note for so many spans

#: a span is one cache line
SPAN_BEGIN, SPAN_LASTED, SPAN_CALL, SPAN_ARGUMENT, SPAN_ARGUMENT_2, SPAN_BYTES, SPAN_NUMBER, SPAN_WHAT = (
    WORD * i for i in range(8)
)
SPAN_LENGTH = 8 * WORD
#: LASTED: how long the call lasted and, from bit LASTED_BITS on, waited: in ns; if the bit above both is set, in units
#: of 1 << COARSE ns
LASTED_BITS = 31
COARSE = 10
#: WHAT: the group, whether the call is a part of another one, the status, a part of the thread's identity
PART_BIT, STATUS_SHIFT, THREAD_SHIFT = 15, 16, 24

# --- private: the profile of a communicator, to which PROFILE of the context points -----------------------------------
RECORDER = 0  # address of the recorder
GROUP = WORD  # the number of the group
WAITED = 2 * WORD  # ns that calls have waited so far
CALL_BEGUN, SEND_BEGUN = 3 * WORD, 5 * WORD  # the counter at the begin of a call, and WAITED then; 0: there is none
BEGIN, END, WAIT = (WORD * i for i in range(7, 10))  # addresses of the functions of `native/profile_calls.py`
USES_CLOCK = 10 * WORD  # whether the clock is read in place of the cycle counter
PARTS = 11 * WORD  # not 0: collectives are parts of other calls, and in no total
PROFILE_WORDS = 12

# --- private: the recorder of the process -----------------------------------------------------------------------------
(
    SPANS,  # address of the ring; 0: only totals are counted
    MASK,  # CAPACITY - 1
    COUNT,  # spans so far
    REGION,  # address of the region
    TOTALS,
    WAITED_FOR,
    ANCHOR,  # the counter
    ANCHOR_TIME,  # ns
    RATE,  # ns of a tick << RATE_BITS; 0: not known yet
    LAPSE,  # ticks
) = (WORD * i for i in range(10))
RECORDER_WORDS = 10

RATE_BITS = 24


def totals_offset(ranks):
    """Return where the totals begin in the region of a rank of a job of so many ranks."""
    return layout.align(HEAD_BYTES + ranks * WORD, LINE)


def slots_offset(ranks):
    return totals_offset(ranks) + TOTALS_BYTES


def region_bytes(ranks, slots):
    return slots_offset(ranks) + slots * SLOT_BYTES


def spans_offset(capacity):
    """Return where the spans begin, behind as many notes."""
    return layout.align(capacity // NOTE_SHARE * NOTE_BYTES, PAGE)


def trace_bytes(capacity):
    return spans_offset(capacity) + capacity * SPAN_LENGTH


# --- what routines call -----------------------------------------------------------------------------------------------


def counter(ctx):
    """Return the cycle counter; 0 if nothing is recorded."""
    profile = peek(ctx + c.PROFILE)
    if profile == 0:
        return 0
    return clock() if peek(profile + USES_CLOCK) else cycles()


def end_wait(ctx, begun, peer):
    """Count a wait for `peer`, a rank of the group; below 0: for several, which counts for none of them. begun: what
    `counter` has returned."""
    if begun:
        profile = peek(ctx + c.PROFILE)
        if profile:
            call(peek(profile + WAIT), ctx, begun, peer)


def begin_call(ctx, kind):
    """Note that a call begins, or another phase of it."""
    profile = peek(ctx + c.PROFILE)
    if profile:
        call(peek(profile + BEGIN), ctx, kind, 0)


def end_call(ctx, kind, status, ended, thread):
    """Note that it has ended. Call it under the GIL. ended: what `counter` has returned then."""
    if ended:
        profile = peek(ctx + c.PROFILE)
        if profile:
            call_long(peek(profile + END), ctx, kind, status, ended, thread)
