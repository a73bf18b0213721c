"""What each rank of a job over nodes runs to try groups, messages, asynchronous calls and plans. It asserts."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

import shmcoll


def groups(comm: Any) -> None:
    index = comm.node.rank
    other = comm.split(index, -comm.rank)  # of ranks on different nodes, in descending order
    assert other.ranks == [rank for rank in reversed(range(comm.size)) if rank in {node[index] for node in comm.nodes}]
    assert other.all_gather([comm.rank]).tolist() == other.ranks
    assert len(other.nodes) == len(comm.nodes)
    within = comm.split(comm.nodes.index(comm.nodes[0]) if comm.rank in comm.nodes[0] else 1)
    assert within.size == comm.node.size
    assert within.all_reduce(np.ones(2)).tolist() == [within.size] * 2
    if comm.rank != 1:
        some = comm.subgroup([0, 2, 3])
        assert some is comm.subgroup([0, 2, 3])
        assert some.size == 3
        assert int(some.all_reduce(np.array([comm.rank]), "max")[0]) == 3
        some.send_object("hello", (some.rank + 1) % 3)
        assert some.recv_object(tag=0)[0] == "hello"
        some.close()
        try:
            some.barrier()
        except shmcoll.CallNotAllowed:
            pass
        else:
            raise AssertionError("a closed group has made a call")
    backwards = comm.split(0, -comm.rank)
    for members in (range(comm.size), [0, 1], [comm.size - 2, comm.size - 1]) * 2:  # over all nodes, and within one
        if backwards.rank in members:
            some = backwards.subgroup(members)
            assert some.all_gather([backwards.rank]).tolist() == list(members)
            some.close()
    backwards.close()
    with comm.dup() as own:
        own.barrier()
    other.close()
    assert comm.split(None) is None
    grid = comm.grid((2, 2))
    row = grid.sub((False, True))
    assert row.comm.all_gather([comm.rank]).tolist() == [comm.rank // 2 * 2, comm.rank // 2 * 2 + 1]


def within_a_node(comm: Any) -> None:
    """What works on `comm.node`, and says so elsewhere."""
    shared = comm.node.zeros(4)
    assert len(comm.node.views(shared)) == comm.node.size
    for call in (lambda: comm.empty(3), lambda: comm.views(np.ones(3)), lambda: comm.handle):
        try:
            call()
        except shmcoll.CallNotAllowed as error:
            assert "comm.node." in str(error), error
        else:
            raise AssertionError("it has worked between nodes")
    comm.node.barrier()


def one_result_a_node(comm: Any) -> None:
    """The ranks of a node have one result; a write is refused."""
    x = np.full(100_000, comm.rank)
    arena, root = comm._local_rank.arena, comm.size - 1
    for result, wanted in (
        (comm.all_gather(x, shared=True), np.repeat(np.arange(comm.size), 100_000)),
        (comm.broadcast(x if comm.rank == root else None, root, shared=True), np.full(100_000, root)),
    ):
        assert (result == wanted).all() and not result.flags.writeable
        assert len({*comm.node.all_gather_object(result.ctypes.data - arena.address)}) == 1
    del result
    gathered = comm.gather(x, root, shared=True)
    assert (gathered is None) == (comm.rank != root)
    plan = comm.plan("scatter", np.arange(3 * comm.size) if comm.rank == root else None, root, shared=True)
    for _ in range(3):
        assert plan().tolist() == [3 * comm.rank, 3 * comm.rank + 1, 3 * comm.rank + 2]
    assert comm.all_gather(comm.rank, shared=True, async_op=True).wait().tolist() == list(range(comm.size))


def later(comm: Any) -> None:
    """Asynchronous calls are made in the order in which they were submitted, and messages come beside them."""
    before, after = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    message = comm.recv(source=before, tag=3, async_op=True)
    works = [comm.all_reduce(np.full(10_000, i), async_op=True) for i in range(3)]
    comm.send(np.array([comm.rank]), after, 3)
    assert [int(work.wait()[0]) for work in works] == [i * comm.size for i in range(3)]
    assert message.wait()[0].tolist() == [before]
    x = np.ones(5)
    plan = comm.plan("all_reduce", x)
    assert plan().tolist() == [comm.size] * 5
    x[:] = 2
    assert plan.start().wait().tolist() == [2 * comm.size] * 5


def messages(comm: Any) -> None:
    for count in (0, 3, 1 << 20):
        for peer in range(comm.size):
            x = np.full(count, comm.rank, np.int32)
            if peer != comm.rank:
                comm.send(x, peer, comm.rank)
        found = set()
        for _ in range(comm.size - 1):
            got, source, tag = comm.recv()
            assert (got == source).all() and got.size == count and tag == source
            found.add(source)
        assert found == set(range(comm.size)) - {comm.rank}
        comm.barrier()
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    work = comm.send(np.arange(4), after, 9, synchronous=True, async_op=True)
    envelope = comm.probe(before, 9)
    assert envelope.shape == (4,)
    assert comm.mprobe(before, 9).recv().tolist() == [0, 1, 2, 3]
    work.wait()
    assert comm.iprobe() is None


def same_bits(comm: Any) -> None:
    """All ranks have the same bits, whatever the order of the additions."""
    rng = np.random.default_rng(comm.rank)
    for count in (7, 1000, 600_001):
        for dtype in (np.float32, np.float16):
            mine = comm.all_reduce(rng.standard_normal(count).astype(dtype)).tobytes()
            assert comm.broadcast_object(mine) == mine


def main() -> None:
    comm = shmcoll.init(leaders=int(sys.argv[2]))
    for case in (groups, within_a_node, one_result_a_node, later, messages, same_bits):
        case(comm)
    (Path(sys.argv[1]) / f"rank{comm.rank}.json").write_text(f'["ok", {comm.leaders}]')


if __name__ == "__main__":
    main()
