"""A program of 3 ranks: mistakes with windows and requests, in the classes of the MPI Bugs Initiative, and their right
twins, which must not be told anything. No mistake keeps another rank waiting.

With the argument `conflicts`: accesses that conflict, which only the check finds."""

import re
import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
me, size = world.rank, world.size
x, y = np.arange(4.0), np.zeros(4)
after = (me + 1) % size
everyone = world.group

SYNC = MPI.ERR_RMA_SYNC


def access_without_epoch(win, wrong):
    if not wrong:
        win.Fence()
    try:
        win.Put(x, after)
    finally:
        win.Fence(MPI.MODE_NOSUCCEED)


def unlock_without_lock(win, wrong):
    if not wrong:
        win.Lock(after)
    win.Unlock(after)


def two_locks(win, wrong):
    win.Lock(after, MPI.LOCK_SHARED)
    try:
        if wrong:
            win.Lock(after, MPI.LOCK_SHARED)
    finally:
        win.Unlock(after)


def fence_in_a_lock(win, wrong):
    win.Lock(after, MPI.LOCK_SHARED)
    try:
        if wrong:
            win.Fence()
    finally:
        win.Unlock(after)
    win.Fence(MPI.MODE_NOSUCCEED)


def free_in_a_lock(win, wrong):
    own = MPI.Win.Allocate(8, 8, comm=world)
    own.Set_errhandler(MPI.ERRORS_RETURN)
    own.Lock(after, MPI.LOCK_SHARED)
    try:
        if wrong:
            own.Free()
    finally:
        own.Unlock(after)
        own.Free()


def complete_without_start(win, wrong):
    win.Post(everyone)
    if not wrong:
        win.Start(everyone)
    try:
        win.Complete()
    except MPI.Exception:
        win.Start(everyone)
        win.Complete()
        raise
    finally:
        win.Wait()


def wait_without_post(win, wrong):
    if not wrong:
        win.Post(everyone)
        win.Start(everyone)
        win.Complete()
    win.Wait()


def flush_without_lock(win, wrong):
    if not wrong:
        win.Lock_all()
    win.Flush(after)
    win.Unlock_all()


def access_outside_of_the_started_group(win, wrong):
    own = everyone.Incl([me])
    win.Post(own)
    win.Start(own)
    try:
        win.Put(x, after if wrong else me)
    finally:
        win.Complete()
        win.Wait()


def range_of_the_window(win, wrong):
    win.Lock(after)
    try:
        win.Put(x, after, 1 if wrong else 0)
    finally:
        win.Unlock(after)


def rank_of_a_target(win, wrong):
    win.Lock_all()
    try:
        win.Put(x, size if wrong else after)
    finally:
        win.Unlock_all()


def type_of_an_access(win, wrong):
    datatype = MPI.DOUBLE.Create_contiguous(2)
    if not wrong:
        datatype.Commit()
    win.Fence()
    try:
        win.Get([y, 1, datatype], after)
    finally:
        win.Fence(MPI.MODE_NOSUCCEED)
        datatype.Free()


def started_twice(win, wrong):
    request = world.Recv_init(y, after, 3)
    request.Start()
    try:
        if wrong:
            request.Start()
    finally:
        world.Send(x, (me - 1) % size, 3)
        request.Wait()
        request.Free()


def two_puts(win, wrong):
    """Two ranks write one place."""
    win.Fence()
    if me < 2:
        win.Put(x[:1], 2, 0 if wrong else me)
    win.Fence(MPI.MODE_NOSUCCEED)


def put_and_get(win, wrong):
    """A rank reads what another one writes."""
    win.Fence()
    if me == 0:
        win.Put(x[:2], 2)
    if not wrong:
        win.Fence()
    if me == 1:
        win.Get(y[:2], 2, 1)
    win.Fence(MPI.MODE_NOSUCCEED)


def put_and_accumulate(win, wrong):
    """Ranks add to one place; one of them, or none, writes it."""
    win.Fence()
    win.Put(x[:1], 1) if wrong and me == 2 else win.Accumulate(x[:1], 1)
    win.Fence(MPI.MODE_NOSUCCEED)


def interleaved(win, wrong):
    """Vectors that pass each other, or meet."""
    vector = MPI.DOUBLE.Create_vector(2, 1, 2).Commit()
    win.Fence()
    if me < 2:
        win.Put([x[:2], 2, MPI.DOUBLE], 2, (0 if wrong else me, 1, vector))
    win.Fence(MPI.MODE_NOSUCCEED)
    vector.Free()


def conflict(one, another):
    return rf"rank ({one}) at \S+wrong_epochs.py:\d+ and rank ({another}) at \S+wrong_epochs.py:\d+ use bytes "


#: a program, and what each rank is told
CONFLICTS = [
    (two_puts, MPI.ERR_RMA_CONFLICT, conflict("0's MPI_Put", "1's MPI_Put") + "0 to 8 of rank 2 in window 0x"),
    (put_and_get, MPI.ERR_RMA_CONFLICT, conflict("0's MPI_Put", "1's MPI_Get") + "8 to 16 of rank 2"),
    (put_and_accumulate, MPI.ERR_RMA_CONFLICT, conflict("[01]'s MPI_Accumulate", "2's MPI_Put") + "0 to 8 of rank 1"),
    (interleaved, MPI.ERR_RMA_CONFLICT, conflict("0's MPI_Put", "1's MPI_Put") + "0 to 8 of rank 2"),
]

#: the same
CASES = [
    (access_without_epoch, SYNC, "MPI_Put at rank . is outside of an epoch; call MPI_Win_fence"),
    (unlock_without_lock, SYNC, "MPI_Win_unlock: this rank has no lock at rank ."),
    (two_locks, SYNC, "MPI_Win_lock: this rank has an epoch at rank . already"),
    (fence_in_a_lock, SYNC, "MPI_Win_fence: this rank still has a lock; call MPI_Win_unlock"),
    (free_in_a_lock, SYNC, "MPI_Win_free: this rank still has a lock"),
    (complete_without_start, SYNC, "MPI_Win_complete: this rank has not called MPI_Win_start"),
    (wait_without_post, SYNC, "MPI_Win_wait: this rank has not called MPI_Win_post"),
    (flush_without_lock, SYNC, "MPI_Win_flush: this rank has no lock at rank ."),
    (access_outside_of_the_started_group, SYNC, "MPI_Put at rank . is outside of an epoch"),
    (range_of_the_window, MPI.ERR_RMA_RANGE, "bytes 8 to 40 are not in the 32 bytes of window 0x"),
    (rank_of_a_target, MPI.ERR_RANK, "MPI_Put: rank 3 is not in window 0x"),
    (type_of_an_access, MPI.ERR_TYPE, "MPI_Get: .*commit"),
    (started_twice, MPI.ERR_REQUEST, "MPI_Start: a request that is active cannot be started"),
]

world.Set_errhandler(MPI.ERRORS_RETURN)
win = MPI.Win.Allocate(32, 8, comm=world)
win.Set_errhandler(MPI.ERRORS_RETURN)
wrong_ones = []
for call, kind, text in CONFLICTS if "conflicts" in sys.argv else CASES:
    call(win, False)
    world.Barrier()
    said = 0, ""
    try:
        call(win, True)
    except MPI.Exception as error:
        said = error.Get_error_class(), error.Get_error_string()
    if said[0] != kind or not re.search(text, said[1]):
        wrong_ones.append((call.__name__, said))
    world.Barrier()
assert not wrong_ones, "\n".join(map(str, wrong_ones))
win.Free()
print("all right")
