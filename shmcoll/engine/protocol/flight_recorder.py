"""The flight recorder: what each rank of a group did last. Written in every call, read by people when something hangs.

FLIGHTS holds a ring of FLIGHT_ENTRIES entries a rank, one cache line each, which that rank alone writes: operation s in
entry s % FLIGHT_ENTRIES.

    begin        all words: what the call is, as its header says it; STARTED: when it began; WOKEN 0; STATE RUNNING
    a sleep ends WOKEN: when
    the end      STATE: the status of the routine, see `context.py`

Messages have no sequence numbers and no entries. One that sleeps is noted as MESSAGE in the mailbox, until its call
ends: so one that does not, which is most, pays one look at a private word.

Plain stores, no order between them: a reader takes an entry that reads the same twice. An entry of sequence number 0
has never been written. How far an operation in flight has come says PROGRESS, whom its rank waits for AWAITED.

Time is CLOCK_MONOTONIC_COARSE, the kernel's last tick: 1 to 4 ms coarse, enough to tell who is late. To read it
takes 3 to 5 ns, where the precise clock takes 23 and the cycle counter 10, which would have to be calibrated besides
and which programs may not read on every processor. It is read once a call. When an operation ended is not noted: soon
after WOKEN, or after STARTED when it never slept; what it did besides is to copy and to poll for microseconds.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import note, peek, poke, recent
from shmcoll.engine.collective import PEER
from shmcoll.engine.layout import (
    FLIGHT_ARGUMENTS,
    FLIGHT_BYTES,
    FLIGHT_CALL,
    FLIGHT_COUNT,
    FLIGHT_ENTRIES,
    FLIGHT_SEQUENCE,
    FLIGHT_STARTED,
    FLIGHT_STATE,
    FLIGHT_WOKEN,
    MESSAGE,
    MESSAGE_PEER,
    MESSAGE_SINCE,
    MESSAGE_TAG,
    RUNNING,
    WORD,
)


def note_begin(ctx, sequence, call):
    """Operation `sequence` begins. `call`: as in the header."""
    entry = flight(ctx, sequence)
    note(entry + FLIGHT_SEQUENCE, sequence)
    note(entry + FLIGHT_CALL, call)
    note(entry + FLIGHT_ARGUMENTS, peek(ctx + c.ARGUMENT))
    note(entry + FLIGHT_ARGUMENTS + WORD, peek(ctx + c.ARGUMENT_2))
    note(entry + FLIGHT_COUNT, peek(ctx + c.X + c.COUNT))
    note(entry + FLIGHT_STARTED, recent())
    note(entry + FLIGHT_WOKEN, 0)
    note(entry + FLIGHT_STATE, RUNNING)


def note_end(ctx, status):
    """The operation that has begun last has ended, or is between its phases."""
    note(flight(ctx, peek(ctx + c.SEQUENCE)) + FLIGHT_STATE, status)


def note_wake(ctx):
    """A sleep within the operation in flight has ended."""
    note(flight(ctx, peek(ctx + c.SEQUENCE)) + FLIGHT_WOKEN, recent())


def note_message(ctx, box):
    """A send or recv of this rank, whose mailbox is `box`, is about to sleep. It may do so again and again."""
    if peek(ctx + c.KIND) & PEER and peek(ctx + c.NOTED) == 0:
        poke(ctx + c.NOTED, box)
        note(box + MESSAGE_PEER, peek(ctx + c.ARGUMENT))
        note(box + MESSAGE_TAG, peek(ctx + c.ARGUMENT_2))
        note(box + MESSAGE_SINCE, recent())
        note(box + MESSAGE, peek(ctx + c.OPERATION))


def forget_message(ctx, status):
    """A send or recv has ended, or is between its phases. Who has waited in vain tells so before it is forgotten."""
    box = peek(ctx + c.NOTED)
    if box != 0 and status != c.TIMEOUT_PASSED:
        poke(ctx + c.NOTED, 0)
        note(box + MESSAGE, 0)


def flight(ctx, sequence):
    """Address of the entry of an operation in this rank's ring."""
    return peek(ctx + c.FLIGHTS) + (sequence & (FLIGHT_ENTRIES - 1)) * FLIGHT_BYTES
