"""The only loop that waits.

A rank waits for a sequence word of one peer to reach a value, or for one of several words of several peers. Words
involved, and who writes them:

    the word     header sequence or PROGRESS of the peer; written by the peer alone, release, never decreases
    PARKED       of the waiter; written by the waiter alone: 1 + the peer it sleeps for, EVERYBODY, else 0
    AWAITED      of the waiter; written by the waiter alone: what it sleeps for, for messages
    SEMAPHORE    of the waiter; posted by anyone, taken by the waiter alone. A doorbell: the word is the truth
    ABORT        of the group; goes from 0 to 1 once
    RECORD_STATE of the peer; written by the peer and, in a second record, by the launcher
    CLOSED       of the peer, in its mailbox; written by the peer alone, goes from 0 to 1 once
    RECORD_PID   of the peer, and RECORD_START: written by the peer alone, before anybody waits for it

The waiter polls, then yields its core, then sleeps in slices. How long it polls follows what polling brought: a budget
that is doubled when the word came while polling and halved when it did not. (Where ranks outnumber cores it is 0. But
two ranks may share a core with the other core taken by somebody else: then polling keeps the peer from running.)

    waiter:  PARKED = 1 + peer;  fence;  look at the word, at ABORT;  sleep;  PARKED = 0
    poster:  word = value (release);  fence;  if PARKED of a peer is 1 + me: ring its doorbell

Of the two looks across the two fences at least one sees the other's store: either the waiter finds the word and does
not sleep, or the poster finds it parked and rings. Only the peer that is waited for rings, so that a rank which waits
for seven peers in turn is not woken seven times. A ring too many (the waiter has woken, but not yet cleared PARKED)
ends a later sleep early and is harmless. If a ring were lost all the same, the slice ends the sleep.

Order of memory. The word, ABORT, CLOSED and the records are stored with release and read with acquire (for plain Python
see `fences.py`). So a waiter that finds one of them finds all that its writer stored before. Only the two fences above
keep a store before a later load. A rank that stores a word and then rings without looking at PARKED (`Group.abort`) has
no need of a fence: sem_post is a release, the end of a sleep is an acquire, and a ring stays until a sleep takes it.
After that sleep the word is seen.

Several words (`wait_any`), for a message from anybody: the table EVENTS, private, says which, and whose. The waiter
looks at all of them where it would look at one, and PARKED is EVERYBODY, so that each of their writers rings. Nothing
else changes: whichever word is stored, either the waiter finds it in its look or its poster finds the waiter parked.
Such a wait ends in vain when one of the peers has died, or all of them have left: as long as one is there, it may come.

A wait with a limit of its own (`wait_a_while`, `wait_for_a_slice`) answers TIMEOUT_PASSED when that has passed, and its
caller goes on.

Why nobody waits for ever: before each sleep the waiter looks, in this order, at the word (what arrived before a failure
counts), at ABORT, and at the peer's records and CLOSED; whoever sets one of these rings afterwards. Each sleep ends
within SLEEP ns, and then it looks at the peer's process, at pending signals, and at the deadline. Time in which this
process itself was stopped (Ctrl-Z) does not count: a sleep that took FROZEN times as long as a slice was none. All
other time counts, so a limit passes while other threads hold the GIL, which the look at signals waits for. The peer may
come in that time, too: the word is looked at once more before the limit has passed.

The peer may live and never come, because it has lost a third member in another group. So after a whole slice the waiter
looks at all members' records, and at the processes of some, of others after the next: a rank that has failed ends all
its groups.

Whether a process has ended is asked by its pid, through a pidfd that is open for no longer than the question takes: one
that was kept could be closed by the program, and its number be another file's, which would say "ended" or never say it.
(Another thread that closes it within this microsecond makes the answer "lives", and the next slice asks again.) Where
no descriptor is to be had, the pid alone must do. A pid may be used again, so the start time of one member is compared
after each whole slice; that costs more. What cannot be read counts as alive: nobody is declared dead by mistake.

Cost: 0 slices when the peer is there already; one cache miss when it arrives while polling.
"""

from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.atomics import (
    clock,
    fence,
    load,
    load_acquire,
    note,
    pause,
    peek,
    poke,
    process_gone,
    process_start,
    reached,
    ring,
    signals_pending,
    sleep_on,
    store,
    yield_core,
)
from shmcoll.engine.layout import (
    AWAITED_PEER,
    AWAITED_VALUE,
    AWAITED_WORD,
    CLOSED,
    PARKED,
    RECORD_BYTES,
    RECORD_PID,
    RECORD_START,
    RECORD_STATE,
    SEMAPHORE,
)
from shmcoll.engine.protocol.flight_recorder import note_message, note_wake

LEFT = 2  # records.DEPARTED, and FAILED above it

