"""How a call over nodes begins: its fingerprints, its opening, and the record for programs that look at the job."""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import note, peek, recent
from shmcoll.engine.memory.node_words import CALL_BEGAN, CALL_ENDED, CALL_NUMBER, CALL_OPERATION
from shmcoll.nodes.opening import layout as o
from shmcoll.nodes.opening import opening
from shmcoll.nodes.opening.fingerprint import UNKNOWN, describe, with_array
from shmcoll.nodes.opening.opening import open_rows_of_all
from shmcoll.nodes.opening.running_ahead import open_to_root, remember


def opened(ctx, source, length):
    """Open a call in which every rank has its x, and contributes `length` bytes. Return OK if all ranks have the bytes
    of all."""
    announce_alike(ctx, source, length)
    return open_rows_of_all(peek(ctx + o.STATE), source, length)


def opened_for_root(ctx, source, length, root):
    """Open a call in which every rank has its x, and contributes `length` bytes, up to MOST_ROW. Return OK if the root
    has the bytes of all."""
    announce_alike(ctx, source, length)
    return open_to_root(peek(ctx + o.STATE), source, length, root)


def agreed(ctx):
    """Open a call in which every rank has its x, which follows. Return OK if all ranks make it."""
    return opened(ctx, 0, 0)


def announce_alike(ctx, source, length):
    """Announce a call of which all ranks have the same arguments and arrays alike."""
    x, second = ctx + c.X, peek(ctx + c.ARGUMENT_2)
    announce(ctx, with_array(describe(ctx, x, second), x, second), UNKNOWN, source, length)


def announce(ctx, first, second, source, length):
    """Write this rank's slot, with the fingerprints and the bytes that it contributes, and note the call for programs
    that look at the job."""
    state = peek(ctx + o.STATE)
    opening.announce(state, first, second, source, length)
    remember(state)
    last = peek(state + o.RECORD)
    note(last + CALL_OPERATION, peek(ctx + c.OPERATION))
    note(last + CALL_NUMBER, peek(state + o.SEQUENCE))
    note(last + CALL_BEGAN, recent())
    note(last + CALL_ENDED, 0)


def fits(state, length, most):
    """Return whether an opening carries so many bytes of each rank, where it carries up to `most`."""
    return length <= min(peek(state + o.MOST_ROW), most)


def most_for_one(state):
    """Return the bytes of an array for one rank that the opening carries. If ranks share a node, all of them get the
    arrays of all, which takes longer than another message."""
    return o.MOST_FOR_ONE_SHARED if peek(state + o.SHARES) else o.MOST_FOR_ONE


def works_in_place(ctx):
    return peek(ctx + c.X + c.DATA) == peek(ctx + c.OUT + c.DATA)
