"""sendrecv later and with objects, and messages to nobody, on real ranks."""

import asyncio

import numpy as np
import pytest

import shmcoll

SIZES = (0, 1, 5_000, 300_000)  # long ones wait for their receivers


def around(comm) -> list:
    """Several exchanges in a ring are pending at once, with other work between them; in each the receive comes from the
    neighbour that has not sent yet."""
    before, after = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    wrong = []
    for size in SIZES:
        outs = [np.full(size, -1), None, np.arange(size) + comm.rank]
        works = [
            comm.sendrecv(np.arange(size) + comm.rank, after, outs[0], before, 1, 1, async_op=True),
            comm.all_reduce(np.ones(1), async_op=True),
            comm.sendrecv(list(range(min(size, 9))), before, outs[1], after, 2, 2, async_op=True),
            comm.sendrecv(outs[2], after, outs[2], before, 3, 3, async_op=True),
            comm.sendrecv_object([comm.rank, np.full(size, comm.rank)], after, before, 4, 4, async_op=True),
        ]
        first, ones, second, third, fourth = shmcoll.wait_all(works)
        if not (first[0] is outs[0] and first[1:] == (before, 1) and (outs[0] == np.arange(size) + before).all()):
            wrong.append(f"{size}: {first}")
        if ones[0] != comm.size or second[0].tolist() != list(range(min(size, 9))) or second[1:] != (after, 2):
            wrong.append(f"{size}: {second}")
        if not (third[0] is outs[2] and (outs[2] == np.arange(size) + before).all()):
            wrong.append(f"{size} in place: {third}")
        if fourth[0][0] != before or (fourth[0][1] != before).any() or fourth[1:] != (before, 4):
            wrong.append(f"{size} object: {fourth}")
        there, source, tag = comm.sendrecv_object({"n": np.full(size, comm.rank)}, after, before)
        if (there["n"] != before).any() or (source, tag) != (before, 0):
            wrong.append(f"{size} object at once: {there}")
    work = comm.sendrecv(np.ones(2), after, source=before, async_op=True)
    wrong += [] if not work.cancel() else ["withdrawn"]
    return wrong if asyncio.run(awaited(work)) == [1, 1] else [*wrong, "await"]


async def awaited(work):
    return (await work)[0].tolist()


def test_exchanges_that_are_pending_together(ranks, n):
    assert ranks(n, around) == [[]] * n


def with_nobody(comm) -> list:
    """On an open line: the ends send to nobody, and receive from nobody."""
    before = comm.rank - 1 if comm.rank > 0 else None
    after = comm.rank + 1 if comm.rank < comm.size - 1 else None
    x, out, told = np.array([comm.rank]), np.array([-7]), []
    got, source, tag = comm.sendrecv(x, after, out, before)
    told.append((got is out, out.tolist(), source, tag))
    told.append(comm.sendrecv(x, after, np.array([-7]), before, async_op=True).wait())
    told.append(comm.sendrecv_object("it", after, before))
    told.append(comm.sendrecv_object("later", after, before, async_op=True).wait())
    comm.send(x, after)
    told.append(comm.recv(np.zeros(1, int), before)[1:])
    kept = bytearray(b"kept")
    told.append(comm.recv(kept, None)[0] is kept)
    works = [comm.recv(source=before, async_op=True), comm.send(x, after, async_op=True)]
    told.append([work.wait() for work in works])
    comm.send_object(1, after)
    told.append(comm.recv_object(before))
    works = [comm.recv_object(before, async_op=True), comm.send_object(2, after, async_op=True)]
    told.append([work.wait() for work in works])
    told.append(comm.iprobe())
    return told


def test_nobody(ranks):
    first, second = ranks(2, with_nobody)
    none = (None, None, None)
    assert first == [
        (True, [-7], None, None),
        (np.array([-7]), None, None),
        none,
        none,
        (None, None),
        True,
        [none, None],
        none,
        [none, None],
        None,
    ]
    assert second == [
        (True, [0], 0, 0),
        (np.array([0]), 0, 0),
        ("it", 0, 0),
        ("later", 0, 0),
        (0, 0),
        True,
        [(np.array([0]), 0, 0), None],
        (1, 0, 0),
        [(2, 0, 0), None],
        None,
    ]


def refused(comm) -> list[str]:
    """What is wrong is refused whether or not there is anybody, and nothing is sent or posted."""
    told = []
    for call in (
        lambda: comm.send(np.ones(1), None, -2),
        lambda: comm.send(object(), None),
        lambda: comm.recv("out", None),
        lambda: comm.recv(None, None, -2, async_op=True),
        lambda: comm.send_object(lambda: 0, None),
        lambda: comm.recv_object(None, "tag"),
        lambda: comm.sendrecv([1], 0, "out", None),
        lambda: comm.sendrecv([1], 0, None, 7, async_op=True),
        lambda: comm.sendrecv([1], 7, None, 0, async_op=True),
        lambda: comm.sendrecv_object([1], 7, 0, async_op=True),
        lambda: comm.sendrecv_object([1], 0, 7),
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            call()
        told.append(f"{type(caught.value).__name__}: {caught.value}")
    assert comm.iprobe() is None
    return told


def test_bad_arguments_are_refused_with_nobody_too(ranks):
    told = ranks(1, refused)[0]
    group, more = "is not a rank of this group of 1; use 0", "start more ranks: shmrun -n 4 script.py"
    tags = "use 0 to 2147483647, or shmcoll.ANY"
    assert told[1].startswith("TypeError: send on rank 0: ")
    assert told[4].startswith("TypeError: send_object on rank 0: a function cannot be pickled")
    assert [told[i] for i in (0, 2, 3, 6, 7, 8, 9, 10)] == [
        "ValueError: send on rank 0: tag -2 is out of range; use 0 to 2147483647",
        "TypeError: recv on rank 0: out must be an array, got str",
        f"ValueError: recv on rank 0: tag -2 is out of range; {tags}",
        "TypeError: sendrecv on rank 0: out must be an array, got str",
        f"ValueError: sendrecv on rank 0: source 7 {group} or shmcoll.ANY or {more}",
        f"ValueError: sendrecv on rank 0: dest 7 {group} or {more}",
        f"ValueError: sendrecv_object on rank 0: dest 7 {group} or {more}",
        f"ValueError: sendrecv_object on rank 0: source 7 {group} or shmcoll.ANY or {more}",
    ]
    assert told[5].startswith("TypeError: recv_object on rank 0: tag")


def late(comm) -> list[str]:
    """The receive of an exchange does not come in time: the handle raises what the receive does."""
    told = []
    if comm.rank == 0:
        comm.timeout = 0.3
        work = comm.sendrecv(np.ones(1), 1, np.ones(1), 1, async_op=True)
        try:
            work.wait()
        except shmcoll.CollectiveTimeout as error:
            told.append(str(error))
        told.append(type(work.exception()).__name__)
    else:
        with pytest.raises(shmcoll.ShmcollError, match="timed out after"):
            comm.recv(source=0, tag=9)
    return told


def test_what_the_receive_raises_is_raised(ranks):
    told = ranks(2, late)[0]
    assert told[1] == "CollectiveTimeout"
    assert "rank 1" in told[0]
