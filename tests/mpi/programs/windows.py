"""Windows from Python, by mpi4py: what its own tests do not look at. Run with 3 ranks."""

import threading

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
me, size = comm.rank, comm.size
last = size - 1


def error_class(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except MPI.Exception as error:
        return error.Get_error_class()
    return MPI.SUCCESS


def nobody_calls_at_the_other_end():
    """The target of locks waits in a receive meanwhile."""
    memory = np.zeros(4, np.int64)
    win = MPI.Win.Create(memory, 8, comm=comm)
    if me == last:
        comm.recv(source=0)
        assert memory.tolist() == [0, 7, 8, 0]
    if me == 0:
        win.Lock(last)
        win.Put(np.array([7, 8], np.int64), last, 1)
        win.Unlock(last)
        comm.send(None, last)
    win.Free()


def locks_exclude(make):
    """Read, add and write lose nothing under exclusive locks; a shared one sees no half of it."""
    win = make()
    x = np.zeros(2, np.int64)
    for _ in range(50):
        win.Lock(0)
        win.Get(x, 0)
        assert x[0] == x[1]
        win.Put(x[:1] + 1, 0, 0)
        win.Put(x[1:] + 1, 0, 1)
        win.Unlock(0)
        win.Lock(0, MPI.LOCK_SHARED)
        win.Get(x, 0)
        win.Unlock(0)
        assert x[0] == x[1]
    comm.Barrier()
    win.Lock_all()
    win.Get(x, 0)
    win.Unlock_all()
    assert x.tolist() == [50 * size] * 2
    win.Free()


def accumulates_of_threads():
    win = MPI.Win.Allocate(16, 8, comm=comm)
    if me == 0:
        memory = np.frombuffer(win.tomemory(), np.int64)
        memory[:] = 0
    win.Fence()

    def add():
        one, before = np.ones(1, np.int64), np.zeros(1, np.int64)
        for _ in range(30):
            win.Accumulate(one, 0)
            win.Fetch_and_op(one, before, 0, 1)

    threads = [threading.Thread(target=add) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    win.Fence()
    if me == 0:
        assert memory.tolist() == [60 * size] * 2
    win.Free()


def shared_memory_is_one_array():
    win = MPI.Win.Allocate_shared((2 + me) * 8, 8, comm=comm)
    whole, unit = win.Shared_query(0)
    lengths = [len(win.Shared_query(rank)[0]) for rank in range(size)]
    assert lengths == [(2 + rank) * 8 for rank in range(size)] and unit == 8
    mine = np.frombuffer(win.tomemory(), np.int64)
    mine[:] = me
    comm.Barrier()
    start = MPI.Get_address(whole)
    seen = np.frombuffer(MPI.memory.fromaddress(start, sum(lengths)), np.int64)
    assert seen.tolist() == [rank for rank in range(size) for _ in range(2 + rank)]
    win.Free()


def a_column_of_private_memory():
    memory = np.full((40, 50), -1.0)
    win = MPI.Win.Create(memory, 8, comm=comm)
    column = MPI.DOUBLE.Create_vector(40, 1, 50).Commit()
    mine, got = np.arange(40.0) + 100 * me, np.zeros(40)
    there = (me + 1) % size
    win.Fence()
    win.Put(mine, there, (me, 1, column))
    win.Fence()
    source = (me - 1) % size
    assert (memory[:, source] == np.arange(40.0) + 100 * source).all()
    assert (np.delete(memory, source, axis=1) == -1).all()
    win.Get(got, there, (me, 1, column))
    win.Fence()
    assert (got == mine).all()
    win.Accumulate(mine, there, (me, 1, column))
    win.Fence()
    assert (memory[:, source] == 2 * (np.arange(40.0) + 100 * source)).all()
    column.Free()
    win.Free()


def a_dynamic_window():
    win = MPI.Win.Create_dynamic(comm=comm)
    memory = np.zeros(3, np.int64)
    win.Attach(memory)
    addresses = comm.allgather(MPI.Get_address(memory))
    for_me = np.zeros(3, np.int64)
    win.Fence()
    win.Put(np.full(2, me, np.int64), (me + 1) % size, addresses[(me + 1) % size] + 8)
    win.Fence()
    assert memory.tolist() == [0] + [(me - 1) % size] * 2
    assert error_class(win.Get, for_me, me, addresses[me] + 8) == MPI.ERR_RMA_RANGE
    assert error_class(win.Get, for_me, (me + 1) % size, 8) == MPI.ERR_RMA_RANGE
    win.Fence()
    win.Detach(memory)
    assert error_class(win.Detach, memory) == MPI.ERR_RMA_ATTACH
    win.Free()


def posts_and_starts():
    """Each rank writes to its neighbour; a start before the post of the target does not keep it from posting."""
    memory = np.zeros(1, np.int64)
    win = MPI.Win.Create(memory, 8, comm=comm)
    everybody = win.Get_group()
    right, left = everybody.Incl([(me + 1) % size]), everybody.Incl([(me - 1) % size])
    for turn in range(20):
        win.Start(right)
        win.Post(left)
        win.Put(np.array([me + 10 * turn], np.int64), (me + 1) % size)
        win.Complete()
        win.Wait()
        assert memory[0] == (me - 1) % size + 10 * turn
    for group in (right, left, everybody):
        group.Free()
    win.Free()


def what_is_received_may_have_more_room(make):
    win = make()
    there, next_one, before = np.frombuffer(win, np.int64), (me + 1) % size, (me - 1) % size
    win.Fence()
    win.Put(np.array([me, 7]), next_one, (0, 3, MPI.LONG))
    win.Fence()
    assert there.tolist() == [before, 7, 0]
    got = np.full(3, 9)
    win.Get(got, next_one, (0, 2, MPI.LONG))
    assert error_class(win.Put, np.ones(12, np.int8), next_one, (0, 3, MPI.LONG)) == MPI.ERR_COUNT
    win.Fence()
    assert got.tolist() == [me, 7, 9]
    win.Free()


def what_is_refused():
    memory = np.zeros(2, np.int64)
    win = MPI.Win.Create(memory, 8, comm=comm)
    x = np.ones(2, np.int64)
    assert error_class(win.Put, x, 0) == MPI.ERR_RMA_SYNC
    assert error_class(win.Unlock, 0) == error_class(win.Complete) == error_class(win.Wait) == MPI.ERR_RMA_SYNC
    assert error_class(win.Flush, 0) == error_class(win.Unlock_all) == MPI.ERR_RMA_SYNC
    assert error_class(win.Lock, size) == MPI.ERR_RANK
    win.Lock(me)
    assert error_class(win.Lock, me) == error_class(win.Fence) == error_class(win.Free) == MPI.ERR_RMA_SYNC
    assert error_class(win.Put, x, me, 1) == error_class(win.Get, x, me, -1) == MPI.ERR_RMA_RANGE
    assert error_class(win.Put, x, size) == MPI.ERR_RANK
    assert error_class(win.Put, x, me, (0, 1, MPI.LONG)) == MPI.ERR_COUNT
    assert error_class(win.Get, x[:1], me, (0, 2, MPI.LONG)) == MPI.ERR_COUNT
    assert error_class(win.Accumulate, x, me, op=MPI.Op.Create(lambda *_: None)) == MPI.ERR_OP
    assert error_class(win.Accumulate, np.ones(1, complex), me, op=MPI.MAX) == MPI.ERR_OP
    win.Unlock(me)
    assert memory.tolist() == [0, 0]
    win.Free()


nobody_calls_at_the_other_end()
locks_exclude(lambda: MPI.Win.Create(np.zeros(2, np.int64), 8, comm=comm))
locks_exclude(lambda: MPI.Win.Allocate(16, 8, comm=comm))
accumulates_of_threads()
shared_memory_is_one_array()
a_column_of_private_memory()
a_dynamic_window()
posts_and_starts()
what_is_received_may_have_more_room(lambda: MPI.Win.Create(np.zeros(3, np.int64), 8, comm=comm))
what_is_received_may_have_more_room(lambda: MPI.Win.Allocate(24, 8, comm=comm))
what_is_refused()
print("all right")
