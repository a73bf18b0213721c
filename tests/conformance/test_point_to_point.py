"""Messages between real ranks: every form of an array, orders and tags against a plain model, both sides first."""

import time
from collections import Counter

import numpy as np
import pytest

import shmcoll
from shmcoll.errors import ArenaError
from tests.support import layouts, switches
from tests.support.dtypes import DTYPES, PAIRS
from tests.support.waiting import until_asleep

ANY = shmcoll.ANY
#: around the bytes beside a header, a part, a ring, and a ring that is followed by another
LENGTHS = (0, 1, 7, 8, 9, 100, 16_000, 16_384, 65_536, 65_537, 262_144, 600_001, 3_000_000)


def content(seed: int, *which: int) -> np.random.Generator:
    return np.random.default_rng([seed, *which])


# --- what can be sent -------------------------------------------------------------------------------------------------


def send_every_dtype(comm, seed: int) -> int:
    """Rank r sends to r + 1, and both know what it must be."""
    n, done = comm.size, 0
    after, before = (comm.rank + 1) % n, (comm.rank - 1) % n
    for i, dtype in enumerate((*DTYPES, *PAIRS)):
        for shape in ((), (0,), (3,), (2, 0, 5), (4, 1, 7), (1,) * 20, (20_000,)):

            def made(rank: int, i=i, dtype=dtype, shape=shape) -> np.ndarray:
                raw = content(seed, rank, i, len(shape)).integers(0, 2, (*shape, dtype.numpy.itemsize), np.uint8)
                return raw.view(dtype.numpy)[..., 0]

            comm.send(made(comm.rank), after, i)
            got, source, tag = comm.recv(source=before, tag=i)
            assert (source, tag) == (before, i)
            assert not layouts.same(got, made(before))
            done += 1
    return done


@pytest.mark.parametrize("members", [1, 2, 3])
def test_every_dtype_and_shape_arrives(ranks, seed, members):
    assert set(ranks(members, send_every_dtype, seed)) == {7 * len((*DTYPES, *PAIRS))}


@pytest.mark.usefixtures("the_other_ways")
def test_every_dtype_and_shape_arrives_in_the_other_ways(ranks, seed):
    ranks(2, send_every_dtype, seed)


def send_forms(comm) -> None:
    x = np.arange(24, dtype=np.int32).reshape(4, 6)
    forms = (
        layouts.misaligned, layouts.strided, layouts.reversed_axes, layouts.transposed, layouts.fortran,
        layouts.Holder, layouts.Capsule, lambda a: a.astype(">i4"), lambda a: a.view(layouts.Sub),
    )  # fmt: skip
    for form in forms:
        comm.send(form(x), 0)
        got = comm.recv()[0]
        assert type(got) is np.ndarray
        assert not layouts.same(got, x)
    comm.send([1, 2, 3], 0)
    assert comm.recv()[0].tolist() == [1, 2, 3]
    comm.send(7, 0)
    assert comm.recv()[0].shape == ()


def test_arrays_of_every_form_are_sent(ranks):
    ranks(1, send_forms)


def receive_into_forms(comm) -> None:
    x = np.arange(24, dtype=np.int32)
    for form in (layouts.misaligned, layouts.strided, layouts.reversed_axes, layouts.transposed, layouts.fortran):
        out = form(np.zeros((4, 6), np.int32))
        comm.send(x, 0, 3)
        assert comm.recv(out)[0] is out
        assert not layouts.same(out, x.reshape(4, 6))
        comm.send(x[:5] + 1, 0)
        got, _, _ = comm.recv(out)
        assert got.tolist() == [1, 2, 3, 4, 5]
        assert out.ravel().tolist() == [1, 2, 3, 4, 5, *range(5, 24)]
    out = np.zeros((2, 3, 4), np.int32)
    comm.send(x, 0)
    assert comm.recv(out)[0] is out
    comm.send(x[:0], 0)
    assert comm.recv(out)[0].size == 0
    buffer = bytearray(8)
    comm.send(np.arange(8, dtype=np.uint8), 0)
    assert comm.recv(buffer)[0] is buffer
    assert buffer == bytes(range(8))


