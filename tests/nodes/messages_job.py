"""What each rank of a job over nodes runs to try messages within a node and between nodes, side by side. It asserts."""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import shmcoll
from shmcoll import ANY, Recv, RecvObject, Send, SendObject

LONG = 1 << 20  # elements


def near_and_far(comm: Any) -> tuple[int, int]:
    """Return the other rank of this node, and the rank of the other node that is not its partner's."""
    mine = next(ranks for ranks in comm.nodes if comm.rank in ranks)
    other = next(ranks for ranks in comm.nodes if comm.rank not in ranks)
    return next(rank for rank in mine if rank != comm.rank), other[mine.index(comm.rank)]


def raised(call: Callable[[], Any]) -> BaseException:
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def tags_choose(comm: Any) -> None:
    """Of one rank, the first message that fits; others stay, in their order."""
    for peer in near_and_far(comm):
        for tag in (5, 6, 5, 7):
            comm.send(np.array([comm.rank, tag]), peer, tag)
    for peer in near_and_far(comm):
        assert comm.recv(source=peer, tag=6)[0].tolist() == [peer, 6]
        out = np.zeros(2, np.int64)
        assert comm.recv(out, peer, 5) == (out, peer, 5)
        found = [comm.recv(source=peer) for _ in range(2)]
        assert [(one[1], one[2], one[0].tolist()) for one in found] == [(peer, tag, [peer, tag]) for tag in (5, 7)]


def any_takes_both_ways(comm: Any) -> None:
    """Each rank sends to all, itself included; per source the order is kept, blocking and posted."""
    count = 30
    for posted in (False, True):
        works = [comm.recv(async_op=True) for _ in range(count * comm.size)] if posted else []
        for i in range(count):
            for peer in range(comm.size):
                comm.send(np.full(i % 3 * 2000, comm.rank * 1000 + i), peer, i)
        tags: dict[int, list[int]] = {rank: [] for rank in range(comm.size)}
        for i in range(count * comm.size):
            array, source, tag = works[i].wait() if posted else comm.recv()
            assert array.size == tag % 3 * 2000 and (array == source * 1000 + tag).all()
            tags[source].append(tag)
        assert tags == {rank: list(range(count)) for rank in range(comm.size)}
        assert comm.iprobe() is None
        comm.barrier()


def posted_in_order(comm: Any) -> None:
    """A message goes to the first posted receive that it fits, from whichever side it comes."""
    near, far = near_and_far(comm)
    any_first = comm.recv(source=ANY, tag=1, async_op=True)
    by_near = comm.recv(source=near, tag=1, async_op=True)
    by_far = comm.recv(source=far, tag=1, async_op=True)
    any_last = comm.recv_object(source=ANY, tag=1, async_op=True)
    comm.barrier()
    comm.send(np.array([1]), near, 1)  # to its first receive, before any other message is sent
    assert any_first.wait()[1] == near
    comm.barrier()
    comm.send(np.array([2]), near, 1)
    comm.send(np.array([3]), far, 1)
    assert by_near.wait()[0].tolist() == [2]
    assert by_far.wait()[0].tolist() == [3]
    comm.send_object({"from": comm.rank}, far, 1)
    assert any_last.wait() == ({"from": far}, far, 1)


def withdrawn(comm: Any) -> None:
    """A receive that was cancelled takes no message, and ends no group when its time is over."""
    near, far = near_and_far(comm)
    other = comm.recv(source=far, tag=99, async_op=True)  # it keeps the worker awake
    seconds, comm.timeout = comm.timeout, 1.0
    works = [comm.recv(source=source, tag=8, async_op=True) for source in (ANY, near, far)]
    assert all(work.cancel() for work in works)
    assert all(isinstance(raised(work.wait), shmcoll.Cancelled) for work in works)
    for _ in range(6):
        time.sleep(0.25)
        comm.send(np.ones(1), near, 8)
        comm.send(np.ones(1), far, 8)
    comm.timeout = seconds
    assert sorted(comm.recv(tag=8)[1] for _ in range(12)) == sorted(6 * [near] + 6 * [far])
    comm.send(np.ones(1), far, 99)
    other.wait()


def synchronous(comm: Any) -> None:
    """Such a send returns when the message is taken, also by a receive from ANY."""
    near, far = near_and_far(comm)
    for peer, tag in ((near, 10), (far, 20)):
        if comm.rank < peer:
            work = comm.send(np.ones(3), peer, tag, synchronous=True, async_op=True)
            time.sleep(0.05)
            assert not work.done()
            comm.send(np.ones(1), peer, tag + 1)
            work.wait()
            comm.send_object("x", peer, tag, synchronous=True)
        else:
            comm.recv(tag=tag + 1)
            assert comm.recv(tag=tag)[1] == peer
            assert comm.recv_object(tag=tag) == ("x", peer, tag)
    error = raised(lambda: comm.send(np.ones(1), comm.rank, synchronous=True))
    assert isinstance(error, ValueError) and "cannot receive its own message" in str(error), error


