"""The only loop that waits.

A rank waits until a word of one peer reaches a value, or until one of several words of several peers does. The words,
and the ranks that write them:

    the word     sequence word of a header, or PROGRESS, of the peer; only the peer writes it, with release, and it
                 never decreases
    PARKED       of the waiter; only the waiter writes it: 1 + the peer that it sleeps for, EVERYBODY, or 0
    AWAITED      of the waiter; only the waiter writes it: what it sleeps for, for messages
    SEMAPHORE    of the waiter; any rank posts it, only the waiter takes it. A doorbell: the word is the truth
    ABORT        of the group; changes from 0 to 1 once
    RECORD_STATE of the peer; the peer writes it and, in a second record, the launcher
    CLOSED       of the peer, in its mailbox; only the peer writes it, and it changes from 0 to 1 once
    RECORD_PID   of the peer, and RECORD_START: only the peer writes them, before any rank waits for it
    RECORD_COMPILING  of any rank of the job; only that rank writes it: the time when it began to compile, then 0
    RECEIVES     of the waiter, in a wait for one rank: see `deadlock.py`
    OWNER        private: NOBODY, or a thread of this rank that wants to call; see `runtime/turns.py`

The waiter polls, then yields its core, then sleeps in time slices. How long it polls depends on how useful polling was.
The budget is doubled if the word arrived during polling, up to USUAL_POLLS, and halved if it did not. But if the sleep
that followed was short, longer polling would have avoided it, so the budget is twice what it was, up to MOST_POLLS.
Without that, a budget that is below the usual wait can only shrink: each rank then sleeps in each call, and each makes
the other wait for the end of a sleep (2 ranks, broadcast of 256 KiB: 62 us, instead of 25; of 4 MiB in one copy 335,
instead of 297). If ranks outnumber cores, the budget is 0. But two ranks may share a core while another process uses
the other core. Then polling keeps the peer from running. So a waiter that has polled without success looks whether the
peer is on its own core. If it is, the budget becomes 1, and one of the two ranks may move to another core
(`placement.py`).

    waiter:  PARKED = 1 + peer;  fence;  read the word and ABORT;  sleep;  PARKED = 0
    poster:  word = value (release);  fence;  if PARKED of a peer is 1 + me: ring its doorbell

Of the two reads behind the two fences, at least one sees the other rank's store. Either the waiter finds the word and
does not sleep, or the poster finds that the waiter is parked and rings. Only the peer that is waited for rings, so a
rank that waits for seven peers in turn is not woken seven times. A ring too many (the waiter has woken, but has not yet
cleared PARKED) ends a later sleep early and is harmless. If a ring were lost nevertheless, the end of the time slice
ends the sleep.

Order of memory. The word, ABORT, CLOSED and the records are stored with release and read with acquire (for plain Python
see `fences.py`). So a waiter that finds one of them finds everything that its writer stored before. Only the two fences
above keep a store before a later load. A rank that stores a word and then rings without reading PARKED (`Group.abort`)
needs no fence: sem_post is a release, the end of a sleep is an acquire, and a ring stays until a sleep takes it. After
that sleep the waiter sees the word.

Several words, for a message from any rank: the private table EVENTS says which words of which peers. The
waiter reads all of them where it would read one, and PARKED is EVERYBODY, so each of their writers rings. Nothing else
changes: for each word that is stored, either the waiter finds it, or its poster finds the waiter parked. Such a wait
ends with PEER_LOST if one of the peers has died or all of them have left. As long as one peer remains, the word may
still arrive.

A receive gives way (`wait_for_message`), as long as it has read nothing. Another thread of this rank that wants to call
stores OWNER and then posts SEMAPHORE of its own rank, whatever PARKED says. The waiter reads OWNER before each sleep.
So it either finds the other thread there, or the ring ends its sleep, and it looks again. OWNER remains until the other
thread has called, which it cannot before the waiter has left. A word that has arrived counts first.

A wait with a limit of its own (`wait_a_while`, `wait_for_a_slice`) returns TIMEOUT_PASSED after the limit, and its
caller goes on.

Why no rank waits forever: before each sleep the waiter checks, in this order, the word (what arrived before a failure
counts), ABORT, and the peer's records and CLOSED. A rank that sets one of these afterwards rings. Each sleep ends
within SLEEP ns. Then the waiter checks the peer's process, pending signals, and the deadline. Time in which this
process itself was stopped (Ctrl-Z) does not count: a sleep that took more than FROZEN time slices extends the deadline.
All other time counts. So a limit can pass while other threads hold the GIL, for which the check of signals waits. The
word may arrive during that time, too. So the waiter reads the word once more before it reports that the limit has
passed.

A rank that compiles cannot arrive, and neither can a rank that waits for it in another group. So when the limit of an
operation has passed, the waiter looks at RECORD_COMPILING of all ranks of the job. If one of them has begun within
LONGEST_COMPILATION and neither failed nor left, the whole limit begins again. A compilation ends, or its process does,
or LONGEST_COMPILATION passes: so the limit passes at last. Where the word is stored and the rank is then stopped or
killed, the same holds. Limits of a caller's own are not extended.

The peer may be alive and never arrive, because it waits for this rank in turn. A wait for one rank that has slept for
DEADLOCK_SLICES whole time slices looks after each further one whether that is proven (`deadlock.py`). It is not proven
of a receive of a rank in which another thread may send.

The peer may be alive and never arrive, because it has lost a third member in another group. So after a whole time slice
the waiter checks the records of all members, and the processes of a few, of other members after each slice: a rank that
has failed ends all its groups.

The waiter finds out by the pid whether a process has ended, through a pidfd that it opens and closes for each check.
The program could close a pidfd that stays open, and its number could become another file, so that the check always says
"ended", or never. (Another thread that closes the pidfd within this microsecond makes the check say "lives", and the
check after the next slice corrects that.) If no descriptor is available, the pid alone must suffice. A pid may be used
again, so after each whole slice the waiter compares the start time of one member; that costs more. A process that
cannot be read counts as alive, so that no rank is declared dead by mistake.

Cost: 0 time slices if the peer is there already; one cache miss if it arrives during polling.
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
    thread_states,
    yield_core,
)
from shmcoll.engine.collective import JITTED
from shmcoll.engine.protocol.deadlock import begin_receive, end_receive, is_deadlocked
from shmcoll.engine.protocol.flight_recorder import note_message, note_wake
from shmcoll.engine.protocol.mailboxes import mailbox
from shmcoll.engine.protocol.placement import come_apart, is_beside
from shmcoll.engine.protocol.profile import counter, end_wait

LEFT = 2  # records.DEPARTED, and FAILED above it

SEVERAL = 0  # instead of a word: the words of EVENTS, and `wanted` is their number
ANYBODY = -2  # instead of a peer, with SEVERAL
EVERYBODY = ANYBODY + 1  # in PARKED
ONCE = -1  # instead of a limit: one time slice
EVENTS = 0  # in the memory about messages: {address of a word, value, peer} per word
EVENT_BYTES = 3 * layout.WORD

CHECKED_PER_SLICE = 8  # processes

FEWEST_POLLS, USUAL_POLLS, MOST_POLLS = 64, 8192, 32768  # about 1.5, 200 and 800 us
UNCOUNTED_POLLS = 4  # less than 0.2 us, in which a cache line comes: no wait for the profile
SHORT_SLEEP = 300_000  # ns, with the time that it takes to wake up
SLICE_NS = 20_000_000  # the usual SLEEP
FROZEN = 10  # time slices
DEADLOCK_SLICES = 50


def in_world(ctx, rank):
    """Return the number in the world of a rank of the group."""
    return peek(peek(ctx + c.RANKS) + rank * layout.WORD)


def wait(ctx, word, wanted, peer):
    """Wait until the word at address `word`, written by `peer`, reaches `wanted`. Return OK, or why it did not."""
    if comes_soon(ctx, word, wanted, peer):
        return c.OK
    status = sleep_for(ctx, word, wanted, peer, peek(ctx + c.TIMEOUT), False)
    end_receive(ctx)
    return status


def wait_for_message(ctx, word, wanted, peer):
    """Do the same in a receive that has read nothing. Return GIVES_WAY if another thread of this rank wants to call."""
    if comes_soon(ctx, word, wanted, peer):
        return c.OK
    status = sleep_for(ctx, word, wanted, peer, peek(ctx + c.TIMEOUT), True)
    end_receive(ctx)
    return status


def wait_a_while(ctx, word, wanted, peer, limit):
    """Do the same as `wait`, for about `limit` ns; 0: for as long as polling takes."""
    if comes_soon(ctx, word, wanted, peer):
        return c.OK
    return sleep_for(ctx, word, wanted, peer, limit, False) if limit > 0 else c.TIMEOUT_PASSED


def wait_for_a_slice(ctx, events):
    """Wait until one of the first `events` words of EVENTS reaches its value, but sleep for one time slice only. This
    process may end that by ringing its own doorbell."""
    if comes_soon(ctx, SEVERAL, events, ANYBODY):
        return c.OK
    return sleep_for(ctx, SEVERAL, events, ANYBODY, ONCE, False)


def comes_soon(ctx, word, wanted, peer):
    """Return whether the word arrives while this rank polls and yields."""
    if has_come(ctx, word, wanted):
        return 1
    begun, polls = 0, peek(ctx + c.POLLS)
    for i in range(polls):
        pause()
        if has_come(ctx, word, wanted):
            if polls < USUAL_POLLS:
                poke(ctx + c.POLLS, 2 * polls)
            end_wait(ctx, begun, peer)
            return 1
        if i == UNCOUNTED_POLLS:
            begun = counter(ctx)
    if polls > 0:
        poke(ctx + c.POLLS, fewer_polls(ctx, polls, peer))
    begun, came = begun or counter(ctx), 0
    for _ in range(peek(ctx + c.YIELDS)):
        yield_core()
        if has_come(ctx, word, wanted):
            came = 1
            break
    end_wait(ctx, begun, peer)
    return came


def fewer_polls(ctx, polls, peer):
    """Return how often to poll in the next wait, after the word has not arrived during `polls` polls."""
    if peer != ANYBODY and is_beside(ctx, peer):
        come_apart(ctx)
        return 1
    return max(polls // 2, FEWEST_POLLS)


def more_polls(ctx):
    """Poll longer in the next waits, after a sleep that polling would have avoided."""
    polls = peek(ctx + c.POLLS)
    if polls >= FEWEST_POLLS:  # more than a rank beside its peer
        poke(ctx + c.POLLS, min(4 * polls, MOST_POLLS))


def has_come(ctx, word, wanted):
    """Return whether the word, or one of SEVERAL, has its value."""
    if word != SEVERAL:
        return reached(load_acquire(word), wanted)
    event = peek(ctx + c.MAIL) + EVENTS
    for _ in range(wanted):
        if reached(load_acquire(peek(event)), peek(event + layout.WORD)):
            return True
        event += EVENT_BYTES
    return False


def sleep_for(ctx, word, wanted, peer, limit, gives_way):
    begun = counter(ctx)
    status = sleep_until(ctx, word, wanted, peer, limit, gives_way)
    end_wait(ctx, begun, peer)
    return status


def sleep_until(ctx, word, wanted, peer, limit, gives_way):
    mine = mailbox(ctx, peek(ctx + c.RANK))
    note(mine + layout.AWAITED_WORD, word - peek(ctx + c.GROUP))
    note(mine + layout.AWAITED_VALUE, wanted)
    note(mine + layout.AWAITED_PEER, peer + 1)
    if limit != ONCE:
        note_message(ctx, mine)
    now = clock()
    deadline = now + limit
    slices = slept = 0
    while True:
        begun = now
        is_proof = slices > 0 and peer != ANYBODY and limit == peek(ctx + c.TIMEOUT)
        is_proof = is_proof and (not gives_way or is_alone(ctx))
        if is_proof:
            begin_receive(ctx, word, wanted, peer)
        store(mine + layout.PARKED, peer + 1)
        fence()
        status = look(ctx, word, wanted, peer)
        if status == c.KEEP_WAITING and gives_way and another_calls(ctx):
            status = c.GIVES_WAY
        if status == c.KEEP_WAITING:
            before = clock()
            sleep_on(mine + layout.SEMAPHORE, min(peek(ctx + c.SLEEP), limit) if limit > 0 else peek(ctx + c.SLEEP))
            slept = clock() - before
            poke(ctx + c.SLEPT, peek(ctx + c.SLEPT) + slept)
            if slept > FROZEN * peek(ctx + c.SLEEP):
                deadline += slept
        store(mine + layout.PARKED, 0)
        note_wake(ctx)
        if status != c.KEEP_WAITING:
            return status
        if has_come(ctx, word, wanted):
            if slept < SHORT_SLEEP:
                more_polls(ctx)
            return c.OK
        if is_gone(ctx, peer, wanted) and not has_come(ctx, word, wanted):
            return c.PEER_LOST
        if is_proof:
            if slices > DEADLOCK_SLICES and is_deadlocked(ctx):
                return c.DEADLOCKED
            end_receive(ctx)
        if signals_pending(ctx):
            return c.INTERRUPTED
        now = clock()
        if now - begun >= peek(ctx + c.SLEEP):
            slices += 1
            if a_member_has_failed(ctx, slices) and not has_come(ctx, word, wanted):
                return c.PEER_LOST
        if now > deadline and limit == peek(ctx + c.TIMEOUT) and a_rank_compiles(ctx, now):
            deadline = now + limit
        if now > deadline and not has_come(ctx, word, wanted):
            if peer != ANYBODY:
                poke(ctx + c.CULPRIT, peer)
            return c.TIMEOUT_PASSED


def another_calls(ctx):
    """Return whether another thread of this rank has a place in the line, or the turn."""
    owner = load(ctx + c.OWNER)
    return owner == c.NOBODY or (owner > 0 and owner != peek(ctx + c.ACTIVE))


def is_alone(ctx):
    """Return whether only this thread of the process can make a call. Threads of jitted code need no thread state."""
    if peek(ctx + c.KIND) & JITTED:
        return False
    return thread_states(ctx) <= 1 + load(peek(ctx + c.HELPERS))


def look(ctx, word, wanted, peer):
    """Return what a waiter knows before it sleeps: OK, ABORTED, PEER_LOST, or else KEEP_WAITING."""
    if has_come(ctx, word, wanted):
        return c.OK
    status = c.KEEP_WAITING
    if load_acquire(peek(ctx + c.GROUP) + layout.ABORT):
        status = c.ABORTED
    elif have_left(ctx, wanted) if peer == ANYBODY else has_left(ctx, peer):
        if peer != ANYBODY:
            poke(ctx + c.CULPRIT, peer)
        status = c.PEER_LOST
    # What a peer published before it failed or left counts, so read the word once more
    return c.OK if status != c.KEEP_WAITING and has_come(ctx, word, wanted) else status


def has_left(ctx, peer):
    """Return whether the peer's own record or the launcher's says that it has ended, or it has closed the group."""
    offset = in_world(ctx, peer) * layout.RECORD_BYTES
    if is_over(peek(ctx + c.RECORDS) + offset) or is_over(peek(ctx + c.RECORDS_LAUNCHER) + offset):
        return 1
    return load_acquire(mailbox(ctx, peer) + layout.CLOSED)


def has_failed(ctx, peer):
    """Return whether a record says that the peer has failed."""
    offset = in_world(ctx, peer) * layout.RECORD_BYTES + layout.RECORD_STATE
    if load_acquire(peek(ctx + c.RECORDS) + offset) > LEFT:
        return 1
    return load_acquire(peek(ctx + c.RECORDS_LAUNCHER) + offset) > LEFT


def have_left(ctx, events):
    """Return whether one of the peers of EVENTS has failed, or all have left. This rank cannot send while it waits."""
    event = peek(ctx + c.MAIL) + EVENTS
    waiting = 0
    for i in range(events):
        peer = peek(event + i * EVENT_BYTES + 2 * layout.WORD)
        if peer != peek(ctx + c.RANK):
            if has_failed(ctx, peer) and load_acquire(mailbox(ctx, peer) + layout.CLOSED) == 0:
                poke(ctx + c.CULPRIT, peer)
                return 1
            if not has_left(ctx, peer):
                waiting = 1
            elif waiting == 0:
                poke(ctx + c.CULPRIT, peer)
    return 1 - waiting


def is_gone(ctx, peer, events):
    """Return whether the process of the peer has ended; or of one peer of EVENTS that had not left before."""
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
    """Return whether a member has failed, by the records of all and by the processes of those whose turn it is. If so,
    CULPRIT is that member. A rank that has closed the group is not a member any more."""
    size = peek(ctx + c.SIZE)
    for i in range(size):
        member = (CHECKED_PER_SLICE * slices + i) % size
        failed = has_failed(ctx, member)
        if i < CHECKED_PER_SLICE and member != peek(ctx + c.RANK) and not failed:
            failed = process_has_ended(ctx, member) and not has_left(ctx, member)  # in this order: it may leave between
        if member == slices % size and not failed:
            failed = process_is_another(ctx, member) and not has_left(ctx, member)
        if failed and load_acquire(mailbox(ctx, member) + layout.CLOSED) == 0:
            poke(ctx + c.CULPRIT, member)
            return 1
    return 0


def a_rank_compiles(ctx, now):
    """Return whether a rank of the job compiles, and so keeps its peers, and theirs, waiting."""
    own, launcher = peek(ctx + c.RECORDS), peek(ctx + c.RECORDS_LAUNCHER)
    for offset in range(0, launcher - own, layout.RECORD_BYTES):
        begun = load_acquire(own + offset + layout.RECORD_COMPILING)
        is_recent = begun != 0 and now - begun < layout.LONGEST_COMPILATION
        if is_recent and not is_over(own + offset) and not is_over(launcher + offset):
            return 1
    return 0


def is_over(record):
    """Return whether the record at this address says that its rank has left or failed."""
    return load_acquire(record + layout.RECORD_STATE) >= LEFT


def process_has_ended(ctx, peer):
    pid = load(record(ctx, peer) + layout.RECORD_PID)
    return process_gone(pid) if pid > 0 else 0


def process_is_another(ctx, peer):
    """Return whether the process with the peer's pid is another one, or only a zombie."""
    start = load(record(ctx, peer) + layout.RECORD_START)
    found = process_start(load(record(ctx, peer) + layout.RECORD_PID)) if start > 0 else -1
    return 1 if found >= 0 and found != start else 0


def record(ctx, peer):
    """Return the address of the record that a rank of the group writes about itself."""
    return peek(ctx + c.RECORDS) + in_world(ctx, peer) * layout.RECORD_BYTES


def wake(ctx):
    """Ring the doorbell of every peer that sleeps for this rank, after storing the word that they wait for."""
    size = peek(ctx + c.SIZE)
    if size == 1:
        return
    fence()
    me = peek(ctx + c.RANK)
    box = mailbox(ctx, 0)
    stride = peek(ctx + c.STRIDE)
    for _ in range(size):
        if load(box + layout.PARKED) == me + 1:
            ring(box + layout.SEMAPHORE)
        box += stride


def wake_one(ctx, peer):
    """Ring the doorbell of one peer, the only one that may wait for the word."""
    fence()
    box = mailbox(ctx, peer)
    parked = load(box + layout.PARKED)
    if parked == peek(ctx + c.RANK) + 1 or parked == EVERYBODY:
        ring(box + layout.SEMAPHORE)
