"""Where the mailboxes of a group are; `layout.py` says what is in them."""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek


def mailbox(ctx, rank):
    """Return the address of a rank's mailbox."""
    return peek(ctx + c.MAILBOXES) + rank * peek(ctx + c.STRIDE)
