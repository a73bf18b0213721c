"""The operations of `shmcoll.mindspore`: `ops`, `mint.distributed`, `communication.comm_func` and `ops.communication`.

Arrays of the native calls have short names, and the tensors of the door the same names in capitals. Functions that
write in place are compared by the tensors that they have written. Rooted operations are compared on their root, rank 0.
Messages go from each rank to itself; `mint.distributed.send` and `isend` refuse that, so they need two ranks.

A row of the tables below is the name, the native call, the call of the door, what they write (see `Call`), and how many
calls of the door they are.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

import shmcoll
from shmbench.doors import Call
from shmcoll.mindspore import Tensor, communication, float32, ops
from shmcoll.mindspore.communication import comm_func
from shmcoll.mindspore.mint import distributed
from shmcoll.mindspore.ops import communication as ops_communication

mint: Any = distributed  # many of its functions return nothing
Rows = list[tuple[Any, ...]]

NOT_COMPARED: tuple[list[Any], list[Any]] = [], []


def calls(comm: Any) -> Iterator[Call]:
    communication.init()
    here = _Arrays(comm)
    for room, rows in (
        ("ops.", _operators(comm, here)),
        ("mint.distributed.", [*_in_place(comm, here), *_lists(comm, here), *_messages_and_objects(comm, here)]),
        ("comm_func.", _returning(comm, here)),
    ):
        for name, *row in rows:
            yield Call(room + name, *row)
    yield Call(
        "ops.communication.all_gather_into_tensor",
        lambda: comm.all_gather(here.x, out=here.whole),
        lambda: ops_communication.all_gather_into_tensor(here.WHOLE, here.X),
        here.all,
    )


class _Arrays:
    """Arrays and tensors: x of 8 bytes, blocks of n times 8 bytes, and pairs of outputs (native, door)."""

    def __init__(self, comm: Any):
        n = comm.size
        self.x, self.blocks = (np.arange(k, dtype=np.float32) + comm.rank for k in (2, 2 * n))
        self.X, self.BLOCKS = Tensor(self.x), Tensor(self.blocks)
        self.parts = np.split(self.blocks.copy(), n)
        self.PARTS = [Tensor(one) for one in self.parts]
        self.twos, self.matrix = [2] * n, [2] * n * n
        self.out, self.whole, self.outs = np.empty_like(self.x), np.empty_like(self.blocks), [*np.empty((n, 2), "f")]
        self.OUT, self.WHOLE, self.OUTS = Tensor(self.out), Tensor(self.whole), [Tensor(one) for one in self.outs]
        self.one, self.all, self.every = (self.out, self.OUT), (self.whole, self.WHOLE), (self.outs, self.OUTS)
        self.on_root = None if comm.rank == 0 else NOT_COMPARED  # of calls that return their results

    def only_on_root(self, outputs: tuple[Any, Any]) -> tuple[Any, Any]:
        return outputs if self.on_root is None else NOT_COMPARED


def _operators(comm: Any, a: _Arrays) -> Rows:
    """`mindspore.ops`."""
    n, me, x, X, blocks, BLOCKS, twos = comm.size, comm.rank, a.x, a.X, a.blocks, a.BLOCKS, a.twos
    all_reduce, all_to_all, reduce = ops.AllReduce(), ops.AlltoAll(n, 0, 0), ops.Reduce(0)
    reduce_scatter, reduce_scatter_v = ops.ReduceScatter(), ops.ReduceScatterV()
    all_gather, all_gather_v, broadcast = ops.AllGather(), ops.AllGatherV(), ops.Broadcast(0)
    scatter, gather, barrier = ops.CollectiveScatter(0), ops.CollectiveGather(0), ops.Barrier()
    all_to_all_v, all_to_all_v_c = ops.AlltoAllV(), ops.AlltoAllVC()
    send, receive = ops.Send(1, me), ops.Receive(1, me, [2], float32)
    batch = ops.BatchISendIRecv(["irecv", "isend"], [me, me], [[2]], [float32])
    exchange = ops.NeighborExchange([me], [me], ([2],), ([2],), float32)
    image = np.ones((1, 1, 1, 2), np.float32)
    IMAGE, nowhere = Tensor(image), [-1] * 8
    halos = ops.NeighborExchangeV2(nowhere, [0] * 4, nowhere, [0] * 4, "NCHW")
    empty, to_me = np.empty(0, np.float32), np.array([2 * (rank == me) for rank in range(n)])

    def to_all() -> Any:
        return comm.all_to_all_v(blocks, twos, recv_counts=twos)[0]

    return [
        ("AllReduce", lambda: comm.all_reduce(x), lambda: all_reduce(X)),
        ("Reduce", lambda: comm.reduce(x, 0), lambda: reduce(X), a.on_root),
        ("ReduceScatter", lambda: comm.reduce_scatter(blocks), lambda: reduce_scatter(BLOCKS)),
        ("ReduceScatterV", lambda: comm.reduce_scatter_v(blocks, twos), lambda: reduce_scatter_v(BLOCKS, twos)),
        ("AllGather", lambda: comm.all_gather(x), lambda: all_gather(X)),
        ("AllGatherV", lambda: comm.all_gather_v(x, recv_counts=twos)[0], lambda: all_gather_v(X, twos)),
        ("Broadcast", lambda: [comm.broadcast(x.copy(), 0)], lambda: broadcast((X,))),
        ("CollectiveScatter", lambda: comm.scatter(blocks, 0), lambda: scatter(BLOCKS)),
        ("CollectiveGather", lambda: comm.gather(x, 0), lambda: gather(X), a.on_root),
        ("AlltoAll", lambda: comm.all_to_all(blocks), lambda: all_to_all(BLOCKS)),
        ("AlltoAllV", to_all, lambda: all_to_all_v(BLOCKS, twos, twos)),
        ("AlltoAllVC", to_all, lambda: all_to_all_v_c(BLOCKS, a.matrix)),
        ("NeighborExchange", lambda: [comm.all_to_all_v(x, to_me, recv_counts=to_me)[0]], lambda: exchange((X,))),
        ("NeighborExchangeV2", lambda: (comm.all_to_all_v(empty, 0 * to_me, recv_counts=0 * to_me), image.copy())[1],
         lambda: halos(IMAGE)),
        ("Barrier", comm.barrier, barrier, NOT_COMPARED),
        ("Send and Receive", lambda: (comm.send(x, me, 1), comm.recv(np.empty_like(x), me, 1)[0])[1],
         lambda: (send(X), receive())[1], None, 2),
        ("BatchISendIRecv", lambda: _both(comm.batch([shmcoll.Recv(a.out, me), shmcoll.Send(x, me)])),
         lambda: batch((X,))[0]),
    ]  # fmt: skip


def _in_place(comm: Any, a: _Arrays) -> Rows:
    """`mindspore.mint.distributed`: one tensor of each rank."""
    x, X, blocks, BLOCKS, out, OUT, whole, WHOLE = a.x, a.X, a.blocks, a.BLOCKS, a.out, a.OUT, a.whole, a.WHOLE
    mine, MINE, twos = x.copy(), Tensor(x), a.twos  # written in place; by the maximum they stay small
    in_root = mine if comm.rank == 0 else None

    return [
        ("all_reduce", lambda: comm.all_reduce(mine, "max", out=mine), lambda: (mint.all_reduce(MINE, "max"), MINE)[1]),
        ("all_reduce, async_op", lambda: comm.all_reduce(mine, "max", out=mine, async_op=True).wait(),
         lambda: (mint.all_reduce(MINE, "max", async_op=True).wait(), MINE)[1]),
        ("reduce", lambda: comm.reduce(mine, 0, "max", out=in_root), lambda: (mint.reduce(MINE, 0, "max"), MINE)[1],
         a.on_root),
        ("broadcast", lambda: comm.broadcast(mine, 0), lambda: (mint.broadcast(MINE, 0), MINE)[1]),
        ("barrier", comm.barrier, mint.barrier, NOT_COMPARED),
        ("all_gather_into_tensor", lambda: comm.all_gather(x, out=whole),
         lambda: mint.all_gather_into_tensor(WHOLE, X), a.all),
        ("all_gather_into_tensor_uneven", lambda: comm.all_gather_v(x, recv_counts=twos, out=whole, axis=0),
         lambda: mint.all_gather_into_tensor_uneven(WHOLE, X, twos), a.all),
        ("reduce_scatter_tensor", lambda: comm.reduce_scatter(blocks, out=out),
         lambda: mint.reduce_scatter_tensor(OUT, BLOCKS), a.one),
        ("reduce_scatter_tensor_uneven", lambda: comm.reduce_scatter_v(blocks, twos, out=out, axis=0),
         lambda: mint.reduce_scatter_tensor_uneven(OUT, BLOCKS, twos), a.one),
        ("distributed.gather_into_tensor", lambda: comm.gather(x, 0, out=whole),
         lambda: mint.distributed.gather_into_tensor(WHOLE, X), a.only_on_root(a.all)),
        ("distributed.scatter_tensor", lambda: comm.scatter(blocks, 0, out=out),
         lambda: mint.distributed.scatter_tensor(OUT, BLOCKS), a.one),
        ("all_to_all_single", lambda: comm.all_to_all(blocks, out=whole),
         lambda: mint.all_to_all_single(WHOLE, BLOCKS), a.all),
        ("all_to_all_single, with sizes", lambda: comm.all_to_all_v(blocks, twos, recv_counts=twos, out=whole),
         lambda: mint.all_to_all_single(WHOLE, BLOCKS, twos, twos), a.all),
    ]  # fmt: skip


def _lists(comm: Any, a: _Arrays) -> Rows:
    """`mindspore.mint.distributed`: lists of tensors. Where the communicator takes no list, a user joins and cuts."""
    x, X, parts, PARTS = a.x, a.X, a.parts, a.PARTS

    def all_to_all() -> None:
        whole, _ = comm.all_to_all_v(np.concatenate(parts), a.twos, recv_counts=a.twos)
        for i, out in enumerate(a.outs):
            out[...] = whole[2 * i : 2 * i + 2]

    return [
        ("all_gather", lambda: comm.all_gather(x, out=a.outs), lambda: mint.all_gather(a.OUTS, X), a.every),
        ("reduce_scatter", lambda: comm.reduce_scatter_v(np.concatenate(parts), a.twos, out=a.out),
         lambda: mint.reduce_scatter(a.OUT, PARTS), a.one),
        ("gather", lambda: comm.gather(x, out=a.outs), lambda: mint.gather(X, a.OUTS), a.only_on_root(a.every)),
        ("scatter", lambda: comm.scatter(parts, out=a.out), lambda: mint.scatter(a.OUT, PARTS), a.one),
        ("all_to_all", all_to_all, lambda: mint.all_to_all(a.OUTS, PARTS), a.every),
    ]  # fmt: skip


def _messages_and_objects(comm: Any, a: _Arrays) -> Rows:
    """`mindspore.mint.distributed`: messages, and objects."""
    me, x, X, out, OUT = comm.rank, a.x, a.X, a.out, a.OUT
    after, before = (me + 1) % comm.size, (me - 1) % comm.size
    objects: list[Any] = [None] * comm.size

    to_others: Rows = [
        ("send and recv", lambda: (comm.send(x, after), comm.recv(out, before)),
         lambda: (mint.send(X, after), mint.recv(OUT, before)), a.one, 2),
        ("isend", lambda: (comm.send(x, after, async_op=True).wait(), comm.recv(out, before)),
         lambda: (mint.isend(X, after).wait(), comm.recv(a.OUT.asnumpy(), before)), a.one),
        ("send_object_list and recv_object_list",
         lambda: (comm.send_object([me], after), comm.recv_object(before))[1][0],
         lambda: (mint.send_object_list([me], after), mint.recv_object_list(objects[:1], before), [before])[2],
         None, 2),
    ]  # fmt: skip
    return [
        *(to_others if comm.size > 1 else []),
        ("recv", lambda: (comm.send(x, me), comm.recv(out, me)), lambda: (comm.send(x, me), mint.recv(OUT, me)), a.one),
        ("irecv", lambda: (comm.send(x, me), comm.recv(out, me, async_op=True).wait()),
         lambda: (comm.send(x, me), mint.irecv(OUT, me).wait()), a.one),
        ("batch_isend_irecv",
         lambda: [work.wait() for work in comm.batch([shmcoll.Recv(out, me), shmcoll.Send(x, me)])],
         lambda: mint.batch_isend_irecv([mint.P2POp("irecv", OUT, me), mint.P2POp("isend", X, me)])[0].wait(),
         a.one, 3),
        ("all_gather_object", lambda: comm.all_gather_object(me),
         lambda: (mint.all_gather_object(objects, me), objects)[1]),
        ("gather_object", lambda: comm.gather_object(me, 0), lambda: (mint.gather_object(me, objects), objects)[1],
         a.on_root),
        ("broadcast_object_list", lambda: comm.broadcast_object(objects, 0),
         lambda: (mint.broadcast_object_list(objects), objects)[1]),
        ("scatter_object_list", lambda: comm.scatter_object(objects if me == 0 else None, 0),
         lambda: (mint.scatter_object_list([None], objects), objects[me])[1], NOT_COMPARED),
    ]  # fmt: skip


def _returning(comm: Any, a: _Arrays) -> Rows:
    """`mindspore.communication.comm_func`."""
    f, x, X, blocks, BLOCKS, twos, me = comm_func, a.x, a.X, a.blocks, a.BLOCKS, a.twos, comm.rank

    return [
        ("all_reduce", lambda: comm.all_reduce(x), lambda: f.all_reduce(X)[0]),
        ("reduce", lambda: comm.reduce(x, 0), lambda: f.reduce(X, 0), a.on_root),
        ("broadcast", lambda: comm.broadcast(x.copy(), 0), lambda: f.broadcast(X)),
        ("barrier", comm.barrier, f.barrier, NOT_COMPARED),
        ("all_gather_into_tensor", lambda: comm.all_gather(x), lambda: f.all_gather_into_tensor(X)[0]),
        ("reduce_scatter_tensor", lambda: comm.reduce_scatter(blocks), lambda: f.reduce_scatter_tensor(BLOCKS)[0]),
        ("gather_into_tensor", lambda: comm.gather(x, 0), lambda: f.gather_into_tensor(X), a.on_root),
        ("scatter_tensor", lambda: comm.scatter(blocks, 0), lambda: f.scatter_tensor(BLOCKS)),
        ("all_to_all_single_with_output_shape", lambda: comm.all_to_all(blocks),
         lambda: f.all_to_all_single_with_output_shape(BLOCKS, BLOCKS)[0]),
        ("all_to_all_with_output_shape",
         lambda: np.split(comm.all_to_all_v(np.concatenate(a.parts), twos, recv_counts=twos)[0], comm.size),
         lambda: f.all_to_all_with_output_shape(a.PARTS, a.PARTS)[0]),
        ("all_to_all_v_c", lambda: comm.all_to_all_v(blocks, twos, recv_counts=twos, out=a.whole),
         lambda: f.all_to_all_v_c(a.WHOLE, BLOCKS, a.matrix), a.all),
        ("recv", lambda: (comm.send(x, me), comm.recv(np.empty_like(x), me)[0])[1],
         lambda: (comm.send(x, me), f.recv(X, me))[1]),
        ("batch_isend_irecv", lambda: _both(comm.batch([shmcoll.Recv(a.out, me), shmcoll.Send(x, me)])),
         lambda: f.batch_isend_irecv([f.P2POp("irecv", X, me), f.P2POp("isend", X, me)])[0], None, 3),
    ]  # fmt: skip


def _both(works: list[Any]) -> Any:
    """Wait for two messages. Return the array of the first, which is received."""
    received, _ = [work.wait() for work in works]
    return received[0]
