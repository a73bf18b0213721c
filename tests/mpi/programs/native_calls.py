"""The same calls by native functions, by Python, and by either on different ranks: they must tell the same.

Run with 2 or 3 ranks.
"""

import sys
from functools import partial

import numpy as np
from mpi4py import MPI

import shmcoll.mpi

comm = MPI.COMM_WORLD.Dup()
comm.Set_errhandler(MPI.ERRORS_RETURN)
me, size = comm.rank, comm.size
right, left = (me + 1) % size, (me - 1) % size
COLUMN = MPI.DOUBLE.Create_vector(3, 1, 2).Commit()  # not one run
PAIR = MPI.DOUBLE.Create_contiguous(2).Commit()
UNCOMMITTED = MPI.DOUBLE.Create_contiguous(2)
LARGER = MPI.Op.Create(lambda a, b, _: np.maximum(np.frombuffer(a), np.frombuffer(b), out=np.frombuffer(b)))
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def told(call, *arguments):
    """Return the class of the error of a call, 0 if there is none."""
    try:
        call(*arguments)
    except MPI.Exception as error:
        return error.Get_error_class()
    return 0


def numbers(n=4, dtype="f8"):
    return (np.arange(n) + me).astype(dtype)


@check
def reductions():
    for dtype, op in (("f8", MPI.SUM), ("i4", MPI.MAX), ("c16", MPI.PROD), ("u1", MPI.BAND), ("?", MPI.LOR)):
        for n in (0, 1, 3000):
            x, out = numbers(n, dtype), np.zeros(n, dtype)
            comm.Allreduce(x, out, op)
            yield out
            comm.Allreduce(MPI.IN_PLACE, x, op)
            yield x
            out[:] = 0
            comm.Reduce(x, out if me == 1 else None, op, 1)
            yield out
            comm.Reduce(MPI.IN_PLACE if me == 0 else x, x if me == 0 else None, op, 0)
            yield x
    x, out = numbers(), np.zeros(4)
    comm.Allreduce([x, 2, PAIR], [out, 2, PAIR])
    yield out
    comm.Allreduce([x, 4, MPI.DOUBLE], [out, 4, MPI.DOUBLE], LARGER)
    yield out
    odd = np.zeros(33, np.uint8)[1:]  # not aligned
    odd.view("f8")[:] = me
    comm.Allreduce(MPI.IN_PLACE, [odd, 4, MPI.DOUBLE])
    yield odd
    yield told(comm.Allreduce, [x, MPI.DOUBLE], [out, MPI.DOUBLE], MPI.BAND)
    yield told(comm.Allreduce, [x, 1, UNCOMMITTED], [out, 1, UNCOMMITTED])
    yield told(comm.Dup().Allreduce, x[: 1 + me % 2], out[: 1 + me % 2])  # not alike: all ranks are told
    yield told(comm.Reduce, x, out, MPI.SUM, size)
    yield told(comm.Reduce, x, out, MPI.SUM, -7)


@check
def blocks():
    for n in (0, 1, 700):
        x, all_x = numbers(n), np.zeros(n * size)
        for root in range(size):
            out = numbers(n)
            comm.Bcast(out, root)
            yield out
            comm.Gather(x, all_x if me == root else None, root)
            yield all_x
            comm.Scatter(all_x + root if me == root else None, out, root)
            yield out
        comm.Gather(MPI.IN_PLACE if me == 0 else x, all_x if me == 0 else None)
        yield all_x
        comm.Scatter(all_x if me == 0 else None, MPI.IN_PLACE if me == 0 else x)
        yield x
        comm.Allgather(x, all_x)
        yield all_x
        all_x[me * n : (me + 1) * n] += 1
        comm.Allgather(MPI.IN_PLACE, all_x)
        yield all_x
        out = np.zeros(n * size)
        comm.Alltoall(all_x + me, out)
        yield out
        comm.Alltoall(MPI.IN_PLACE, out)
        yield out
    part = [numbers(6), 1, COLUMN] if me == 0 else [numbers(3), 3, MPI.DOUBLE]  # not one run on one rank
    all_x = np.zeros(3 * size)
    comm.Allgather(part, all_x)
    yield all_x
    comm.Bcast(part)
    yield part[0]
    comm.Barrier()
    yield told(comm.Bcast, [part[0], MPI.DOUBLE], size)
    yield told(comm.Bcast, [part[0], 1, UNCOMMITTED], 0)
    n = 1 + me % 2
    yield told(comm.Dup().Bcast, [part[0], n, MPI.DOUBLE], 0)
    yield told(comm.Dup().Allgather, [part[0], n, MPI.DOUBLE], [np.zeros(2 * size), n, MPI.DOUBLE])
    yield told(comm.Allgather, [part[0], 2, MPI.DOUBLE], [all_x, 1, MPI.DOUBLE])


