"""Objects sent from rank to rank: what arrives, in which order, beside arrays, and without copies."""

import tracemalloc
from typing import Any

import numpy as np
import pytest

import shmcoll
from shmcoll.errors import ArenaError
from tests.support import switches
from tests.support.drawn_objects import drawn, same
from tests.support.waiting import until_asleep

ANY = shmcoll.ANY


def in_a_ring(comm, seed: int, count: int, later: bool) -> int:
    """Everybody sends to the next rank before it receives, and all know what it must be."""
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for i in range(count):
        objects = [drawn(np.random.default_rng([seed, i, rank])) for rank in range(comm.size)]
        sent = comm.send_object(objects[comm.rank], after, i, async_op=later)
        got = comm.recv_object(before, i, async_op=later)
        got, source, tag = got.wait(20) if later else got
        assert sent.wait(20) is None if later else sent is None
        assert (source, tag) == (before, i)
        assert same(got, objects[before]), f"{i}: got {got!r:.200}, wanted {objects[before]!r:.200}"
    return count


@pytest.mark.parametrize("later", [False, True], ids=["blocking", "async"])
@pytest.mark.parametrize("members", [1, 2, 3, 4])
def test_objects_arrive(ranks, seed, members, later):
    assert ranks(members, in_a_ring, seed, 60, later) == [60] * members


@pytest.mark.usefixtures("the_other_ways")
def test_objects_arrive_in_the_other_ways(ranks, seed):
    ranks(2, in_a_ring, seed, 40, False)


def around_the_edges(comm, seed: int) -> None:
    """Buffers that end where a part or a ring does, and just beside; one, and many, before both receive."""
    other, lengths = (comm.rank + 1) % comm.size, []
    for edge in (switches.LEAST_BUFFER, switches.PART_BYTES, 4 * switches.PART_BYTES):
        lengths += [edge + beside for beside in (-193, -65, -64, -63, -1, 0, 1, 63, 64, 65)]
    values = [np.random.default_rng([seed, length]).integers(0, 256, length, np.uint8) for length in lengths]
    for value in (*values, values, [values] * 3, b"x" * 3_000_000, [b"y" * switches.PART_BYTES, *values[:3]]):
        comm.send_object(value, other)
        assert same(comm.recv_object(other)[0], value)


@pytest.mark.parametrize("members", [1, 2])
def test_buffers_of_every_length(ranks, seed, members):
    ranks(members, around_the_edges, seed)


def beside_arrays(comm, seed: int, rounds: int) -> int:
    """All send objects and arrays to all, and receive them by source, by tag, or as they come. Tag 2k is for arrays,
    2k + 1 for objects; where any tag will do, the model knows what comes. It is a queue for each pair."""
    n, me, received = comm.size, comm.rank, 0
    for number in range(rounds):
        rng = np.random.default_rng([seed, number])
        sent: list[list[list[tuple[int, Any]]]] = [[[] for _ in range(n)] for _ in range(n)]
        plan: list[tuple[int, int, int, Any]] = []
        for _ in range(int(rng.integers(1, 25))):
            source, dest, tag = (int(v) for v in rng.integers(0, (n, n, 4)))
            value = drawn(rng) if tag % 2 else rng.integers(0, 9, int(rng.choice([1, 50, 9_000, 90_000])))
            sent[source][dest].append((tag, value))
            plan.append((source, dest, tag, value))
        for source, dest, tag, value in plan:
            if source == me:
                (comm.send_object if tag % 2 else comm.send)(value, dest, tag)
        own = np.random.default_rng([seed, number, me])
        waiting = {source: sent[source][me] for source in range(n)}
        while any(waiting.values()):
            source = int(own.choice([s for s, left in waiting.items() if left]))
            tag = int(own.choice([t for t, _ in waiting[source]])) if own.random() < 0.7 else ANY
            first = next(m for m in waiting[source] if tag in (ANY, m[0]))
            got, *where = (comm.recv_object if first[0] % 2 else comm.recv)(source=source, tag=tag)
            assert where == [source, first[0]]
            assert same(got, first[1])
            waiting[source] = [m for m in waiting[source] if m is not first]
            received += 1
        comm.barrier()
    return received


@pytest.mark.parametrize("members", [1, 2, 4])
def test_objects_and_arrays_keep_their_order(ranks, seed, members):
    assert sum(ranks(members, beside_arrays, seed, 12)) > 20


def posted(comm) -> list:
    """Receives of both kinds are served in the order of posting, and keep collectives waiting no more than others."""
    other = 1 - comm.rank
    works = [
        comm.recv_object(async_op=True),
        comm.recv(source=other, async_op=True),
        comm.recv_object(tag=5, async_op=True),
    ]
    assert comm.all_reduce(np.ones(1)).tolist() == [2]
    comm.send_object(("first", comm.rank), other, 5)
    comm.send(np.array([comm.rank]), other, 5)
    comm.send_object({"third": np.full(50_000, comm.rank)}, other, 5)
    comm.send_object("fourth", other, 6)
    first, second, third = [work.wait(20) for work in works]
    assert (third[0]["third"] == other).all()
    return [first, int(second[0][0]), comm.recv_object()]


