"""Staging memory: where the bytes of a call are until the peers have read them, and how a rank writes them there.

Each rank has two windows of WINDOW_BYTES in the region of its group. Round k of turn t (the t-th full operation, see
`sync.py`) uses window (t + k) & 1, and in it a cell of at most CELL_BYTES. When a rank may write a cell, and when a
peer may read it, is said by `block_mover.py` and by the other collectives. These rules are about windows: a rank writes
into a window again after all that is in it has been read. So they hold wherever in its window a cell is. They call it
cell (t + k) & 1. If readers have shares of a cell, a rank does not wait for all of them before it writes a part. It
need not, because the shares of two readers never overlap.

    cell of a round  only its rank writes it, except where the collective says otherwise; peers read it after the
                     sequence word or the step that publishes it
    its place        follows from turn, round, number of rounds and the length, which all ranks know before they
                     open. Nobody stores it

Cells move on. A core writes a line quickly if no other core holds it in a cache of its own. Peers have just read the
lines of a cell, so a rank that wrote the same lines again would have to take each of them back. Instead the cells of
successive rounds follow one another, and a window is so long that the peers' caches have dropped a line before it
is written again (`usual_window` in `engine/memory/arena.py`). Two cores of a Zen 4 that share a last-level cache, a
cache of 1 MiB each, one cell written and one read by each rank, us, in windows of one cell / 256 KiB / 1 MiB:
16 KiB 2.4 / 2.4 / 1.2, 64 KiB 9.0 / 8.3 / 3.5, 256 KiB 24 / - / 13. Cells below MOVED_BYTES stay: 4 KiB take 0.5 us
in one place and 0.75 in many. So do those of an all_reduce (`collectives/all_reduce_ring.py`). If ranks outnumber
cores, a window is one cell: most ranks share a cache.

Past the caches. If the cores share no cache (two sockets, two chiplets, virtual cores that the host moves), each line
that is written is fetched from the other core first, one after another, wherever it lies. Nontemporal stores do not
fetch it: writing and reading 64 KiB takes 6 us instead of 31, but 6.7 instead of 3.5 if the cores do share a cache. So
a rank measures both (`pace.py`). No rule depends on how a cell was written: nontemporal stores end with a fence.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek
from shmcoll.engine.layout import EAGER_BYTES, HEADER_INLINE, INLINE_BYTES, LINE, PAGE
from shmcoll.engine.protocol.pace import TIMED_BYTES, begin_copy, note_copy, passes_caches
from shmcoll.engine.protocol.sync import header
from shmcoll.engine.protocol.team import copy_in_parts, stream_in_parts

MOVED_BYTES = 8 << 10

EAGER = 0  # in place of a turn


def cell(ctx, rank, turn, k, length):
    """Return the address of the cell of a rank in round k of an operation that stages `length` bytes, the same number
    on all ranks that use this cell, in rounds of up to CELL_BYTES."""
    most = peek(ctx + c.CELL_BYTES)
    return cell_of_round(ctx, rank, turn, k, max(-(-length // most), 1), min(length, most))


def full_cell(ctx, rank, turn, k):
    """Return the address of a cell of CELL_BYTES, for an operation whose number of rounds is not known to all yet."""
    return cell_of_round(ctx, rank, turn, k, 1, peek(ctx + c.CELL_BYTES))


def cell_of_round(ctx, rank, turn, k, rounds, length):
    """Return the address of the cell of a rank in round k of so many, in which it holds `length` bytes."""
    return cell_in_share(ctx, rank, turn, k, rounds, length, 0, 1)


def cell_in_share(ctx, rank, turn, k, rounds, length, index, shares):
    """Return the address of a cell for one reader, if each of so many readers has a share of the window, and rounds and
    a length of its own. Together they hold up to CELL_BYTES."""
    window, most = peek(ctx + c.WINDOW_BYTES), peek(ctx + c.CELL_BYTES)
    share = window // shares // LINE * LINE
    start = peek(ctx + c.CELLS) + (2 * rank + ((turn + k) & 1)) * window + index * share
    if length < MOVED_BYTES or window == most:
        return start
    step = (length + PAGE - 1) & -PAGE
    cells_before = (turn * rounds + k) >> 1  # in this share, if all operations were like this one
    return start + cells_before % max(share // step, 1) * step


def may_be_eager(length):
    """Return whether the payload of an eager operation fits beside a header."""
    return length <= EAGER_BYTES


def beside_header(ctx, rank):
    """Return where `rank` stages the payload of this operation if it fits beside its header."""
    return header(ctx, rank) + HEADER_INLINE


def payload(ctx, rank, turn, length):
    """Return where `rank` stages the payload of a short operation: beside its header if there are few bytes, or if the
    operation is EAGER, which has no turn; else in its cell."""
    if turn == EAGER or length <= INLINE_BYTES:
        return beside_header(ctx, rank)
    return cell(ctx, rank, turn, 0, length)


def payload_for(ctx, sender, reader, turn, length):
    """Return where `sender` stages the payload of a short operation for one reader: `length` bytes for each."""
    readers = peek(ctx + c.SIZE) - 1
    each = length if readers * length <= INLINE_BYTES else whole_lines(length)
    return payload(ctx, sender, turn, readers * each) + (reader - (reader > sender)) * each


def part_beside_header(ctx, sender, reader, length):
    """Return where `sender` stages `length` bytes for one reader if those for all readers fit beside its header."""
    return beside_header(ctx, sender) + (reader - (reader > sender)) * length


def whole_lines(length):
    return (length + LINE - 1) & -LINE


def write_cell(ctx, place, source, length):
    """Copy bytes to a place in a cell of this rank."""
    if length < TIMED_BYTES:
        copy(place, source, length)
        return
    passes = passes_caches(ctx)
    begun = begin_copy(ctx, length)
    if passes:
        stream_in_parts(ctx, place, source, length)
    else:
        copy_in_parts(ctx, place, source, length)
    note_copy(ctx, c.PASS_PACE if passes else c.WRITE_PACE, begun, length)