@check
def blocks_of_different_lengths():
    for unit in (0, 1, 400):
        counts = [unit * (1 + i) for i in range(size)]
        places = [1 + sum(counts[i + 1 :]) for i in range(size)]  # backwards, behind a gap
        mine, total = counts[me], 1 + sum(counts)
        out = np.zeros(total)
        comm.Allgatherv(numbers(mine), [out, counts, places, MPI.DOUBLE])
        yield out
        comm.Allgatherv(MPI.IN_PLACE, [out, counts, places, MPI.DOUBLE])
        yield out
        for root in range(size):
            out = np.zeros(total)
            comm.Gatherv(numbers(mine), [out, counts, places, MPI.DOUBLE] if me == root else None, root)
            yield out
            part = np.zeros(mine)
            comm.Scatterv([out + root, counts, places, MPI.DOUBLE] if me == root else None, part, root)
            yield part
        comm.Gatherv(MPI.IN_PLACE if me == 0 else part, [out, counts, places, MPI.DOUBLE] if me == 0 else None)
        yield out
        out = np.zeros(1 + mine * size)
        gets = [mine] * size, [1 + mine * i for i in range(size)]
        comm.Alltoallv([numbers(total), counts, places, MPI.DOUBLE], [out, *gets, MPI.DOUBLE])
        yield out
    out = np.zeros(3 * size)
    part = [numbers(6), 1, COLUMN] if me == 0 else [numbers(3), 3, MPI.DOUBLE]
    comm.Allgatherv(part, [out, [3] * size, None, MPI.DOUBLE])
    yield out
    yield told(comm.Gatherv, numbers(1), [out, [1] * size, None, MPI.DOUBLE], size)
    yield told(comm.Dup().Allgatherv, numbers(2), [out, [1] * size, None, MPI.DOUBLE])
    yield told(comm.Dup().Gatherv, numbers(2), [out, [1] * size, None, MPI.DOUBLE])
    yield told(comm.Dup().Alltoallv, [numbers(size), [1] * size], [np.zeros(2 * size), [2] * size])


def of(status):
    return status.source, status.tag, status.Get_count(MPI.BYTE), status.Get_count(MPI.DOUBLE), status.Get_error()


@check
def messages():
    status = MPI.Status()
    for n in (0, 1, 5000, 200_000):
        x, out = numbers(n), np.zeros(n + 3)
        comm.Sendrecv(x, right, 3, out, left, 3, status)
        yield out
        yield of(status)
        if me == 0:
            comm.Send(x, right, 4)
            comm.Send(x, right, 5)
        if left == 0:
            comm.Recv(out, MPI.ANY_SOURCE, 5, status)
            yield of(status)
            comm.Recv(out, 0, MPI.ANY_TAG, status)
            yield of(status)
        comm.Barrier()
    comm.Send(x, MPI.PROC_NULL)
    comm.Recv(out, MPI.PROC_NULL, 1, status)
    yield of(status)
    comm.Sendrecv(x[:1], MPI.PROC_NULL, 1, out, MPI.PROC_NULL, 1, status)
    yield of(status)
    comm.Sendrecv([numbers(6), 1, COLUMN], right, 1, [out, 3, MPI.DOUBLE], left, 1, status)
    yield out
    for n in (2, 3, 4, 6):  # not a whole number of elements, too
        out = np.zeros(12)
        comm.Sendrecv(numbers(n), right, 1, [out, 2, COLUMN], left, 1, status)
        yield out
        yield of(status)
        comm.Sendrecv([out, 2, COLUMN], right, 1, numbers(6), left, 1)
        comm.Isend([out, 2, COLUMN], right, 1).Wait()
        comm.Recv([out[1:], 2, COLUMN], left)
        yield out
    wide = MPI.DOUBLE.Create_vector(20_000, 1, 2).Commit()
    comm.Sendrecv([numbers(40_000), 1, wide], right, 1, [out := np.zeros(40_000), 1, wide], left, 1)
    yield out
    wide.Free()
    yield told(comm.Sendrecv, numbers(9), right, 2, out[:2], left, 2)  # cut
    yield told(comm.Sendrecv, numbers(9), right, 2, [out, 2, COLUMN], left, 2)
    yield told(comm.Send, x, size)
    yield told(comm.Send, x, 0, -3)
    yield told(comm.Recv, x, -5)
    yield told(comm.Recv, x, 0, -3)
    yield told(comm.Send, [x, 1, UNCOMMITTED], right)
    comm.Barrier()