SEVERAL = 0  # in place of the word: those of EVENTS, and `wanted` is their number
ANYBODY = -2  # in place of the peer, then
EVERYBODY = ANYBODY + 1  # in PARKED
ONCE = -1  # in place of a limit: one slice
EVENTS = 0  # in the memory about messages: {address of a word, value, peer} a word
EVENT_BYTES = 3 * layout.WORD

LOOKED_AT = 8  # processes a slice

FEWEST_POLLS, MOST_POLLS = 64, 2048  # about 1.5 and 50 us
SLICE_NS = 20_000_000  # what SLEEP usually is
FROZEN = 10  # slices


def mailbox(ctx, rank):
    """Address of a rank's mailbox."""
    return peek(ctx + c.MAILBOXES) + rank * peek(ctx + c.STRIDE)


def in_world(ctx, rank):
    """Which rank of the world a rank of the group is."""
    return peek(peek(ctx + c.RANKS) + rank * layout.WORD)


def wait(ctx, word, wanted, peer):
    """Wait until the word at address `word`, written by `peer`, reaches `wanted`. Returns OK or why not."""
    if comes_soon(ctx, word, wanted):
        return c.OK
    return sleep_until(ctx, word, wanted, peer, peek(ctx + c.TIMEOUT))


def wait_any(ctx, events):
    """Wait until one of the first so many words of EVENTS reaches its value."""
    return wait(ctx, SEVERAL, events, ANYBODY)


def wait_a_while(ctx, word, wanted, peer, limit):
    """As `wait`, for `limit` ns and hardly longer; 0: as long as it takes to poll."""
    if comes_soon(ctx, word, wanted):
        return c.OK
    return sleep_until(ctx, word, wanted, peer, limit) if limit > 0 else c.TIMEOUT_PASSED


def wait_for_a_slice(ctx, events):
    """As `wait_any`, but it sleeps for one slice only, which this process may end by ringing its own doorbell."""
    if comes_soon(ctx, SEVERAL, events):
        return c.OK
    return sleep_until(ctx, SEVERAL, events, ANYBODY, ONCE)


