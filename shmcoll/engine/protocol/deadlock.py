"""Prove that ranks wait for one another: a circle of ranks, each asleep for a word that the next one has not written.

Each rank that sleeps for a word of one other rank, in a collective, or in a receive without another thread that may
call, says so in its mailbox from its second time slice on. Only that rank writes these words:

    RECEIVES        a count. It is odd while the rank sleeps in such a slice; each slice has a number of its own
    RECEIVES_FROM   the rank that it waits for, its source
    RECEIVES_FLAG   the word that it waits for: its offset in the arena. Of a message, the flag of the next piece
    RECEIVES_VALUE  the value that the word reaches: once the piece has arrived, or the source has come so far

    before a sleep  RECEIVES_FROM, RECEIVES_FLAG and RECEIVES_VALUE, then RECEIVES odd. All of them are releases
    after it        RECEIVES even, before the rank reads what the word guards, and before it runs signal handlers

What holds while RECEIVES is odd. The rank is inside native code, in the name of a call, and ACTIVE says so. So no
thread, signal handler or asynchronous call of this rank stores a word that a peer waits for in this group
(`engine/native/entering.py`): its next word comes after the end of the sleep. The sleep ends when the flag is set, when
it gives way to a thread that wants to call, or by a failure. A collective does not give way. In a receive there is no
such thread: the process has no thread states except those of threads of this package (HELPERS), which call only what
the program has given them before. If they had something to call, OWNER would say so, and the rank would not sleep. A
thread begins only in another thread or in a handler, and handlers do not run while RECEIVES is odd. (A thread that
Python does not know yet, and that first enters it later, is not seen.) Only the source sets the flag. As long as the
rank has not read what it guards, the flag stays set: nobody overwrites that of a piece, and the words of collectives
never decrease.

The proof. A rank that has slept for long follows its source, the source of that, and so on. If this leads back to
itself, the ranks passed are a circle. It follows the circle twice. The first time it notes each RECEIVES, and all of
them are odd. The second time it finds for each rank that the flag is not set, and then that RECEIVES is still the same
number. So there is a moment between the two rounds in which all ranks of the circle slept. At that moment no flag was
set: a flag stays set until its rank has read what it guards, and the second round comes later. Each rank of the circle
then waits for a word that its source can store only when its own sleep has ended. None of these sleeps ends by a word.

One round is not enough. A rank that was asleep when it was looked at may have received its message, and may have sent,
before the last rank of the circle is looked at.

Why the flags count. A rank that is stopped, or has not woken yet, may have a message that it has not read. Its mailbox
still says that it sleeps. But then its flag is set.

Order of memory. The first round reads RECEIVES of a source with acquire. So every flag that the source stored before
its sleep is visible in the second round. All other loads are acquires as well, so each comes after the one before it.
The words of one sleep are stored after RECEIVES became even, and each is a release. So a reader that finds a word of
the next sleep, and then looks at RECEIVES again, finds another number. The same holds for a flag that was overwritten
after the rank had read it: the rank stored RECEIVES before HEAD, and the sender loaded HEAD before it overwrote.

What is not found: circles through receives of ranks with other threads, or in jitted code, whose threads Python does
not know; through several groups, posted receives, receives from ANY, and sends. There a rank could still go on, or the
mailboxes do not say enough. Such a wait ends at its limit.

Nobody waits here: a round has as many steps as there are ranks at most. Every rank of the circle looks after each of
its time slices. So if one of them is stopped, another one finds the circle. What a rank finds in a mailbox is checked
before it is used as a rank or an address.

Cost: nothing in the first time slice of a wait, but one store at its end; then a look at the threads and five stores
for each slice; two cache lines for each rank of the circle and each round, after each long time slice.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import load, load_acquire, peek, poke, reached, store, store_release
from shmcoll.engine.layout import RECEIVES, RECEIVES_FLAG, RECEIVES_FROM, RECEIVES_VALUE, WORD
from shmcoll.engine.protocol.mailboxes import mailbox


def begin_receive(ctx, flag, value, source):
    """Say that this rank is about to sleep until the flag at address `flag` has its value, which `source` stores."""
    mine = mailbox(ctx, peek(ctx + c.RANK))
    store_release(mine + RECEIVES_FROM, source)
    store_release(mine + RECEIVES_FLAG, flag - peek(ctx + c.ARENA))
    store_release(mine + RECEIVES_VALUE, value)
    store_release(mine + RECEIVES, load(mine + RECEIVES) | 1)


def end_receive(ctx):
    """Say that this rank sleeps no more."""
    mine = mailbox(ctx, peek(ctx + c.RANK))
    store(mine + RECEIVES, (load(mine + RECEIVES) | 1) + 1)


def is_deadlocked(ctx):
    """Return whether this rank, which may be asleep, is in a circle that no word can end."""
    return is_circle(ctx, 0) and is_circle(ctx, 1)


def is_circle(ctx, again):
    """Return whether the sources lead from this rank back to it, each rank asleep with its flag not set.

    SCRATCH has the number of each sleep: it is noted in the first round and compared `again`.
    """
    noted = peek(ctx + c.SCRATCH)
    rank = peek(ctx + c.RANK)
    for _ in range(peek(ctx + c.SIZE)):
        box = mailbox(ctx, rank)
        number = load_acquire(box + RECEIVES)
        if again == 0:
            poke(noted, number)
        if number % 2 == 0 or number != peek(noted):
            return 0
        rank = load_acquire(box + RECEIVES_FROM)
        if flag_is_set(ctx, box) or load(box + RECEIVES) != number:
            return 0
        if rank == peek(ctx + c.RANK):
            return 1
        if rank < 0 or rank >= peek(ctx + c.SIZE):
            return 0
        noted += WORD
    return 0


def flag_is_set(ctx, box):
    """Return whether the flag is set for which a rank sleeps, whose mailbox is `box`; also if its words make no
    sense."""
    flag = load_acquire(box + RECEIVES_FLAG)
    value = load_acquire(box + RECEIVES_VALUE)
    if flag < 0 or flag > peek(ctx + c.ARENA_BYTES) - WORD or flag % WORD != 0:
        return True
    return reached(load_acquire(peek(ctx + c.ARENA) + flag), value)