@check
def requests():
    status, done = MPI.Status(), [MPI.Status() for _ in range(4)]
    for n in (0, 2, 100_000):
        outs = [np.zeros(n + 1) for _ in range(2)]
        receives = [comm.Irecv(outs[i], left, i) for i in range(2)]
        sends = [comm.Isend(numbers(n) + i, right, i) for i in range(2)]
        MPI.Request.Waitall([*receives, *sends], done)
        yield from outs
        yield from (of(one) for one in done[:2])
        receive = comm.Irecv(outs[0], MPI.ANY_SOURCE, MPI.ANY_TAG)
        comm.Isend(numbers(n) + 7, right, 8).Wait(status)
        yield status.Get_count(MPI.BYTE), status.Is_cancelled()
        while not receive.Test(status):
            pass
        yield outs[0]
        yield of(status)
    first, second, third = (comm.Irecv(one, left, 1) for one in (outs[0][:1], outs[1][:1], outs[0][1:2]))
    for i in range(3):
        comm.Send(numbers(1) + i, right, 1)
    third.Wait()  # not in the order in which they were posted
    second.Wait()
    first.Wait()
    yield outs[0][:2]
    yield outs[1][:1]
    receive = comm.Irecv(outs[0], left, 1)
    comm.Issend(numbers(1), right, 1).Wait()  # the receive is posted
    receive.Wait()
    receives = [comm.Irecv(outs[i], left, i) for i in range(2)]
    comm.Send(numbers(3), right, 0)
    comm.Send(numbers(3), right, 1)
    yield [MPI.Request.Waitany(receives), MPI.Request.Waitany(receives), MPI.Request.Waitany(receives)][2]
    receive = comm.Irecv(outs[0], left, 99)
    receive.Cancel()
    receive.Wait(status)
    yield status.Is_cancelled()
    receive = comm.Irecv(outs[0][:1], left, 1)
    comm.Send(numbers(2), right, 1)
    yield told(receive.Wait)
    comm.Irecv(outs[0], MPI.PROC_NULL).Wait(status)
    yield of(status)
    yield told(comm.Irecv, outs[0], size)
    yield told(comm.Isend, outs[0], size)
    receive = comm.Irecv(outs[0][:1], me, 1)
    comm.Send(numbers(1), me, 1)
    receive.Wait()
    yield outs[0][:1]
    MPI.REQUEST_NULL.Wait(status)
    yield of(status)
    comm.Barrier()


@check
def probes():
    status = MPI.Status()
    for n in (0, 1, 100_000):
        sends = [comm.isend(numbers(n) + i, right, i) for i in range(3)]
        yield comm.recv(source=left, tag=1, status=status)
        yield status.source, status.tag
        message = comm.mprobe(left, 0)
        out = comm.recv(source=left)  # not the one that is taken
        yield out
        yield message.recv()
        MPI.Request.waitall(sends)
    comm.Send(numbers(3), right, 1)
    message = comm.Mprobe(left, 1, status)
    yield of(status)
    yield told(message.Recv, np.zeros(1))
    yield comm.bcast([1, 2]), comm.allreduce(me), comm.gather(me), comm.allgather(me), comm.scatter([*range(size)])
    comm.Barrier()


def in_windows(dtype, n=4):
    """Yield windows of all ranks, of shared and of private memory, with numbers of a rank, and this memory, in an epoch
    of locks."""
    unit = np.dtype(dtype).itemsize
    for is_shared in (True, False):
        memory = np.zeros(n, dtype)
        win = MPI.Win.Allocate(n * unit, unit, comm=comm) if is_shared else MPI.Win.Create(memory, unit, comm=comm)
        win.Set_errhandler(MPI.ERRORS_RETURN)
        memory = np.frombuffer(win.tomemory(), dtype)
        memory[:] = numbers(n, dtype)
        comm.Barrier()
        win.Lock_all()
        yield win, memory
        win.Unlock_all()
        win.Free()