def test_posted_receives_of_both_kinds(ranks):
    assert ranks(2, posted) == [[(("first", o), o, 5), o, ("fourth", o, 6)] for o in (1, 0)]


def behind_posted(comm) -> list[int]:
    if comm.rank == 0:
        comm.barrier()
        until_asleep(comm, 1)
        for i in range(4):
            comm.send_object(i, 1)
        return []
    works = [comm.recv_object(async_op=True), comm.recv_object(0, 0, async_op=True)]
    comm.barrier()
    now = [comm.recv_object()[0], comm.recv_object()[0]]
    return [*(work.wait(20)[0] for work in works), *now]


def test_posted_receives_come_first(ranks):
    assert ranks(2, behind_posted)[1] == [0, 1, 2, 3]


def other_kind(comm) -> list[str]:
    """What is of the other kind stays, in its place, blocking or posted."""
    if comm.rank == 0:
        comm.send_object([1, 2], 1, 3)
        comm.send(np.arange(5), 1, 4)
        return []
    told = []
    out = np.zeros(900, np.uint8)
    for call in (
        comm.recv,
        lambda: comm.recv(out),
        lambda: comm.recv(out[:3], 0, 3),
        lambda: comm.recv(async_op=True).wait(20),
        lambda: comm.recv(out, async_op=True).wait(20),
    ):
        with pytest.raises(TypeError) as refused:
            call()
        told.append(str(refused.value))
    assert not out.any()
    assert comm.recv_object() == ([1, 2], 0, 3)
    for call in (lambda: comm.recv_object(), lambda: comm.recv_object(async_op=True).wait(20)):
        with pytest.raises(TypeError) as refused:
            call()
        told.append(str(refused.value))
    assert comm.recv()[0].tolist() == [0, 1, 2, 3, 4]
    return told


def test_a_message_of_the_other_kind_stays(ranks):
    told = ranks(2, other_kind)[1]
    for text in told[:5]:
        assert text.startswith("recv(source=")
        assert "on rank 1: the next message, from rank 0 with tag 3, is an object of " in text
        assert text.endswith(" bytes. It stays: use recv_object")
    for text in told[5:]:
        assert (
            "on rank 1: the next message, from rank 0 with tag 4, has 5 x int64; it is not an object. It stays" in text
        )
        assert text.startswith("recv_object(source=ANY, tag=ANY)")


class Spoilt:
    """Comes out of its pickle as an error."""

    def __reduce__(self):
        return int, ("no number",)


def spoilt(comm) -> list[str]:
    told = []
    for receive in (comm.recv_object, lambda: comm.recv_object(async_op=True).wait(20)):
        comm.send_object(Spoilt(), comm.rank)
        comm.send_object("next", comm.rank)
        with pytest.raises(ValueError) as error:
            receive()
        told.append(str(error.value))
        assert receive()[0] == "next"
    comm.barrier()
    return told


def test_what_cannot_be_unpickled_is_its_receivers_error_alone(ranks):
    assert ranks(2, spoilt) == [["invalid literal for int() with base 10: 'no number'"] * 2] * 2


def held(comm) -> tuple[int, int, int]:
    """Most bytes that Python and numpy took while a list of arrays was sent, and received; and what it holds."""
    arrays = [np.full(1 << 20, comm.rank) for _ in range(6)]
    tracemalloc.start()
    comm.send_object(arrays, 1 - comm.rank)
    sending = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    got = comm.recv_object()[0]
    receiving = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert all((one == 1 - comm.rank).all() and one.flags.writeable for one in got)
    return sending, receiving, sum(one.nbytes for one in got)


def test_arrays_in_an_object_are_copied_once(ranks):
    for sending, receiving, size in ranks(2, held):
        assert sending < size / 100
        assert receiving < 1.01 * size


def full(comm) -> str:
    """A heap that is full is the sender's error alone, and nothing of the object arrives."""
    text = ""
    if comm.rank == 0:
        comm.send_object("before", 1)
        with pytest.raises(ArenaError) as error:
            comm.send_object([np.zeros(1 << 20), np.zeros(1 << 21)], 1)
        text = str(error.value)
        comm.send_object("after", 1)
    comm.barrier()
    if comm.rank == 1:
        assert [comm.recv_object()[0] for _ in range(2)] == ["before", "after"]
    return text


def test_a_full_heap_is_the_senders_error_alone(ranks, hasty_sends):
    text = ranks(2, full, environment=switches.heap("8M"))[0]
    assert text.startswith("send_object on rank 0: the heap is full: ")
    assert text.endswith("The message has not been sent")
