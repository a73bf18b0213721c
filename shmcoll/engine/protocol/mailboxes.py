"""Where the mailboxes of a group are; `layout.py` says what is in them."""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek
from shmcoll.engine.layout import TABLES


def mailbox(ctx, rank):
    """Return the address of a rank's mailbox."""
    return peek(ctx + c.MAILBOXES) + rank * peek(ctx + c.STRIDE)


def table(ctx, rank, turn):
    """Return the address of the table that `rank` writes in the operation of that turn."""
    stride = (peek(ctx + c.RINGS) - TABLES) // 2
    return mailbox(ctx, rank) + TABLES + (turn & 1) * stride