def test_messages_are_received_into_arrays_of_every_form(ranks):
    ranks(1, receive_into_forms)


# --- order ------------------------------------------------------------------------------------------------------------


def chat(comm, seed: int, rounds: int, later: bool) -> int:
    """All send to all, receive in an order of their own, by source, by tag, or whatever comes; the model is a queue for
    each pair. What has been sent to a rank in a round stands in a table that all ranks draw alike."""
    n, me, received = comm.size, comm.rank, 0
    for number in range(rounds):
        rng = content(seed, number)
        sent: list[list[list[tuple[int, int, int]]]] = [[[] for _ in range(n)] for _ in range(n)]
        plan: list[list[tuple[int, int, int, int]]] = [[] for _ in range(n)]
        for i in range(int(rng.integers(1, 30))):
            source, dest, tag = (int(v) for v in rng.integers(0, (n, n, 4)))
            length = int(rng.choice(LENGTHS[:-1] if rng.random() < 0.3 else LENGTHS[:6]))
            sent[source][dest].append((tag, length, i))
            plan[source].append((dest, tag, length, i))
        works = []
        for dest, tag, length, i in plan[me]:
            x = np.full(length, i % 251, np.uint8)
            if later:
                works.append(comm.send(x, dest, tag, async_op=True))
            else:
                comm.send(x, dest, tag)
        own = content(seed, number, me)
        waiting = {source: list(sent[source][me]) for source in range(n)}
        while any(waiting.values()):
            source = int(own.choice([s for s, left in waiting.items() if left]))
            tag = int(own.choice([t for t, _, _ in waiting[source]]))
            which = own.integers(0, 4)
            asked = (source if which & 1 else ANY, tag if which & 2 else ANY)
            got, from_, tagged = comm.recv(source=asked[0], tag=asked[1])
            first = next(m for m in waiting[from_] if asked[1] in (ANY, m[0]))
            assert asked[0] in (ANY, from_)
            assert (tagged, got.size) == first[:2]
            assert (got == first[2] % 251).all()
            waiting[from_].remove(first)
            received += 1
        for work in works:
            assert work.wait(20) is None
        comm.barrier()  # nobody's messages of the next round come before these have been received
    return received


@pytest.mark.parametrize("later", [False, True], ids=["blocking", "async sends"])
@pytest.mark.parametrize("members", [1, 2, 4])
def test_random_messages_arrive_in_order(ranks, seed, members, later):
    assert sum(ranks(members, chat, seed, 12, later)) > 20


@pytest.mark.stress
@pytest.mark.parametrize("members", [2, 3, 8])
def test_many_random_messages_arrive_in_order(ranks, seed, members):
    ranks(members, chat, seed, 300, False, deadline=600)


def send_first(comm, seed: int) -> None:
    """Both sides send before they receive. No two parts of a message have the same bytes."""
    other = 1 - comm.rank
    for length in LENGTHS:
        sent = np.arange(length) % 251
        comm.send((sent + comm.rank).astype(np.uint8), other, 5)
        got, source, tag = comm.recv(source=other, tag=5)
        assert (source, tag, got.size) == (other, 5, length)
        assert (got == sent + other).all()


def test_both_sides_may_send_first(ranks, seed):
    ranks(2, send_first, seed)


def exchange(comm, seed: int) -> None:
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for length in LENGTHS:
        x = np.full(length, comm.rank, np.uint8)
        out = np.full(length, 99, np.uint8)
        assert comm.sendrecv(x, after, out, before, 4, 4)[1:] == (before, 4)
        assert (out == before).all()
        got, source, tag = comm.sendrecv(x, after, None, before, length)
        assert (source, tag) == (before, length)
        assert (got == before).all() and got.size == length
        assert comm.sendrecv(x, after, x)[0] is x
        assert (x == before).all()


@pytest.mark.parametrize("members", [1, 2, 3])
def test_sendrecv_round_a_ring_of_ranks(ranks, seed, members):
    ranks(members, exchange, seed)


