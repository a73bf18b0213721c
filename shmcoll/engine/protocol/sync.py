"""The sync that begins every collective, and the steps within a collective.

Operations. The collectives of a group are numbered from 1 on; SEQUENCE of a rank is the number of its last one. In each
of them it publishes one header. Most operations are *full*: no rank goes on before all have entered. They have a
number of their own besides, TURN: the operation is the t-th full one. In an *eager* operation each rank waits only for
those whose data it needs: broadcast, scatter, gather, reduce, scan and exscan whose payload fits beside a header. So a
rank may be some calls ahead of another one. All ranks find the same operations full, from what they are given or, if
the root alone knows, from the word EAGER of its header.

Headers. Rank r has a ring of HEADERS headers; that of operation s is in slot s mod HEADERS. Only r writes it:

    1. writes the header: fingerprint, payload or table, the description of the call
    2. stores s in its sequence word with release; fence; rings the doorbells of peers that sleep for r
    3. waits until the sequence word of each peer that it needs is s, with acquire, and compares the fingerprints: of
       all peers in a full operation, and of those whose data it reads in an eager one
    4. reads these words again: they are still s

When r may overwrite a header, that of s, in operation s + HEADERS: when all peers have finished s. A peer publishes
s + 1 only after it has finished s. So r must have seen s + 1, or a later number, of every peer. CREDIT of r is the
newest operation that all peers are known to have published. What always holds between two operations: CREDIT is at
least SEQUENCE + 2 - HEADERS, so the next slot is free. A full operation sets it to s. An eager one ends with
`keep_room`: if CREDIT has become too small, r waits for all peers to publish s - lag, about half the ring behind s. So
a rank waits for others once in that many calls, and not in each one.

Only scans and exscans use the whole ring. Ranks that share a core run in a circle, in any order, and in a scan each of
them can go as far as the ranks before it have come. So the calls that one run of a rank makes are what it may be ahead,
shared among the ranks that come in the wrong order. Rooted operations do not gain from more than ROOTED headers, and
the last rank of a stream of calls would be further behind. They wait while CREDIT is below SEQUENCE + 2 - ROOTED.

Turns. Tables, cells and PROGRESS, which only full operations use, alternate by turn. A rank that is in turn t + 2 has
seen the headers of all ranks in turn t + 1, and so all ranks have finished turn t. So what a rank writes before step 2
of turn t goes to the half of parity t & 1. Eager operations in between change nothing in this.

Fingerprints. That of an operation covers HISTORY, a hash of all calls of the rank so far: of operation, operator,
algorithm and first argument (the root), which must be the same on all ranks. So if ranks make different eager calls
and do not compare them, each later comparison of the two fails. At the latest `keep_room` finds it, which compares
HISTORY of operation s - lag. A peer may be so far ahead that it overwrites that header already. Then it has published
the header before that, s - lag - 1 + HEADERS, and a fence is between. So a rank that has read HISTORY looks whether the
peer has come so far. If so, it leaves the comparison to the peer, which could not come so far without comparing this
rank's header s - lag, or a later one. In full operations all ranks reach the same verdict: each sees the headers
of all ranks before it compares them. In an eager one the rank that finds a difference ends the group.

Why no rank waits forever, if all make the same calls: consider the ranks whose SEQUENCE is smallest, s. All have
published s. `keep_room` of one of them waits for less than s, which all have published. In an eager operation it waits
for header s of others, and in a full one for that and for steps. The steps are of ranks in the same operation, which
wait for nothing else in it: a rank that is ahead has done all its steps.

Order of memory. A rank writes what its peers read (fingerprint, payload, table, cell) with plain or relaxed stores,
before it stores a sequence word or PROGRESS with release. A peer reads it after an acquire of that word. A rank reads
the data of its peers before its own next release, and a peer overwrites these data after an acquire of that release.
Step 4 reads a word again after the data that the word guards. An acquire does not keep these two loads in order, so
there is an acquire fence between them. `has_ended` has one for the same reason.

Steps. Operations longer than one cell proceed in rounds. PROGRESS of rank r is (t << STEP_BITS) + the number of steps
that r has done in turn t. r alone writes it, with release. Data movement fills cell t & 1 for round 0 before the
opening, and cell (t + k) & 1 for round k > 0, published as step k. In a loop of "fill my cell, publish step k, read the
peers' cells of step k", a rank that has seen step k of every peer knows that every peer has finished reading step
k - 1. So it may fill that cell again for step k + 1.

The next turn may fill cell (t + 1) & 1 at once. So an operation whose last round uses that cell (an even number of
rounds) ends with one more step. It means "I have read everything", and the ranks that wrote the cells wait for it.

PROGRESS is compared modulo 2^64, so it must never be 2^39 turns behind, and operations without steps do not store it.
So a rank that begins turn t, a multiple of CATCH_UP, publishes step 0 of t: it has done all steps of all turns before
t, and no step of t. This value also ends the wait of a peer for a step of turn t - 1.

A rank that fails between two of these steps never publishes the next one. Its peers leave their waits because of ABORT,
its record, or the end of its process. What it has published before counts: a peer that needs no more of it goes on.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import (
    acquire_fence,
    load,
    load_acquire,
    peek,
    poke,
    reached,
    store,
    store_release,
    wrapping_multiply,
)
from shmcoll.engine.collective import NOTHING, SHAPE
from shmcoll.engine.layout import (
    ABORT,
    HEADER_ARGUMENTS,
    HEADER_BYTES,
    HEADER_CALL,
    HEADER_COUNT,
    HEADER_DIMS,
    HEADER_EAGER,
    HEADER_FINGERPRINT,
    HEADER_HISTORY,
    HEADER_MAX_DIMS,
    HEADER_SEQUENCE,
    HEADERS,
    PROGRESS,
    STEP_BITS,
    WORD,
    pack_call,
)
from shmcoll.engine.protocol.flight_recorder import note_begin
from shmcoll.engine.protocol.mailboxes import mailbox
from shmcoll.engine.protocol.wait import wait, wake, wake_one

SEED = 0x2545F4914F6CDD1D
MULTIPLIER = 0x5851F42D4C957F2D

CATCH_UP = 1 << 20  # turns, a power of two
ROOTED = HEADERS // 2  # headers that rooted operations use, at least 4


def begin(ctx, covers):
    """Begin a full operation, and return its turn. covers: as for `announce`."""
    announce(ctx, covers)
    return next_turn(ctx)


def next_turn(ctx):
    """Count a full operation, and return its turn. This rank has staged nothing for it so far."""
    turn = peek(ctx + c.TURN) + 1
    poke(ctx + c.TURN, turn)
    if turn & (CATCH_UP - 1) == 0:
        publish_step(ctx, turn, 0)
    return turn


def announce(ctx, covers):
    """Increment the sequence number, and describe the call in this rank's header, which is not published yet.

    `covers` says which properties of x are part of the fingerprint. SHAPE: dtype and shape. DTYPE: the dtype; shapes
    may differ between ranks. NOTHING: x exists on one rank only.
    """
    sequence = peek(ctx + c.SEQUENCE) + 1
    poke(ctx + c.SEQUENCE, sequence)
    poke(ctx + c.MOVED, peek(ctx + c.MOVED) + peek(ctx + c.X + c.BYTES))
    box = my_header(ctx)
    dimensions = peek(ctx + c.X + c.DIMENSIONS)
    dims = peek(ctx + c.X + c.DIMS)
    dtype = peek(ctx + c.X + c.DTYPE)
    operation, reduction, algorithm = peek(ctx + c.OPERATION), peek(ctx + c.REDUCTION), peek(ctx + c.ALGORITHM)
    history = mix(peek(ctx + c.HISTORY), pack_call(operation, 0, reduction, algorithm, 0))
    history = mix(history, peek(ctx + c.ARGUMENT))
    poke(ctx + c.HISTORY, history)
    store(box + HEADER_HISTORY, history)
    fingerprint = mix(history, peek(ctx + c.ARGUMENT_2))
    if covers != NOTHING:
        fingerprint = mix(fingerprint, dtype)
    if covers == SHAPE:
        fingerprint = mix(fingerprint, dimensions)
    for i in range(dimensions):
        extent = peek(dims + i * WORD)
        if i < HEADER_MAX_DIMS:
            store(box + HEADER_DIMS + i * WORD, extent)
        if covers == SHAPE:
            fingerprint = mix(fingerprint, extent)
    poke(ctx + c.FINGERPRINT, fingerprint)
    store(box + HEADER_FINGERPRINT, fingerprint)
    call = pack_call(operation, dtype, reduction, algorithm, dimensions)
    store(box + HEADER_CALL, call)
    store(box + HEADER_ARGUMENTS, peek(ctx + c.ARGUMENT))
    store(box + HEADER_ARGUMENTS + WORD, peek(ctx + c.ARGUMENT_2))
    store(box + HEADER_COUNT, peek(ctx + c.X + c.COUNT))
    note_begin(ctx, sequence, call)


def mix(hashed, value):
    """Compute one round of a multiplicative hash of 64 bits."""
    product = wrapping_multiply(hashed ^ value, MULTIPLIER)
    return product ^ (product >> 32)


def exchange_headers(ctx):
    """Publish the header of this call and wait for the headers of all peers. Return OK, or why the call must end."""
    publish_header(ctx)
    return meet_all(ctx)


def publish_header(ctx):
    store_release(my_header(ctx) + HEADER_SEQUENCE, peek(ctx + c.SEQUENCE))
    wake(ctx)


def meet_all(ctx):
    """Wait for the headers of all peers. Return OK, or why the call must end; MISMATCH after all others."""
    verdict = c.OK
    for i in range(1, peek(ctx + c.SIZE)):
        status = meet(ctx, peer_to_await(ctx, i))
        if status == c.MISMATCH:
            verdict = status
        elif status != c.OK:
            return status
    poke(ctx + c.CREDIT, peek(ctx + c.SEQUENCE))
    return verdict


def meet(ctx, peer):
    """Wait for the header of one peer. Return OK, MISMATCH if its fingerprint is another one, or why it has not
    come."""
    sequence, theirs = peek(ctx + c.SEQUENCE), header(ctx, peer)
    status = wait(ctx, theirs + HEADER_SEQUENCE, sequence, peer)
    if status != c.OK:
        return status
    if load(theirs + HEADER_FINGERPRINT) != peek(ctx + c.FINGERPRINT):
        poke(ctx + c.CULPRIT, peer)
        status = c.MISMATCH
    acquire_fence()
    if load_acquire(theirs + HEADER_SEQUENCE) != sequence:
        poke(ctx + c.CULPRIT, peer)
        return c.BROKEN
    if peek(ctx + c.SIZE) == 2:
        poke(ctx + c.CREDIT, sequence)
    return status


def keep_room(ctx):
    """End an eager operation with a root: see to it that the slot of the next header is free, and that this rank is not
    too far ahead. Return OK, or why the call must end."""
    return keep_slots(ctx, ROOTED)


def keep_last_slot(ctx):
    """Do the same for one that may be ahead as far as the ring allows."""
    return keep_slots(ctx, HEADERS)


def keep_slots(ctx, slots):
    """See to it that one of so many slots, counted from the oldest header that a peer may still read, is free."""
    newest = peek(ctx + c.SEQUENCE)
    if peek(ctx + c.CREDIT) >= newest + 2 - slots:
        return c.OK
    sequence = newest - slots // 2
    for i in range(1, peek(ctx + c.SIZE)):
        peer = peer_to_await(ctx, i)
        theirs = slot(ctx, peer, sequence)
        status = wait(ctx, theirs + HEADER_SEQUENCE, sequence, peer)
        if status != c.OK:
            return status
        history = load(theirs + HEADER_HISTORY)
        acquire_fence()
        is_ahead = reached(load_acquire(slot(ctx, peer, sequence - 1) + HEADER_SEQUENCE), sequence - 1 + HEADERS)
        if not is_ahead and history != load(slot(ctx, peek(ctx + c.RANK), sequence) + HEADER_HISTORY):
            poke(ctx + c.CULPRIT, peer)
            return c.MISMATCH
    poke(ctx + c.CREDIT, sequence)
    return c.OK


def is_eager(ctx, root):
    """Return, after the header of a root has come, whether the root waits for nobody in this call."""
    return load(header(ctx, root) + HEADER_EAGER)


def peer_to_await(ctx, i):
    """Return the peer that this rank waits for as its i-th, i from 1 on, if it waits for all peers.

    Ranks that share a core all wait for the last rank first. When it has arrived, most others have arrived too, so a
    rank sleeps or yields once, and not once per peer (1.0 instead of 1.7 times at 64 ranks on 2 cores). Ranks with a
    core each begin with different peers, so that they do not all read the same word at once.
    """
    size, me = peek(ctx + c.SIZE), peek(ctx + c.RANK)
    if peek(ctx + c.POLLS) == 0:
        return size - i if size - i > me else size - i - 1
    return peer_after(ctx, i)


def peer_after(ctx, i):
    """Return the i-th rank after this one, 0 <= i <= n. Rank 0 follows the last rank."""
    size, rank = peek(ctx + c.SIZE), peek(ctx + c.RANK) + i
    return rank if rank < size else rank - size


def peer_before(ctx, i):
    """Return the i-th rank before this one, 0 <= i <= n. The last rank precedes rank 0."""
    rank = peek(ctx + c.RANK) - i
    return rank if rank >= 0 else rank + peek(ctx + c.SIZE)


def slot(ctx, rank, sequence):
    """Return the address of the header that `rank` writes for operation `sequence`."""
    return mailbox(ctx, rank) + (sequence & (HEADERS - 1)) * HEADER_BYTES


def header(ctx, rank):
    """Return the address of the header that `rank` writes for this operation."""
    return slot(ctx, rank, peek(ctx + c.SEQUENCE))


def my_header(ctx):
    return header(ctx, peek(ctx + c.RANK))


def publish_step(ctx, turn, steps):
    """Publish to all peers that this rank has done `steps` steps of turn `turn`."""
    store_release(mailbox(ctx, peek(ctx + c.RANK)) + PROGRESS, (turn << STEP_BITS) + steps)
    wake(ctx)


def note_step(ctx, turn, steps):
    """Note in the same word a step that no rank waits for."""
    store(mailbox(ctx, peek(ctx + c.RANK)) + PROGRESS, (turn << STEP_BITS) + steps)


def publish_to(ctx, word, value, peer):
    """Store a word that only `peer` waits for."""
    store_release(word, value)
    wake_one(ctx, peer)


def await_step(ctx, turn, steps, peer):
    """Wait until `peer` has done `steps` steps of turn `turn`."""
    return wait(ctx, mailbox(ctx, peer) + PROGRESS, (turn << STEP_BITS) + steps, peer)


def await_all(ctx, turn, steps):
    """Wait until every peer has done `steps` steps of turn `turn`."""
    for i in range(1, peek(ctx + c.SIZE)):
        status = await_step(ctx, turn, steps, peer_to_await(ctx, i))
        if status != c.OK:
            return status
    return c.OK


def publish_and_await_step(ctx, turn, steps):
    """Publish that this rank has done `steps` steps, and wait until every peer has done as many."""
    publish_step(ctx, turn, steps)
    return await_all(ctx, turn, steps)


def release_cells(ctx, turn, rounds, steps):
    """End an operation of `rounds` rounds. After an even number, every rank does one more step, number `steps`, so that
    no rank fills a cell that a peer still reads."""
    return c.OK if rounds & 1 else publish_and_await_step(ctx, turn, steps)


def has_ended(ctx):
    """Return whether the group has ended. A rank asks this after it has read a peer's own memory. A peer that leaves
    may change that memory, but it ends the group first. So a rank that has read a change finds the end here."""
    acquire_fence()
    return load_acquire(peek(ctx + c.GROUP) + ABORT)