def to_itself(comm: Any) -> None:
    comm.send(np.arange(3), comm.rank, 2)
    assert comm.recv(source=comm.rank)[0].tolist() == [0, 1, 2]
    error = raised(lambda: comm.recv(source=comm.rank))
    assert isinstance(error, ValueError) and f"rank {comm.rank}" in str(error), error


def objects_and_long_arrays(comm: Any) -> None:
    near, far = near_and_far(comm)
    x = np.arange(LONG) + comm.rank
    for peer in (near, far):
        comm.send_object({"x": x, "from": comm.rank}, peer, 1)
    for _ in range(2):
        found, source, _ = comm.recv_object(tag=1)
        assert found["from"] == source and (found["x"] == np.arange(LONG) + source).all()
    works = [comm.recv(tag=2, async_op=True) for _ in range(2)]
    for peer in (near, far):
        comm.send(x, peer, 2)
    for work in works:
        array, source, _ = work.wait()
        assert (array == np.arange(LONG) + source).all()
    for source in (near, ANY):
        array, found, _ = comm.sendrecv(x, near, source=source, sendtag=3, recvtag=3)
        assert found == near and (array == np.arange(LONG) + near).all()
    assert comm.sendrecv_object([comm.rank], near, near) == ([near], near, 0)
    work = comm.sendrecv(x, near, source=far, sendtag=4, recvtag=5, async_op=True)
    comm.sendrecv(x, far, source=near, sendtag=5, recvtag=4)
    assert (work.wait()[0] == np.arange(LONG) + far).all()
    array = x.copy()
    assert (comm.sendrecv(array, near, array, ANY, 6, 6)[0] == np.arange(LONG) + near).all()


def probes(comm: Any) -> None:
    near, far = near_and_far(comm)
    for peer in (near, far):
        comm.send(np.zeros((2, 3)), peer, peer)
        assert comm.probe(peer).shape == (2, 3) and comm.probe(peer).source == peer
        assert comm.iprobe(peer, 77) is None
    found = {comm.probe().source}
    for _ in range(2):
        message = comm.mprobe(ANY, comm.rank)
        found.add(message.envelope.source)
        assert message.recv().shape == (2, 3)
    assert found == {near, far} and comm.improbe() is None


def batches(comm: Any) -> None:
    near, far = near_and_far(comm)
    messages = [Recv(None, ANY, 1), Recv(None, near, 2), RecvObject(far, 3), Send(np.arange(4), near, 1)]
    messages += [Send(np.arange(5), near, 2), SendObject("o", far, 3)]
    received = [work.wait() for work in comm.batch(messages)]
    assert received[0][1] == near and received[0][0].size == 4 and received[1][0].size == 5
    assert received[2] == ("o", far, 3)


def mistakes(comm: Any) -> None:
    """A message that does not fit stays; its receive fails, and names ranks of this group."""
    near, far = near_and_far(comm)
    for peer in (near, far):
        comm.send(np.ones(4), peer, 1)
        error = raised(lambda peer=peer: comm.recv(np.ones(2), peer, 1))
        assert isinstance(error, ValueError) and f"rank {peer} " in str(error), error
        error = raised(lambda peer=peer: comm.recv_object(peer, 1))
        assert isinstance(error, TypeError) and f"rank {peer} " in str(error), error
        assert comm.recv(np.ones((4, 2))[:, 0], peer, 1)[0].tolist() == [1] * 4
    for dest in (-1, comm.size, 1.5, "1"):
        assert isinstance(raised(lambda dest=dest: comm.send(np.ones(1), dest)), (ValueError, TypeError))
    comm.send(np.ones(1), np.int64(near), 1)
    assert comm.recv(source=np.int64(near))[1] == near
    assert comm.recv(source=None)[1:] == (None, None)
    comm.send(np.ones(1), None)


def groups(comm: Any) -> None:
    """Messages of two groups do not meet, and a group can be closed with messages that nobody has received."""
    near, far = near_and_far(comm)
    with comm.dup() as own, comm.split(0, -comm.rank) as turned:
        own.send(np.array([1]), near)
        turned.send(np.array([2]), comm.size - 1 - near)
        comm.send(np.array([3]), near)
        assert turned.recv()[0].tolist() == [2]
        assert comm.recv()[0].tolist() == [3]
        assert own.recv(source=near)[0].tolist() == [1]
        own.send(np.ones(1000), near)
        own.send(np.ones(10), far)  # MPI keeps a short one
        own.barrier()


def run(cases: Sequence[Callable[[Any], None]]) -> None:
    """Run cases one after the other, and write that they have passed."""
    comm = shmcoll.init()
    for case in cases:
        comm.barrier()
        case(comm)
        assert comm.iprobe() is None, case.__name__
    (Path(sys.argv[1]) / f"rank{comm.rank}.json").write_text('"ok"')


CASES: tuple[Callable[[Any], None], ...] = (
    tags_choose,
    any_takes_both_ways,
    posted_in_order,
    withdrawn,
    synchronous,
    to_itself,
    objects_and_long_arrays,
    probes,
    batches,
    mistakes,
    groups,
)

if __name__ == "__main__":
    run(CASES)