@check
def puts_and_gets():
    for n in (4, 200_000):
        for win, memory in in_windows("f8", n):
            out = np.zeros(n)
            win.Get(out, right)
            yield out
            comm.Barrier()
            win.Put(numbers(n - 1) + 7, right, 1)
            comm.Barrier()
            yield memory
            win.Get(out[1:], right, 1)
            yield out
            yield told(win.Put, out, right, 1), told(win.Get, out[:1], right, n), told(win.Get, out[:1], right, -1)


@check
def accumulates():
    for dtype, op in (
        ("f8", MPI.SUM), ("i4", MPI.MAX), ("c16", MPI.PROD), ("u1", MPI.BAND), ("f4", MPI.MIN), ("?", MPI.LXOR),
        ("i8", MPI.REPLACE), ("i8", MPI.NO_OP),
    ):  # fmt: skip
        for win, memory in in_windows(dtype):
            before = np.zeros(4, dtype)
            for _ in range(2):  # the first one loads the kernel
                win.Accumulate(numbers(2, dtype), right, 1, op)
                win.Get_accumulate(numbers(2, dtype), before[:2], right, 1, op)
                win.Fetch_and_op(numbers(1, dtype), before[2:3], right, 3, op)
                comm.Barrier()
                yield before
                yield memory
                comm.Barrier()
            yield told(win.Accumulate, numbers(2, dtype), right, 3, op)  # behind the end
            yield told(win.Accumulate, numbers(2, dtype), size, 0, op)
            yield told(win.Accumulate, numbers(2, dtype), MPI.PROC_NULL, 0, op)
            yield told(win.Accumulate, [numbers(2, dtype), MPI.BYTE], right, (0, 1), op)
    for win, memory in in_windows("f8"):
        yield told(win.Accumulate, numbers(), right, 0, MPI.BAND)
        yield told(win.Accumulate, numbers(), right, 0, LARGER)
        yield told(win.Accumulate, [numbers(), 1, UNCOMMITTED], right, (0, 1, UNCOMMITTED))
        win.Accumulate([numbers(), 2, PAIR], right, (0, 2, PAIR))
        comm.Barrier()
        yield memory
        comm.Barrier()
        win.Accumulate([numbers(6), 1, COLUMN], right, (0, 3, MPI.DOUBLE))  # not one run
        win.Get_accumulate(numbers(3), [before := np.zeros(6), 1, COLUMN], right, 0)
        comm.Barrier()
        yield memory
        yield before
        comm.Barrier()
        win.Accumulate([memory, 2, MPI.DOUBLE], me, (0, 2, MPI.DOUBLE))  # from the same memory
        yield memory
        before[:] = 0  # a result that its datatype places, and no address
        placed = MPI.DOUBLE.Create_hindexed([3], [MPI.Get_address(before)]).Commit()
        win.Get_accumulate(numbers(3), [MPI.BOTTOM, 1, placed], me, 0)
        placed.Free()
        yield before
        yield memory
    for win, memory in in_windows("f8", 200_000):  # longer than native code keeps the GIL for
        win.Accumulate(numbers(200_000), right)
        comm.Barrier()
        yield memory
    for dtype in ("i8", "i4", "i2"):
        for win, memory in in_windows(dtype):
            before = np.zeros(4, dtype)
            for wanted in (left, right):
                new, compared = np.array([[9], [wanted]], dtype)
                win.Compare_and_swap(new, compared, before[:1], right, 0)
                comm.Barrier()
                yield before
                yield memory
                comm.Barrier()
            yield told(win.Compare_and_swap, new, compared, before[:1], right, 4)


@check
def additions_of_all_ranks():
    """None is lost, whoever makes them."""
    for win, memory in in_windows("i8"):
        one, before, seen = (np.full(1, n, np.int64) for n in (1, 0, 3))
        for i in range(300):
            win.Accumulate(one, 0, 3)
            win.Fetch_and_op(one, before, 0, 3)
            while i % 10 == 0:
                win.Compare_and_swap(seen + 1, seen, before, 0, 3)
                if before == seen:
                    break
                seen[:] = before
        comm.Barrier()
        yield me != 0 or int(memory[3]) == 3 + 630 * size


