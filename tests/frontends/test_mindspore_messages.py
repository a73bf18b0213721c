"""Messages of MindSpore's functional APIs whose length is not that of the tensor they are received into."""

import numpy as np

import shmcoll
from shmcoll.mindspore import Tensor, communication
from shmcoll.mindspore.communication import comm_func
from shmcoll.mindspore.mint import distributed as d

SHORT, FILLED = [1.0, 2.0], [[1.0, 2.0], [7.0, 7.0]]


def room() -> Tensor:
    return Tensor(np.full((2, 2), 7.0))


def irecv(tensor: Tensor) -> Tensor:
    d.irecv(tensor, 1).wait()
    return tensor


def recv(tensor: Tensor) -> Tensor:
    assert d.recv(tensor, 1) == 0
    return tensor


def batched(tensor: Tensor) -> Tensor:
    d.batch_isend_irecv([d.P2POp("irecv", tensor, 1)])[0].wait()
    return tensor


def returned_later(tensor: Tensor) -> Tensor:
    found, handle = comm_func.irecv(tensor, 1)
    handle.wait()
    assert tensor.tolist() == room().tolist()
    return found


def returned(tensor: Tensor) -> Tensor:
    found = comm_func.recv(tensor, 1)
    assert tensor.tolist() == room().tolist()
    return found


def returned_batch(tensor: Tensor) -> Tensor:
    return comm_func.batch_isend_irecv([comm_func.P2POp("irecv", tensor, 1)])[0]


RECEIVES = (irecv, recv, batched, returned_later, returned, returned_batch)


def test_a_short_message_fills_the_first_elements(ranks):
    """As on MindSpore's CPU target. The others stay as they are, so that nothing depends on what memory contained."""

    def run(comm) -> list:
        communication.init()
        if comm.rank:
            for _ in RECEIVES:
                d.send(Tensor(np.array(SHORT)), 0)
            return []
        return [receive(room()).tolist() for receive in RECEIVES]

    assert ranks(2, run) == [[FILLED] * len(RECEIVES), []]


def test_a_long_message_is_refused_and_can_be_received_again(ranks, told):
    def run(comm) -> list:
        communication.init()
        if comm.rank:
            d.send(Tensor(np.arange(5.0)), 0)
            return []
        large = Tensor(np.zeros(5))
        refused = [told(lambda receive=receive: receive(room())) for receive in RECEIVES]
        d.recv(large, 1)
        return [{text.partition(" on rank")[0] for text in refused}, large.tolist()]

    kinds, large = ranks(2, run)[0]
    assert all(kind.startswith("ValueError: recv") for kind in kinds), kinds
    assert large == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_message_is_what_its_arguments_are_when_it_begins(ranks, told):
    """As in MindSpore: a `P2POp` is an object whose attributes may be changed."""

    def run(comm) -> list:
        d.init_process_group()
        other, x, y = 1 - comm.rank, Tensor([comm.rank + 1.0]), Tensor([0.0])
        found = []
        for api in (d, comm_func):
            first, second = api.P2POp("irecv", x, other), api.P2POp(api.isend, y, other)
            first.op, second.op = api.isend, "irecv"
            result = api.batch_isend_irecv([first, second])
            if api is d:
                result[0].wait()
            found.append((y if api is d else result[1]).tolist())
            first.op = "send"
            found.append(told(lambda api=api, first=first: api.batch_isend_irecv([first])))
            first.op = 5
            found.append(told(lambda api=api, first=first: api.batch_isend_irecv([first])))
        return found

    refused = ["TypeError: p2p_op.op must be isend or irecv"] * 2
    assert ranks(2, run) == [[[theirs], *refused] * 2 for theirs in (2.0, 1.0)]


def test_handles_show_what_they_wait_for(ranks):
    """`handle` and `exec_sync`, as MindSpore's handles do; a handle may be made around another one."""

    def run(comm) -> list:
        d.init_process_group()
        x, y = Tensor([comm.rank + 1.0]), Tensor([0.0])
        handle = d.all_reduce(x, async_op=True)
        around = d.CommHandle(handle, exec_sync=True)
        found = [isinstance(handle.handle, shmcoll.Work), handle.exec_sync, around.exec_sync, around.handle is handle]
        found += [around.wait(), d.CommHandle(exec_sync=True).wait()]
        after, before = (comm.rank + 1) % 2, (comm.rank - 1) % 2
        batch = d.batch_isend_irecv([d.P2POp("irecv", y, before), d.P2POp("isend", x, after)])[0]
        return [*found, batch.handle.wait(), batch.wait(), y.tolist(), x.tolist()]

    assert ranks(2, run) == [[True, False, True, True, *[None] * 4, [3.0], [3.0]]] * 2
