"""Reading the private memory of a peer: whether the kernel lets the ranks of a group do so, and the reading.

process_vm_readv(2) copies bytes from another process by pid and address. The kernel may refuse it: ptrace_scope of the
Yama module, a filter of system calls, a process that may not be traced. In another pid namespace the pid names another
process, or none. So each rank tries once, on one word of every peer. The words:

    WITNESS        of rank r, in its mailbox: the address of a word in r's private memory. Only r writes it, with
                   release, before its first operation
    WITNESS_VALUE  the value of that word, a random number. Only r writes it, before WITNESS
    READS          of r: 0; then YES if r has found the witness of every member by reading, or NO. Only r writes it
    READABLE       private: YES if READS of every member is YES, NO if one is NO, else 0

A rank tries when it first has a long array, or would read one (`exposure.py`, `messages/offer.py`). If a member has
not published its witness yet, the rank tries again the next time. The answer is for this rank alone: it says whether
all peers can read this rank. No rank waits for it. As long as a rank does not know, its arrays go through the cells.

The kernel copies with `rep movsb`, which on Zen 3 and Zen 4 takes 6 times as long if the target begins 1 to 31 bytes
behind the source, modulo 4096 (`engine/compiler/intrinsics.py`). Such bytes are read into the scratch memory of the
rank first, at another distance, unless trials have found that this is slower. So are long arrays where that has been
faster: see `choices.py`.

What a rank was allowed to do once can be refused later: a peer has ended, or its memory is not mapped any more. Then a
read returns fewer bytes, and the reader returns PEER_LOST or UNREADABLE.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import (
    load,
    load_acquire,
    peek,
    poke,
    process_gone,
    read_memory,
    store_release,
)
from shmcoll.engine.layout import READS, RECORD_BYTES, RECORD_PID, WITNESS, WITNESS_VALUE, WORD
from shmcoll.engine.protocol.choices import LONG_READS, NEAR_READS, begin_way, choice_of, note_way, way_of
from shmcoll.engine.protocol.mailboxes import mailbox
from shmcoll.engine.protocol.team import copy_in_parts, read_in_parts, stream_in_parts
from shmcoll.engine.protocol.wait import has_failed, in_world

YES, NO = 1, 2
MOST_BYTES = 1 << 30  # of one system call; the kernel's limit is below 2 GiB
PAGE_MASK = 4095
SLOW_DISTANCE = 32


def is_readable(ctx):
    """Return whether all peers can read this rank's private memory. Find out first whether it can read theirs."""
    known = peek(ctx + c.READABLE)
    if known:
        return known == YES
    try_peers(ctx)
    known = YES
    for rank in range(peek(ctx + c.SIZE)):
        reads = load_acquire(mailbox(ctx, rank) + READS)
        if reads == NO:
            known = NO
        elif reads == 0 and known == YES:
            known = 0
    poke(ctx + c.READABLE, known)
    return known == YES


def try_peers(ctx):
    """Find out whether this rank can read its peers, and let them know."""
    mine = mailbox(ctx, peek(ctx + c.RANK)) + READS
    if load(mine) == 0:
        store_release(mine, try_all(ctx))


def can_read(ctx, rank):
    """Return whether a rank has found that it can read all others."""
    return load_acquire(mailbox(ctx, rank) + READS) == YES


def try_all(ctx):
    """Return YES if this rank can read all its peers, NO if it cannot, 0 if a peer is not ready yet."""
    found = ctx + c.FOUND_WITNESS
    for rank in range(peek(ctx + c.SIZE)):
        if rank == peek(ctx + c.RANK):
            continue
        witness = load_acquire(mailbox(ctx, rank) + WITNESS)
        if witness == 0:
            return 0
        if read_memory(pid_of(ctx, rank), found, witness, WORD) != WORD:
            return NO
        if peek(found) != load(mailbox(ctx, rank) + WITNESS_VALUE):
            return NO
    return YES


def read_peer(ctx, rank, target, address, length):
    """Copy bytes from an address in the private memory of a peer. Return OK, PEER_LOST or UNREADABLE."""
    if 0 <= target - peek(ctx + c.SCRATCH) < c.SCRATCH_BYTES:
        return read_straight(ctx, rank, target, address, length)
    is_near = 0 < (target - address) & PAGE_MASK < SLOW_DISTANCE
    choice = choice_of(ctx, NEAR_READS if is_near else LONG_READS, length)
    way = way_of(ctx, choice, 0)
    begin_way(ctx, choice)
    if way == is_near:
        status = read_straight(ctx, rank, target, address, length)
    else:
        status = read_in_pieces(ctx, rank, target, address, length, not is_near or length >= peek(ctx + c.STREAM_BYTES))
    note_way(ctx, choice, length)
    return status


def read_straight(ctx, rank, target, address, length):
    """Do so by the kernel alone."""
    done = 0
    while done < length:
        part = min(length - done, MOST_BYTES)
        status = read_piece(ctx, rank, target + done, address + done, part)
        if status != c.OK:
            return status
        done += part
    return c.OK


def read_in_pieces(ctx, rank, target, address, length, passes):
    """Do so through the scratch memory, at a place as far behind its page as the source. passes: the caches."""
    scratch = peek(ctx + c.SCRATCH)
    place = scratch + ((address - scratch) & PAGE_MASK)
    for done in range(0, length, c.PIECE_BYTES):
        part = min(length - done, c.PIECE_BYTES)
        status = read_piece(ctx, rank, place, address + done, part)
        if status != c.OK:
            return status
        if passes:
            stream_in_parts(ctx, target + done, place, part)
        else:
            copy_in_parts(ctx, target + done, place, part)
    return c.OK


def read_piece(ctx, rank, target, address, length):
    """Copy what one system call can copy."""
    if read_in_parts(ctx, pid_of(ctx, rank), target, address, length):
        return c.OK
    poke(ctx + c.CULPRIT, rank)
    return c.PEER_LOST if has_failed(ctx, rank) or process_gone(pid_of(ctx, rank)) else c.UNREADABLE


def pid_of(ctx, rank):
    """Return the process id of a rank of the group."""
    return load(peek(ctx + c.RECORDS) + in_world(ctx, rank) * RECORD_BYTES + RECORD_PID)