def flood(comm) -> None:
    """Nobody receives until all is sent; then by tag, backwards."""
    count = 5000
    for i in range(count):
        comm.send(np.array([i]), 1 - comm.rank, i % 5)
    for tag in (4, 2, 0, 1, 3):
        for i in range(tag, count, 5):
            assert comm.recv(tag=tag)[0].item() == i


def test_many_messages_wait_for_their_receiver(ranks):
    ranks(2, flood)


def fill_the_heap(comm) -> list[str]:
    """Rank 0 sends until the heap is full: only it is told, and everything that it sent arrives."""
    sent, texts = 0, []
    if comm.rank == 0:
        for length in (1 << 20, 1000):
            with pytest.raises(ArenaError) as full:
                while True:
                    comm.send(np.full(length, sent % 251, np.uint8), 1)
                    sent += 1
            texts.append(str(full.value))
    sent = int(comm.broadcast(np.array(sent))[()])
    if comm.rank == 1:
        for i in range(sent):
            assert (comm.recv()[0] == i % 251).all()
    comm.barrier()
    for _ in range(3):  # and there is room again
        if comm.rank == 0:
            comm.send(np.zeros(1 << 20, np.uint8), 1, 9)
        else:
            assert comm.recv()[2] == 9
    return texts


def test_a_full_heap_is_the_senders_error_alone(ranks, hasty_sends):
    texts, _ = ranks(2, fill_the_heap, environment=switches.heap("8M"))
    assert len(texts) == 2
    for text in texts:
        assert text.startswith("send on rank 0: the heap is full: ")
        assert "of 8.0 MiB in use" in text
        assert "messages to rank 1 that it has not received yet" in text


def rings_are_given_back(comm) -> tuple[int, int]:
    other = 1 - comm.rank
    for _ in range(3):
        comm.send(np.ones(3_000_000), other)
        comm.recv()
    comm.barrier()
    comm.send(np.ones(1), other)
    comm.recv()
    comm.barrier()
    comm.send(np.ones(1), other)
    held = switches.held(comm)
    comm.recv()
    return held, len(comm._dispatcher.buffers._rings[other])


def test_large_rings_are_given_back(ranks):
    for held, rings in ranks(2, rings_are_given_back):
        assert held < 1 << 20
        assert rings == 1


