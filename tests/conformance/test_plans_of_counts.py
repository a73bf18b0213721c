"""Plans of the calls with counts, and of messages, on real ranks: inputs change between the calls."""

import numpy as np
import pytest

import shmcoll


def counted(comm) -> list[str]:
    """What differs from the methods, after three calls of each plan."""
    n, rank, wrong = comm.size, comm.rank, []
    counts = [i + 1 for i in range(n)]
    total, mine = sum(counts), rank + 1
    x, own = np.zeros(total, np.int64), np.zeros(mine, np.int64)
    room = np.full(n * mine + 3, -1)
    at = [3 + i * mine for i in range(n)]
    root = n - 1
    calls = [
        ("all_gather_v", (own,), {"out": np.empty(total, np.int64)}),
        ("all_gather_v", (own,), {"out": np.full(2 * total, -1), "recv_displs": [2 * i * n for i in range(n)][::-1]})
        if 2 * (n - 1) * n + n <= 2 * total
        else ("all_gather_v", (own,), {"out": np.empty(total, np.int64), "recv_counts": counts}),
        ("gather_v", (own, root), {"out": np.empty(total, np.int64) if rank == root else None}),
        ("scatter_v", (x if rank == root else None, root), {"send_counts": counts, "out": own.copy()}),
        ("all_to_all_v", (x, counts), {"out": room.copy(), "recv_displs": at}),
        ("all_to_all_v", (x, np.array(counts)), {"out": np.empty(n * mine, np.int64), "recv_room": [mine] * n}),
        ("reduce_scatter_v", (x, counts, "max"), {}),
    ]
    for operation, args, keywords in calls:
        plan = comm.plan(operation, *args, **keywords)
        for i in range(3):
            for fresh in (x, own):
                fresh[:] = np.arange(fresh.size) * (i + 2) + rank
            keywords_now = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in keywords.items()}
            wanted = getattr(comm, operation)(*args, **keywords_now)
            got = plan.start().wait() if i == 2 else plan()
            for one, other in zip(*(each if type(each) is tuple else (each,) for each in (got, wanted)), strict=True):
                if not np.array_equal(one, other):
                    wrong.append(f"{plan} {keywords} call {i}: {got}, not {wanted}")
            if keywords.get("out") is not None and keywords["out"] is not (got[0] if type(got) is tuple else got):
                wrong.append(f"{plan}: out was not returned")
    return wrong


def test_calls_with_counts(ranks, n):
    assert ranks(n, counted) == [[]] * n


def greater(a, b):
    return a if a > b else b


def with_a_function(comm) -> list:
    x = np.arange(3) * (-1) ** comm.rank
    plan = comm.plan("reduce_scatter_v", x, [1, 2], shmcoll.op(greater))
    return [plan().tolist(), plan.start().wait().tolist()]


@pytest.mark.slow  # each rank compiles the function
def test_what_the_native_entry_does_not_take_is_done_the_long_way(ranks):
    assert ranks(2, with_a_function) == [[[0], [0]], [[1, 2], [1, 2]]]


def messages(comm) -> list:
    """A ring of planned messages; then on an open line, whose ends have nobody."""
    before, after = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    x, out, both = np.zeros(3), np.empty(3), np.empty(3)
    send, recv = comm.plan("send", x, after, 4), comm.plan("recv", out, before, 4)
    exchange = comm.plan("sendrecv", x, after, both, before, 5, 5)
    told = []
    for i in range(3):
        x[:] = 10 * i + comm.rank
        if i:
            shmcoll.wait_all([one.start() for one in (recv, send, exchange)])
        else:
            send()
            told.append((recv()[0] is out, exchange()[1:] == (before, 5)))
        told.append((float(out[0]), float(both[2])))
    line = comm.plan("sendrecv", x, None if comm.rank else 1, out, None if comm.rank == 0 else 0)
    if comm.rank < 2:
        told.append(line()[1])
    return [*told, repr(send)]


def test_messages(ranks):
    for rank, told in enumerate(ranks(3, messages)):
        before = (rank - 1) % 3
        assert told[:4] == [(True, True), (before, before), (10 + before, 10 + before), (20 + before, 20 + before)]
        assert told[4:-1] == [[None], [0], []][rank]
        assert told[-1] == f"<shmcoll.Plan of send on rank {rank}>"


def refused(comm) -> list[str]:
    x, told = np.ones(4), []
    for operation, args, keywords in (
        ("all_gather_v", (x,), {}),
        ("all_to_all_v", (x, [3]), {"out": x.copy()}),
        ("all_to_all_v", (x[::-1], [4]), {"out": x}),
        ("gather_v", (x[::2],), {"out": x.copy()}),
        ("send", ([1.0], 0), {}),
        ("send", (x[::2], 0), {}),
        ("send", (x, 7), {}),
        ("recv", (), {}),
        ("recv", (x,), {"tag": -2}),
        ("recv", (x,), {"async_op": True}),
        ("sendrecv", (x,), {}),
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            comm.plan(operation, *args, **keywords)
        told.append(str(caught.value))
    return told


def test_what_cannot_be_planned_is_refused(ranks):
    told = ranks(1, refused)[0]
    copied = "would be copied at every call: it is not C-contiguous"
    assert told[0] == "plan of all_gather_v on rank 0: only the call finds out the size of its result; pass out"
    assert told[1].startswith("all_to_all_v on rank 0: ")
    assert told[2].startswith(f"plan of all_to_all_v on rank 0: x {copied}")
    assert told[3].startswith(f"plan of gather_v on rank 0: x {copied}")
    assert told[4] == "plan of send on rank 0: x must be a numpy array, to be used in place; got a list"
    assert told[5].startswith(f"plan of send on rank 0: x {copied}")
    assert told[6].startswith(
        "send on rank 0: dest 7 is not a rank of this group of 1; use 0 or start more ranks: shmrun"
    )
    assert told[7] == "plan of recv on rank 0: out must be a numpy array, to be used in place; got a NoneType"
    assert told[8].startswith("recv on rank 0: tag -2 is out of range")
    assert told[9] == "plan of recv on rank 0: async_op belongs to the call; use plan.start()"
    assert told[10].startswith("plan of sendrecv on rank 0: missing a required argument: 'dest'")