@check
def handles():
    other = comm.Dup()
    yield other.Get_rank() == me, other.Get_size() == size, other.Is_inter()
    kept = MPI._handleof(other)
    key = MPI.Comm.Create_keyval()
    yield other.Get_attr(key)
    other.Set_attr(key, 1)
    yield other.Get_attr(key), other.Get_attr(key)
    other.Set_attr(key, 2)
    yield other.Get_attr(key)
    other.Delete_attr(key)
    yield other.Get_attr(key)
    other.Free()
    yield told(MPI.Comm.fromhandle, kept)
    yield told(MPI.COMM_NULL.Get_rank), told(MPI.COMM_NULL.Barrier)
    yield PAIR.Get_size(), PAIR.Get_extent(), COLUMN.Get_size(), COLUMN.Get_extent()
    other = MPI.DOUBLE.Create_contiguous(3).Commit()
    out = np.zeros(3)
    comm.Bcast([out, 1, other])
    other.Free()
    yield told(MPI.DATATYPE_NULL.Get_size)


def modes():
    yield True
    yield False
    yield me % 2 == 0
    yield me % 2 == 1


def same(a, b):
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
    return a == b


def nothing_needs_python():
    """The calls that must be native."""
    x, all_x, out, status = numbers(1), np.zeros(size), np.zeros(1), MPI.Status()
    whole, old = np.ones(1, np.int64), np.zeros(1, np.int64)
    are_native(
        lambda: comm.Barrier(),
        lambda: comm.Bcast(x),
        lambda: comm.Allreduce(x, out),
        lambda: comm.Reduce(x, out if me == 0 else None),
        lambda: comm.Allgather(x, all_x),
        lambda: comm.Alltoall(all_x, all_x.copy()),
        lambda: comm.Gather(x, all_x if me == 0 else None),
        lambda: comm.Scatter(all_x if me == 0 else None, out),
        lambda: comm.Allgatherv(x, [all_x, [1] * size]),
        lambda: comm.Gatherv(x, [all_x, [1] * size] if me == 0 else None),
        lambda: comm.Scatterv([all_x, [1] * size] if me == 0 else None, out),
        lambda: comm.Alltoallv([all_x, [1] * size], [all_x.copy(), [1] * size]),
        lambda: comm.Sendrecv(x, right, 0, out, left, 0, status),
        lambda: (comm.Send(x, right), comm.Recv(out, MPI.ANY_SOURCE, MPI.ANY_TAG, status)),
        lambda: (comm.Isend(x, right).Wait(status), comm.Irecv(out, left).Wait(status)),
        lambda: (comm.send(me, right), comm.recv(source=left)),
        lambda: comm.bcast(1),
        lambda: comm.allreduce(1),
        lambda: (status.Get_count(MPI.DOUBLE), comm.Get_rank(), comm.Get_size(), MPI.DOUBLE.Get_size()),
    )
    for win, _ in in_windows("f8"):
        are_native(
            partial(win.Accumulate, x, right),
            partial(win.Get_accumulate, x, out, right),
            partial(win.Fetch_and_op, x, out, right, 0, MPI.REPLACE),
            partial(win.Compare_and_swap, whole, whole, old, right),
            partial(win.Put, x, right),
            partial(win.Get, out, right),
            partial(win.Flush, right),
        )


def are_native(*calls):
    for call in calls:
        call()
        call()
    in_python = []

    def note(i, frame, event, _argument):
        if event == "call" and frame.f_code.co_qualname == "callback.<locals>.called":
            in_python.append(i)

    for i, call in enumerate(calls):
        comm.Barrier()
        sys.setprofile(partial(note, i))
        call()
        sys.setprofile(None)
    assert not in_python, in_python


for function in CHECKS:
    expected = None
    for is_native in modes():
        shmcoll.mpi.use_native(is_native)
        found = [one.copy() if isinstance(one, np.ndarray) else one for one in function()]
        expected = expected or found
        different = [i for i, (a, b) in enumerate(zip(expected, found, strict=True)) if not same(a, b)]
        assert not different, (function.__name__, is_native, different[0], expected[different[0]], found[different[0]])
shmcoll.mpi.use_native(True)
nothing_needs_python()
print("all right")