def messages_of_groups(comm) -> int:
    """Messages of different groups do not mix, and closing a group gives their memory back."""
    before = switches.held(comm)
    half = comm.split(comm.rank // 2)
    other = 1 - half.rank
    half.send(np.array([half.rank]), other)
    comm.send(np.array([100]), comm.rank ^ 1)
    assert half.recv()[0].item() == other
    half.send(np.zeros(100_000), other)  # never received
    comm.barrier()
    half.close()
    comm.barrier()
    switches.give_back_memory(comm)
    comm.barrier()
    switches.give_back_memory(comm)
    assert comm.recv()[0].item() == 100
    return switches.held(comm) - before


def test_messages_belong_to_their_group(ranks):
    assert all(left < 100_000 for left in ranks(4, messages_of_groups))


# --- later ------------------------------------------------------------------------------------------------------------


def post_first(comm) -> None:
    other = 1 - comm.rank
    for length in LENGTHS:
        out = np.zeros(length, np.uint8)
        works = [comm.recv(out, other, 1, async_op=True), comm.recv(source=other, tag=2, async_op=True)]
        works += [comm.send(np.full(length, tag, np.uint8), other, tag, async_op=True) for tag in (2, 1)]
        first, second = works[0].wait(20), works[1].wait(20)
        assert first[0] is out and first[1:] == (other, 1) and (out == 1).all()
        assert second[1:] == (other, 2) and (second[0] == 2).all() and second[0].size == length


def test_receives_posted_on_both_sides_before_the_sends(ranks):
    ranks(2, post_first)


def posted_in_order(comm) -> list[tuple[int, int]]:
    """Of receives that fit the same message the first posted gets it, whatever else is going on."""
    if comm.rank == 0:
        comm.barrier()
        for i in range(60):
            comm.send(np.array([i]), 1, i % 3)
            if i % 10 == 0:
                time.sleep(0.003)
        comm.barrier()
        return []
    order = [ANY, 2, ANY, 0, 1] * 6
    works = [comm.recv(tag=tag, async_op=True) for tag in order]
    comm.barrier()
    told = [(tag, int(work.wait(20)[0][0])) for tag, work in zip(order, works, strict=True)]
    comm.barrier()  # one cannot send to who has left
    return told


def test_receives_match_in_the_order_of_posting(ranks):
    posted = [ANY, 2, ANY, 0, 1] * 6
    wanted: dict[int, int] = {}
    for i in range(60):
        for place in [p for p, tag in enumerate(posted) if p not in wanted and tag in (ANY, i % 3)][:1]:
            wanted[place] = i
    told = ranks(2, posted_in_order)[1]
    assert [value for _, value in told] == [wanted[p] for p in range(30)]


def others_go_on(comm) -> str:
    """A posted receive keeps neither collectives nor messages waiting, blocking or not."""
    other = 1 - comm.rank
    late = comm.recv(source=other, tag=77, async_op=True)
    total = comm.all_reduce(np.ones(3), async_op=True)
    assert total.wait(20).tolist() == [2, 2, 2]
    assert comm.all_reduce(np.ones(2)).tolist() == [2, 2]
    comm.send(np.array([1]), other, 5)
    assert comm.recv(tag=5)[1] == other
    assert not late.done()
    comm.barrier()
    comm.send(np.array([comm.rank]), other, 77)
    assert late.wait(20)[0].item() == other
    before = time.monotonic()
    comm.barrier()
    return repr(late) + str(time.monotonic() - before > 5)


def test_posted_receives_keep_nothing_waiting(ranks):
    assert set(ranks(2, others_go_on)) == {"<shmcoll.Work done>False"}


def to_oneself_later(comm) -> list[int]:
    posted = comm.recv(async_op=True)
    comm.send(np.array([3]), 0, 4)
    got = posted.wait(20)
    return [int(got[0][0]), *got[1:]]


def test_a_receive_from_oneself_may_be_posted_first(ranks):
    assert ranks(1, to_oneself_later) == [[3, 0, 4]]


def batches(comm) -> None:
    """Everybody with everybody, in one batch."""
    n, me = comm.size, comm.rank
    x = np.arange(50_000) + me
    outs = [np.zeros_like(x) for _ in range(n)]
    both = [shmcoll.Send(x, peer, peer) for peer in range(n)]
    both += [shmcoll.Recv(outs[peer], peer, me) for peer in range(n)]
    results = [work.wait(20) for work in comm.batch(both)]
    assert results[:n] == [None] * n
    for peer in range(n):
        assert results[n + peer][0] is outs[peer]
        assert (outs[peer] == np.arange(50_000) + peer).all()
    assert comm.batch([]) == []


@pytest.mark.parametrize("members", [1, 2, 4])
def test_batches(ranks, members):
    ranks(members, batches)


def any_source(comm) -> Counter[int]:
    """The one that was served last comes last: nobody starves."""
    if comm.rank:
        for i in range(50):
            comm.send(np.array([i]), 0)
        comm.barrier()
        return Counter()
    comm.barrier()
    return Counter(comm.recv()[1] for _ in range(30))


def test_messages_of_any_source_are_taken_in_turn(ranks):
    assert ranks(4, any_source)[0] == {1: 10, 2: 10, 3: 10}


def woken(comm) -> None:
    """A receiver of any source that sleeps is woken by whoever sends."""
    for sender in (1, 2, 1):
        if comm.rank == 0:
            assert comm.recv()[1] == sender
        elif comm.rank == sender:
            until_asleep(comm, 0)
            comm.send(np.ones(1), 0)
        comm.barrier()


def test_whoever_sends_wakes_a_receiver_of_any_source(ranks):
    ranks(3, woken)
