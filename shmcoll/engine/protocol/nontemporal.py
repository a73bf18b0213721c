"""How bytes come to the user's result: through the caches while it fits them, past them when it is long.

A plain store first fetches the line that it will overwrite. For a result of which nothing will be found in a cache
anyway, that is a third of the traffic for nothing; a streaming store leaves it out (and glibc's memcpy too, but only
for single copies of tens of megabytes; ours are a cell long). With 2 ranks moves take 0.7-0.8 of the time so from 1 MiB
on, all_reduce 0.93-0.95; together with reading the result afterwards all_gather takes 0.8-0.9 from 8 MiB on and as long
as before at 2 MiB. Not where the result takes the place of what has just been read: there it costs 1.1-1.3.
What others read, cells above all, is never streamed.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek, stream
from shmcoll.engine.kernels.kernels import move_runs, scatter_runs


def land(ctx, target, source, length):
    """Copy `length` bytes to their place in the result, which may be in place of x."""
    if peek(ctx + c.X + c.DATA) == peek(ctx + c.OUT + c.DATA):
        copy(target, source, length)
    else:
        replace(ctx, target, source, length)


def replace(ctx, target, source, length):
    """Copy `length` bytes to where this rank has read nothing, though x may begin at the same place."""
    if max(peek(ctx + c.X + c.BYTES), peek(ctx + c.OUT + c.BYTES)) >= peek(ctx + c.STREAM_BYTES):
        stream(target, source, length)
    else:
        copy(target, source, length)


def land_runs(ctx, base, run, stride, source, begin, end):
    """The same for linear bytes [begin, end) of the block at `base`, a row of runs: see `engine/kernels/kernels.py`."""
    if run == stride:
        land(ctx, base + begin, source, end - begin)
    else:
        scatter_runs(base, run, stride, source, begin, end)


def land_block(ctx, target, target_run, target_stride, source, source_run, source_stride, length):
    """The same for a whole block, from one row of runs to another."""
    if target_run == target_stride and source_run == source_stride:
        land(ctx, target, source, length)
    else:
        move_runs(target, target_run, target_stride, source, source_run, source_stride, length)