def comes_soon(ctx, word, wanted):
    """Whether the word comes while we poll and yield."""
    if has_come(ctx, word, wanted):
        return 1
    polls = peek(ctx + c.POLLS)
    for _ in range(polls):
        pause()
        if has_come(ctx, word, wanted):
            if polls < MOST_POLLS:
                poke(ctx + c.POLLS, 2 * polls)
            return 1
    if polls > FEWEST_POLLS:
        poke(ctx + c.POLLS, polls // 2)
    for _ in range(peek(ctx + c.YIELDS)):
        yield_core()
        if has_come(ctx, word, wanted):
            return 1
    return 0


def has_come(ctx, word, wanted):
    """Whether what we wait for is there."""
    if word != SEVERAL:
        return reached(load_acquire(word), wanted)
    event = peek(ctx + c.MAIL) + EVENTS
    for _ in range(wanted):
        if reached(load_acquire(peek(event)), peek(event + layout.WORD)):
            return True
        event += EVENT_BYTES
    return False


def sleep_until(ctx, word, wanted, peer, limit):
    mine = mailbox(ctx, peek(ctx + c.RANK))
    note(mine + AWAITED_WORD, word - peek(ctx + c.GROUP))
    note(mine + AWAITED_VALUE, wanted)
    note(mine + AWAITED_PEER, peer + 1)
    if limit != ONCE:
        note_message(ctx, mine)
    now = clock()
    deadline = now + limit
    slices = 0
    while True:
        begun = now
        store(mine + PARKED, peer + 1)
        fence()
        status = look(ctx, word, wanted, peer)
        if status == c.KEEP_WAITING:
            before = clock()
            sleep_on(mine + SEMAPHORE, min(peek(ctx + c.SLEEP), limit) if limit > 0 else peek(ctx + c.SLEEP))
            slept = clock() - before
            poke(ctx + c.SLEPT, peek(ctx + c.SLEPT) + slept)
            if slept > FROZEN * peek(ctx + c.SLEEP):
                deadline += slept
        store(mine + PARKED, 0)
        note_wake(ctx)
        if status != c.KEEP_WAITING:
            return status
        if has_come(ctx, word, wanted):
            return c.OK
        if is_gone(ctx, peer, wanted) and not has_come(ctx, word, wanted):
            return c.PEER_LOST
        if signals_pending(ctx):
            return c.INTERRUPTED
        now = clock()
        if now - begun >= peek(ctx + c.SLEEP):
            slices += 1
            if a_member_has_failed(ctx, slices) and not has_come(ctx, word, wanted):
                return c.PEER_LOST
        if now > deadline and not has_come(ctx, word, wanted):
            if peer != ANYBODY:
                poke(ctx + c.CULPRIT, peer)
            return c.TIMEOUT_PASSED


def look(ctx, word, wanted, peer):
    """What a waiter knows before it sleeps: OK, ABORTED, PEER_LOST, or KEEP_WAITING for none of them."""
    if has_come(ctx, word, wanted):
        return c.OK
    status = c.KEEP_WAITING
    if load_acquire(peek(ctx + c.GROUP) + layout.ABORT):
        status = c.ABORTED
    elif have_left(ctx, wanted) if peer == ANYBODY else has_left(ctx, peer):
        if peer != ANYBODY:
            poke(ctx + c.CULPRIT, peer)
        status = c.PEER_LOST
    # The word once more: what a peer published before it failed or left counts.
    return c.OK if status != c.KEEP_WAITING and has_come(ctx, word, wanted) else status


def has_left(ctx, peer):
    """Whether the peer's own record or the launcher's says that it has ended, or it has closed the group."""
    offset = in_world(ctx, peer) * RECORD_BYTES + RECORD_STATE
    if load_acquire(peek(ctx + c.RECORDS) + offset) >= LEFT:
        return 1
    if load_acquire(peek(ctx + c.RECORDS_LAUNCHER) + offset) >= LEFT:
        return 1
    return load_acquire(mailbox(ctx, peer) + CLOSED)


def has_failed(ctx, peer):
    """Whether a record says that the peer has failed."""
    offset = in_world(ctx, peer) * RECORD_BYTES + RECORD_STATE
    if load_acquire(peek(ctx + c.RECORDS) + offset) > LEFT:
        return 1
    return load_acquire(peek(ctx + c.RECORDS_LAUNCHER) + offset) > LEFT


def have_left(ctx, events):
    """Whether one of the peers of EVENTS has failed, or all have left. From this rank itself nothing can come."""
    event = peek(ctx + c.MAIL) + EVENTS
    waiting = 0
    for i in range(events):
        peer = peek(event + i * EVENT_BYTES + 2 * layout.WORD)
        if peer != peek(ctx + c.RANK):
            if has_failed(ctx, peer) and load_acquire(mailbox(ctx, peer) + CLOSED) == 0:
                poke(ctx + c.CULPRIT, peer)
                return 1
            if not has_left(ctx, peer):
                waiting = 1
            elif waiting == 0:
                poke(ctx + c.CULPRIT, peer)
    return 1 - waiting


def is_gone(ctx, peer, events):
    """Whether the process of the peer has ended; or of one of EVENTS that has not left before."""
    if peer != ANYBODY:
        poke(ctx + c.CULPRIT, peer)
        return process_has_ended(ctx, peer)
    event = peek(ctx + c.MAIL) + EVENTS
    for i in range(events):
        peer = peek(event + i * EVENT_BYTES + 2 * layout.WORD)
        if peer != peek(ctx + c.RANK) and process_has_ended(ctx, peer) and not has_left(ctx, peer):
            poke(ctx + c.CULPRIT, peer)
            return 1
    return 0


def a_member_has_failed(ctx, slices):
    """Whether one of the group has, by the records of all, and by the processes of those whose turn it is; CULPRIT
    then. A rank that has closed the group is no member any more."""
    size = peek(ctx + c.SIZE)
    for i in range(size):
        member = (LOOKED_AT * slices + i) % size
        failed = has_failed(ctx, member)
        if i < LOOKED_AT and member != peek(ctx + c.RANK) and not failed:
            failed = process_has_ended(ctx, member) and not has_left(ctx, member)  # in this order: it may leave between
        if member == slices % size and not failed:
            failed = process_is_another(ctx, member) and not has_left(ctx, member)
        if failed and load_acquire(mailbox(ctx, member) + CLOSED) == 0:
            poke(ctx + c.CULPRIT, member)
            return 1
    return 0


def process_has_ended(ctx, peer):
    pid = load(record(ctx, peer) + RECORD_PID)
    return process_gone(pid) if pid > 0 else 0


def process_is_another(ctx, peer):
    """Whether the process that has the peer's pid is not the peer, or is only its remains."""
    start = load(record(ctx, peer) + RECORD_START)
    found = process_start(load(record(ctx, peer) + RECORD_PID)) if start > 0 else -1
    return 1 if found >= 0 and found != start else 0


def record(ctx, peer):
    """Address of the record that a rank of the group writes about itself."""
    return peek(ctx + c.RECORDS) + in_world(ctx, peer) * RECORD_BYTES


def wake(ctx):
    """Ring the doorbell of every peer that sleeps for this rank. Call after storing the word they wait for."""
    size = peek(ctx + c.SIZE)
    if size == 1:
        return
    fence()
    me = peek(ctx + c.RANK)
    box = mailbox(ctx, 0)
    stride = peek(ctx + c.STRIDE)
    for _ in range(size):
        if load(box + PARKED) == me + 1:
            ring(box + SEMAPHORE)
        box += stride


def wake_one(ctx, peer):
    """The same for one peer, who alone may wait for the word."""
    fence()
    box = mailbox(ctx, peer)
    parked = load(box + PARKED)
    if parked == peek(ctx + c.RANK) + 1 or parked == EVERYBODY:
        ring(box + SEMAPHORE)
