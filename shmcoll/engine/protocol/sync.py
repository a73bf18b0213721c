"""The sync that every collective begins with, and the steps within one.

Opening. Rank r, in its s-th collective of the group, p = s & 1:

    1. writes header p of its mailbox: fingerprint, payload or table, what the call is;      only r ever writes it
    2. stores s to its sequence word, release;  fence;  rings peers that sleep for r
    3. waits until the sequence word of every peer is s, acquire, and compares fingerprints
    4. reads the sequence words again: still s

Why header p may be overwritten at s + 2: to publish s + 1, a peer must have finished s. r reaches s + 2 only after it
has seen s + 1 of every peer (step 3 of its own s + 1), so every peer has finished reading what r published at s. The
same holds for cell p and table p: whatever is written before step 2 of operation s goes to the half of parity s & 1.
This needs every collective to wait for all peers at its opening, rooted ones too, and that is what they do.

Why all ranks reach the same verdict: each sees the headers of all before it compares.

Order of memory. What a rank writes for its peers (fingerprint, payload, table, cell), by plain or relaxed stores, it
writes before the release of a sequence word or of PROGRESS. A peer reads it after an acquire of that word. What a rank
reads of its peers it reads before its own next release, and a peer overwrites it after an acquire of that. Step 4 looks
at a word again after the data that the word guards. An acquire does not keep these two loads in order, so there is an
acquire fence between them; in `has_ended` too.

Steps. Operations longer than one cell proceed in rounds. PROGRESS of rank r is (s << STEP_BITS) + steps done, release,
written by r alone. Moves fill round 0 before the opening, into cell s & 1, and round k > 0 into cell (s + k) & 1,
published as step k. In a loop of "fill my cell, publish step k, read the peers' cells of step k", having seen step k of
every peer means that every peer has finished reading step k - 1: that cell may be filled again at k + 1.

The next operation may fill cell (s + 1) & 1 at once. So an operation that leaves that cell in use by its last round (an
even number of rounds) ends with one more step that says "I have read everything", awaited by who wrote it.

PROGRESS is compared modulo 2^64, so it must never be 2^39 operations behind, and operations without steps do not store
it. So a rank that begins operation s, a multiple of CATCH_UP, publishes step 0 of s: it has done all steps of all
operations before s, and none of s. A peer that still waits for a step of operation s - 1 goes on with that value too.

A rank that fails between two steps of this never publishes; its peers leave their waits by ABORT, by its record, or by
its process.
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
    HEADER_INLINE,
    HEADER_MAX_DIMS,
    HEADER_SEQUENCE,
    INLINE_BYTES,
    PROGRESS,
    STEP_BITS,
    WORD,
    pack_call,
)
from shmcoll.engine.protocol.flight_recorder import note_begin
from shmcoll.engine.protocol.wait import mailbox, wait, wake, wake_one

SEED = 0x2545F4914F6CDD1D
MULTIPLIER = 0x5851F42D4C957F2D

CATCH_UP = 1 << 20  # operations, a power of two


def begin(ctx, covers):
    """Take the next sequence number and describe the call in this rank's header; returns the number.

    `covers`: what of x belongs to the fingerprint. SHAPE: dtype and shape; DTYPE: the dtype alone, the shape may differ
    between ranks; NOTHING: x is the business of one rank. The header is not published yet.
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
    """One round of a multiplicative hash of 64 bits."""
    product = wrapping_multiply(hashed ^ value, MULTIPLIER)
    return product ^ (product >> 32)


def meet(ctx, sequence):
    """Publish the header of this call and wait for those of all peers. Returns OK, or why the call cannot go on."""
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
    """The i-th peer to wait for, i from 1 on, of those who wait for all.

    Ranks that take turns on a core all wait for the last rank first: by the time it has come most others have, too, so
    each sleeps or yields once instead of for one peer after the other (1.0 for 1.7 times at 64 ranks on 2 cores). Those
    with a core of their own begin with different peers, so that not all read the same word at once.
    """
    size, me = peek(ctx + c.SIZE), peek(ctx + c.RANK)
    if peek(ctx + c.POLLS) == 0:
        return size - i if size - i > me else size - i - 1
    return me + i if me + i < size else me + i - size


def header(ctx, rank, sequence):
    """Address of the header that `rank` writes for operation `sequence`."""
    return mailbox(ctx, rank) + (sequence & 1) * HEADER_BYTES


def my_header(ctx, sequence):
    return header(ctx, peek(ctx + c.RANK), sequence)


def cell(ctx, rank, half):
    """Address of one of the two staging cells of a rank."""
    return peek(ctx + c.CELLS) + (2 * rank + (half & 1)) * peek(ctx + c.CELL_BYTES)


def payload(ctx, rank, sequence, length):
    """Where `rank` lays the payload of a short operation: beside its header when it fits, else in its cell."""
    if length <= INLINE_BYTES:
        return header(ctx, rank, sequence) + HEADER_INLINE
    return cell(ctx, rank, sequence)


def publish_step(ctx, sequence, steps):
    """Tell all peers that this rank has done `steps` steps of operation `sequence`."""
    store_release(mailbox(ctx, peek(ctx + c.RANK)) + PROGRESS, (sequence << STEP_BITS) + steps)
    wake(ctx)


def publish_to(ctx, word, value, peer):
    """Store a word that `peer` alone waits for."""
    store_release(word, value)
    wake_one(ctx, peer)


def await_step(ctx, sequence, steps, peer):
    """Wait until `peer` has done `steps` steps of operation `sequence`."""
    return wait(ctx, mailbox(ctx, peer) + PROGRESS, (sequence << STEP_BITS) + steps, peer)


def has_ended(ctx):
    """Whether the group has ended: asked by who has read a peer's own memory, which a peer that left may change. It
    ends the group first, so a rank that has read a change finds that here."""
    acquire_fence()
    return load_acquire(peek(ctx + c.GROUP) + ABORT)


def release_cells(ctx, sequence, rounds, steps):
    """The end of an operation of so many rounds: after an even number, one more step, number `steps`, of every rank,
    so that nobody fills a cell which others still read."""
    return c.OK if rounds & 1 else say_and_await(ctx, sequence, steps)


def say_and_await(ctx, sequence, steps):
    """Tell all peers that this rank has done so many steps, and wait until they have."""
    publish_step(ctx, sequence, steps)
    for i in range(1, peek(ctx + c.SIZE)):
        status = await_step(ctx, sequence, steps, peer_to_await(ctx, i))
        if status != c.OK:
            return status
    return c.OK
