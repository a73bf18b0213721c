"""How the windows of a group get memory: each rank commits its own two, in the first call that may use them.

Most of a group's region is windows (`engine/protocol/cells.py`). To commit a few MiB takes longer than all else that
makes a group. So the leader commits the region up to the windows. A rank commits the beginnings of its windows before
its first call that stages more bytes than a header holds, and all of them before its first call that may stage more
than FEW_BYTES. If there is no memory, the call is refused: nothing has been published, and it may be repeated. Only a
call that is made of several parts ends the group.

    COMMITTED   in the mailbox: bytes at the beginning of each window of this rank that are committed. The leader writes
                it before another rank can find the region, then this rank alone. The leader reads it when all ranks
                have let go of the region: a region that is used again keeps its memory

Nobody writes into a window without memory. A rank stages bytes of its own array, in its own windows. It writes into
those of a peer only in a call that all ranks make with arrays of one length, after the opening: the peer has committed
its windows before that. A peer that makes another call is found out in the opening. Whoever reads a window reads what
has been staged there.

What it counts. The limit of the heap counts a region from the beginning as if all of it were committed
(`engine/memory/heap.py`). So a call finds no memory only if others than the heaps have taken it.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import call, peek, poke, store_release
from shmcoll.engine.collective import ALIKE, COUNTS, EXTRA, NO_ARRAYS, PEER
from shmcoll.engine.layout import COMMITTED, INLINE_BYTES, LINE
from shmcoll.engine.memory.pages import MADV_POPULATE_WRITE
from shmcoll.engine.native import cpython as py
from shmcoll.engine.protocol.cells import MOVED_BYTES
from shmcoll.engine.protocol.reduction import chosen


def has_memory(ctx, kind):
    """Return whether this rank's windows have the memory that a call may use, after committing it if necessary. Call it
    under the GIL, before the call enters."""
    if kind & (PEER | NO_ARRAYS) or peek(ctx + c.ACTIVE) == -py.thread_id():  # its first phase has seen to it
        return 1
    needed = bytes_needed(ctx, kind)
    if needed <= peek(ctx + c.COMMITTED):
        return 1
    window = peek(ctx + c.WINDOW_BYTES)
    place = peek(ctx + c.CELLS) + 2 * peek(ctx + c.RANK) * window
    if commit(ctx, place, needed) and commit(ctx, place + window, needed):
        poke(ctx + c.COMMITTED, needed)
        store_release(peek(ctx + c.MAILBOXES) + peek(ctx + c.RANK) * peek(ctx + c.STRIDE) + COMMITTED, needed)
        if needed == window:
            poke(ctx + c.COMMIT_BY, 0)
        return 1
    return 0


def bytes_needed(ctx, kind):
    """Return how many bytes at the beginning of each window a call may use."""
    few, length = peek(ctx + c.FEW_BYTES), peek(ctx + c.X + c.BYTES)
    staged = length + peek(ctx + c.SIZE) * LINE  # each reader's part may begin a line
    is_plain = kind & COUNTS == 0 and (kind & EXTRA == 0 or kind & ALIKE) and chosen(ctx) == 0
    if is_plain and length <= min(INLINE_BYTES, few):
        return 0
    window = peek(ctx + c.WINDOW_BYTES)
    return min(MOVED_BYTES, window) if is_plain and staged <= few else window


def commit(ctx, place, length):
    return call(peek(ctx + c.COMMIT_BY), place, length, MADV_POPULATE_WRITE) & 0xFFFFFFFF == 0
