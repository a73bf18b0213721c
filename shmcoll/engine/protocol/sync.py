"""The sync that begins every collective, and the steps within a collective.

Opening. Rank r, in its s-th collective of the group, p = s & 1:

    1. writes header p of its mailbox: fingerprint, payload or table, the description of the call. Only r writes it
    2. stores s in its sequence word with release; fence; rings the doorbells of peers that sleep for r
    3. waits until the sequence word of every peer is s, with acquire, and compares the fingerprints
    4. reads the sequence words again: they are still s

Why r may overwrite header p in operation s + 2: a peer publishes s + 1 only after it has finished s. r reaches s + 2
only after it has seen s + 1 of every peer (step 3 of its own s + 1). So every peer has finished reading what r
published for s. The same holds for cell p and table p: what a rank writes before step 2 of operation s goes to the half
of parity s & 1. This requires that every collective waits for all peers at its opening. Rooted collectives do so too.

Why all ranks reach the same verdict: each rank sees the headers of all ranks before it compares them.

Order of memory. A rank writes what its peers read (fingerprint, payload, table, cell) with plain or relaxed stores,
before it stores a sequence word or PROGRESS with release. A peer reads it after an acquire of that word. A rank reads
the data of its peers before its own next release, and a peer overwrites these data after an acquire of that release.
Step 4 reads a word again after the data that the word guards. An acquire does not keep these two loads in order, so
there is an acquire fence between them. `has_ended` has one for the same reason.

Steps. Operations longer than one cell proceed in rounds. PROGRESS of rank r is (s << STEP_BITS) + the number of steps
that r has done. r alone writes it, with release. Data movement fills cell s & 1 for round 0 before the opening, and
cell (s + k) & 1 for round k > 0, published as step k. In a loop of "fill my cell, publish step k, read the peers' cells
of step k", a rank that has seen step k of every peer knows that every peer has finished reading step k - 1. So it may
fill that cell again for step k + 1.

The next operation may fill cell (s + 1) & 1 at once. So an operation whose last round uses that cell (an even number of
rounds) ends with one more step. It means "I have read everything", and the ranks that wrote the cells wait for it.

PROGRESS is compared modulo 2^64, so it must never be 2^39 operations behind, and operations without steps do not store
it. So a rank that begins operation s, a multiple of CATCH_UP, publishes step 0 of s: it has done all steps of all
operations before s, and no step of s. This value also ends the wait of a peer for a step of operation s - 1.

A rank that fails between two of these steps never publishes the next one. Its peers leave their waits because of ABORT,
its record, or the end of its process.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import (
    acquire_fence,
    load,
    load_acquire,
    peek,
    poke,
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
    HEADER_FINGERPRINT,
    HEADER_MAX_DIMS,
    HEADER_SEQUENCE,
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

CATCH_UP = 1 << 20  # operations, a power of two


def begin(ctx, covers):
    """Increment the sequence number, describe the call in this rank's header, and return the number.

    `covers` says which properties of x are part of the fingerprint. SHAPE: dtype and shape. DTYPE: the dtype; shapes
    may differ between ranks. NOTHING: x exists on one rank only. The header is not published yet.
    """
    sequence = peek(ctx + c.SEQUENCE) + 1
    poke(ctx + c.SEQUENCE, sequence)
    if sequence & (CATCH_UP - 1) == 0:
        publish_step(ctx, sequence, 0)
    poke(ctx + c.MOVED, peek(ctx + c.MOVED) + peek(ctx + c.X + c.BYTES))
    box = my_header(ctx, sequence)
    dimensions = peek(ctx + c.X + c.DIMENSIONS)
    dims = peek(ctx + c.X + c.DIMS)
    dtype = peek(ctx + c.X + c.DTYPE)
    operation, reduction, algorithm = peek(ctx + c.OPERATION), peek(ctx + c.REDUCTION), peek(ctx + c.ALGORITHM)
    fingerprint = mix(SEED, pack_call(operation, 0, reduction, algorithm, 0))
    fingerprint = mix(mix(fingerprint, peek(ctx + c.ARGUMENT)), peek(ctx + c.ARGUMENT_2))
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
    return sequence


def mix(hashed, value):
    """Compute one round of a multiplicative hash of 64 bits."""
    product = wrapping_multiply(hashed ^ value, MULTIPLIER)
    return product ^ (product >> 32)


def exchange_headers(ctx, sequence):
    """Publish the header of this call and wait for the headers of all peers. Return OK, or why the call must end."""
    store_release(my_header(ctx, sequence) + HEADER_SEQUENCE, sequence)
    wake(ctx)
    size = peek(ctx + c.SIZE)
    fingerprint = peek(ctx + c.FINGERPRINT)
    verdict = c.OK
    for i in range(1, size):
        peer = peer_to_await(ctx, i)
        theirs = header(ctx, peer, sequence)
        status = wait(ctx, theirs + HEADER_SEQUENCE, sequence, peer)
        if status != c.OK:
            return status
        if load(theirs + HEADER_FINGERPRINT) != fingerprint:
            poke(ctx + c.CULPRIT, peer)
            verdict = c.MISMATCH
        acquire_fence()
        if load_acquire(theirs + HEADER_SEQUENCE) != sequence:
            poke(ctx + c.CULPRIT, peer)
            return c.BROKEN
    return verdict


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


def header(ctx, rank, sequence):
    """Return the address of the header that `rank` writes for operation `sequence`."""
    return mailbox(ctx, rank) + (sequence & 1) * HEADER_BYTES


def my_header(ctx, sequence):
    return header(ctx, peek(ctx + c.RANK), sequence)


def publish_step(ctx, sequence, steps):
    """Publish to all peers that this rank has done `steps` steps of operation `sequence`."""
    store_release(mailbox(ctx, peek(ctx + c.RANK)) + PROGRESS, (sequence << STEP_BITS) + steps)
    wake(ctx)


def note_step(ctx, sequence, steps):
    """Note in the same word a step that no rank waits for."""
    store(mailbox(ctx, peek(ctx + c.RANK)) + PROGRESS, (sequence << STEP_BITS) + steps)


def publish_to(ctx, word, value, peer):
    """Store a word that only `peer` waits for."""
    store_release(word, value)
    wake_one(ctx, peer)


def await_step(ctx, sequence, steps, peer):
    """Wait until `peer` has done `steps` steps of operation `sequence`."""
    return wait(ctx, mailbox(ctx, peer) + PROGRESS, (sequence << STEP_BITS) + steps, peer)


def await_all(ctx, sequence, steps):
    """Wait until every peer has done `steps` steps of operation `sequence`."""
    for i in range(1, peek(ctx + c.SIZE)):
        status = await_step(ctx, sequence, steps, peer_to_await(ctx, i))
        if status != c.OK:
            return status
    return c.OK


def publish_and_await_step(ctx, sequence, steps):
    """Publish that this rank has done `steps` steps, and wait until every peer has done as many."""
    publish_step(ctx, sequence, steps)
    return await_all(ctx, sequence, steps)


def release_cells(ctx, sequence, rounds, steps):
    """End an operation of `rounds` rounds. After an even number, every rank does one more step, number `steps`, so that
    no rank fills a cell that a peer still reads."""
    return c.OK if rounds & 1 else publish_and_await_step(ctx, sequence, steps)


def has_ended(ctx):
    """Return whether the group has ended. A rank asks this after it has read a peer's own memory. A peer that leaves
    may change that memory, but it ends the group first. So a rank that has read a change finds the end here."""
    acquire_fence()
    return load_acquire(peek(ctx + c.GROUP) + ABORT)
