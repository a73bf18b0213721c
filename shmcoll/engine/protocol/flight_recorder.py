"""The flight recorder: the last operations of each rank of a group. Calls write it; people read it if a job hangs.

FLIGHTS has FLIGHT_ENTRIES entries per rank, of one cache line each. Only that rank writes them, operation s into entry
s % FLIGHT_ENTRIES:

    begin        all words: the call, as in its header; STARTED: when it began; WOKEN: 0; STATE: RUNNING
    a sleep ends WOKEN: when
    the end      STATE: the status of the routine, see `context.py`

Messages have no sequence numbers and no entries. A message call that sleeps is noted as MESSAGE in the mailbox until
the call ends. So most calls, which do not sleep, only read one private word.

Stores are plain, without any order between them: a reader accepts an entry if it reads the same words twice. An entry
with sequence number 0 has never been written. PROGRESS says how far an operation in flight has got, AWAITED says for
which peer its rank waits.

Time is CLOCK_MONOTONIC_COARSE, the kernel's last tick. It is 1 to 4 ms coarse, which is enough to see which rank is
late. Reading it takes 3 to 5 ns. The precise clock takes 23 ns. The cycle counter takes 10 ns, has to be calibrated,
and is not readable by programs on every processor. The clock is read once per call. The end of an operation is not
noted: it is soon after WOKEN, or after STARTED if the operation never slept, because all else that it does is to copy
and to poll for microseconds.
"""

from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.atomics import note, peek, poke, recent
from shmcoll.engine.collective import PEER
from shmcoll.engine.layout import WORD


def note_begin(ctx, sequence, call):
    """Note that operation `sequence` begins. `call`: as in the header."""
    entry = flight(ctx, sequence)
    note(entry + layout.FLIGHT_SEQUENCE, sequence)
    note(entry + layout.FLIGHT_CALL, call)
    note(entry + layout.FLIGHT_ARGUMENTS, peek(ctx + c.ARGUMENT))
    note(entry + layout.FLIGHT_ARGUMENTS + WORD, peek(ctx + c.ARGUMENT_2))
    note(entry + layout.FLIGHT_COUNT, peek(ctx + c.X + c.COUNT))
    note(entry + layout.FLIGHT_STARTED, recent())
    note(entry + layout.FLIGHT_WOKEN, 0)
    note(entry + layout.FLIGHT_STATE, layout.RUNNING)


def note_end(ctx, status):
    """Note that the last operation has ended, or is between its phases."""
    note(flight(ctx, peek(ctx + c.SEQUENCE)) + layout.FLIGHT_STATE, status)


def note_wake(ctx):
    """Note that a sleep within the operation in flight has ended."""
    note(flight(ctx, peek(ctx + c.SEQUENCE)) + layout.FLIGHT_WOKEN, recent())


def note_message(ctx, box):
    """Note that a send or recv of this rank, whose mailbox is `box`, is about to sleep. It may call this repeatedly."""
    if peek(ctx + c.KIND) & PEER and peek(ctx + c.NOTED) == 0:
        poke(ctx + c.NOTED, box)
        note(box + layout.MESSAGE_PEER, peek(ctx + c.ARGUMENT))
        note(box + layout.MESSAGE_TAG, peek(ctx + c.ARGUMENT_2))
        note(box + layout.MESSAGE_SINCE, recent())
        note(box + layout.MESSAGE, peek(ctx + c.OPERATION))


def forget_message(ctx, status):
    """Note that a send or recv has ended, or is between its phases. After a timeout, MESSAGE stays for the report."""
    box = peek(ctx + c.NOTED)
    if box != 0 and status != c.TIMEOUT_PASSED:
        poke(ctx + c.NOTED, 0)
        note(box + layout.MESSAGE, 0)


def flight(ctx, sequence):
    """Return the address of the entry of an operation of this rank."""
    return peek(ctx + c.FLIGHTS) + (sequence & (layout.FLIGHT_ENTRIES - 1)) * layout.FLIGHT_BYTES
