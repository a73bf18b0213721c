"""How bytes reach the user's result: through the caches if the result fits them, past the caches if it is long.

A plain store first fetches the line that it overwrites. If nothing of the result will be found in a cache, that is a
third of the traffic for nothing. A streaming store does not fetch the line. (glibc's memcpy streams too, but only in
single copies of tens of megabytes; ours are a cell long.) But a reader then fetches the result from memory, even if the
caches had room for it.

So streaming pays from a size on that depends on the caches and on the number of ranks: measured on two cores with 32
MiB of last-level cache, it is where the results of all ranks together are half of that cache. There, streaming takes
0.8 to 1.0 of the time if arrays come from memory (16 pairs in turn), and 0.8 to 1.2 if the same arrays are used again
and again; at half that size 0.85 to 1.15 and 1.2 to 1.6, from twice that size on 0.7 to 1.0 and 0.8 to 1.2.
That is what is usual. It is wrong for many programs and machines: a virtual machine may have little of a cache that
Linux describes to it as its own. So a rank that has a core tries both for each length, and stays with the faster one
(`choices.py`). If the result replaces what the rank has just read, streaming costs 1.1-1.3, so such results are not
streamed. How a rank writes its cells, which other ranks read, is another question (`cells.py`).
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek
from shmcoll.engine.protocol.choices import RESULTS, begin_way, choice_of, note_way, way_of
from shmcoll.engine.protocol.team import copy_in_parts, stream_in_parts


def copy_to_result(ctx, target, source, length):
    """Copy `length` bytes to their place in the result, which may be in place of x."""
    if 0 <= target - peek(ctx + c.X + c.DATA) < peek(ctx + c.X + c.BYTES):
        copy_in_parts(ctx, target, source, length)
    else:
        copy_to_unread(ctx, target, source, length)


def copy_to_unread(ctx, target, source, length):
    """Copy `length` bytes to memory of the result that this rank has not read, even if x begins at the same address."""
    total = max(peek(ctx + c.X + c.BYTES), peek(ctx + c.OUT + c.BYTES))
    choice = choice_of(ctx, RESULTS, total)
    passes = way_of(ctx, choice, total >= peek(ctx + c.STREAM_BYTES))
    begin_way(ctx, choice)
    if passes:
        stream_in_parts(ctx, target, source, length)
    else:
        copy_in_parts(ctx, target, source, length)
    note_way(ctx, choice, length)
