"""What ranks record of their calls: exact counts, who waited for whom, and what is left of a rank that is killed."""

import os
import signal
import threading
import time
from collections import Counter
from typing import Any

import numpy as np
import pytest

import shmcoll
from shmcoll.communicator import Communicator
from shmcoll.engine import layout
from shmcoll.engine.native import profile_calls
from shmcoll.engine.protocol import profile as p
from shmcoll.profiling import reading, recorder
from shmcoll.profiling.reading import profiles
from shmcoll.profiling.spans import CALL, MAIN, MESSAGE, PART, WORKER, RankProfile, Span, Total
from tests.support.ranks import Job

TRACED = {"SHMCOLL_TRACE": os.devnull}
COUNTED = {"SHMCOLL_STATS": "1"}


def recorded(n: int, function: Any, environment: dict[str, str], *args: Any) -> tuple[list[RankProfile], list[Any]]:
    """The profiles of a job, and what its ranks returned."""
    job = Job(n, function, args, environment=environment)
    found: list[RankProfile] = []
    outcomes = job.finish(look=lambda: found.extend(profiles(job.arena)))
    assert [one.traceback for one in outcomes if one.error] == []
    return found, [one.value for one in outcomes]


def calls(one: RankProfile) -> list[Span]:
    return [span for span in one.spans if span.kind in (CALL, MESSAGE)]


def total(one: RankProfile, operation: str) -> Total:
    (found,) = [row for row in one.totals if row.operation == operation]
    return found


# --- counts -----------------------------------------------------------------------------------------------------------


def of_every_kind(comm: Communicator) -> dict[str, int]:
    """Make calls by every way into native code. Returns how many of each."""
    x, out, n = np.ones(4), np.empty(4), comm.size
    for _ in range(3):
        comm.all_reduce(x, out=out)
    comm.all_reduce([1.0, 2.0, 3.0, 4.0])  # the long way
    plan = comm.plan("all_reduce", x, out=out)
    plan()
    comm.all_reduce(x, async_op=True).wait()
    comm.scatter(np.arange(float(n)) if comm.rank == 0 else None)  # in two phases
    comm.all_to_all_v(np.arange(2.0 * n), [2] * n)  # counts, in two phases
    comm.all_to_all_v(np.arange(2.0 * n), [2] * n, out=np.empty(2 * n))
    comm.barrier()
    comm.broadcast_object({"a": 1})
    comm.all_gather_object("text")
    comm.split(0).close()
    return {
        "all_reduce": 6, "scatter": 1, "all_to_all_v": 2, "barrier": 1, "broadcast_object": 1, "all_gather_object": 1,
        "split": 1,
    }  # fmt: skip


def test_each_call_is_counted_once() -> None:
    """Whatever its way into native code, and in however many phases."""
    found, wanted = recorded(2, of_every_kind, TRACED)
    for one, counts in zip(found, wanted, strict=True):
        assert Counter(span.name for span in calls(one)) == counts
        assert {row.operation: row.calls for row in one.totals} == counts
        assert one.dropped == 0


def test_totals_are_those_of_the_spans() -> None:
    found, _ = recorded(2, of_every_kind, TRACED)
    for one in found:
        for row in one.totals:
            spans = [span for span in calls(one) if span.name == row.operation]
            assert row.bytes == sum(span.bytes for span in spans)
            assert row.ns == sum(span.end - span.begin for span in spans)
            assert row.waited == sum(span.waited for span in spans)
        assert sum(one.waited_for.values()) <= sum(row.waited for row in one.totals)


def test_spans_fit_each_other() -> None:
    found, _ = recorded(2, of_every_kind, TRACED)
    for one in found:
        assert all(span.begin <= span.end and 0 <= span.waited <= span.end - span.begin for span in one.spans)
        assert all(one.begun <= span.begin and span.end <= one.ended for span in one.spans)
        assert {span.thread for span in one.spans} == {MAIN, WORKER}
        assert [span.name for span in one.spans if span.thread == WORKER] == ["all_reduce"]
        for part in (span for span in one.spans if span.kind == PART):
            assert any(s.kind == CALL and s.begin <= part.begin and part.end <= s.end for s in one.spans)
    first, second = ([(s.communicator, s.sequence, s.name) for s in one.spans if s.sequence] for one in found)
    assert first == second
    for span, other in zip(*([s for s in one.spans if s.sequence] for one in found), strict=True):
        is_eager = span.name == "scatter"  # of few bytes: the root, which is rank 0, waits for nobody
        assert span.begin <= other.end, "no rank leaves before the root has come"
        assert is_eager or other.begin <= span.end, "all wait at the opening of a collective"


def test_bytes_and_classes_of_size() -> None:
    def call(comm: Communicator) -> None:
        for length in (0, 1, 2, 3, 4, 1000, 1 << 20):
            comm.broadcast(np.zeros(length, np.uint8), 0)

    found, _ = recorded(2, call, COUNTED)
    for one in found:
        rows = [(row.size, row.calls, row.bytes) for row in one.totals]
        assert rows == [(0, 1, 0), (1, 1, 1), (2, 2, 5), (4, 1, 4), (512, 1, 1000), (1 << 20, 1, 1 << 20)]
        assert one.spans == []


# --- messages ---------------------------------------------------------------------------------------------------------


def messages(comm: Communicator) -> None:
    peer = 1 - comm.rank
    if comm.rank == 0:
        comm.send(np.arange(1000.0), peer, tag=5)
        comm.send(np.arange(200_000.0), peer, tag=6)
        comm.send_object("hello", peer)
        comm.send(np.ones(1), peer, tag=2)
        comm.send(np.ones(1), peer, tag=1)
        comm.send(np.ones(3), peer, tag=7)
    else:
        comm.recv(source=peer, tag=5)
        comm.recv(np.empty(200_000), source=peer, tag=6)
        comm.recv_object(peer)
        comm.recv(np.empty(1), source=peer, tag=1)  # out of their order
        comm.recv(np.empty(1), source=peer, tag=2)
        comm.recv(np.empty(3), tag=7, async_op=True).wait()
    comm.sendrecv(np.ones(10), peer, source=peer)


def test_a_send_and_its_receive_have_one_number() -> None:
    found, _ = recorded(2, messages, TRACED)
    sent = {s.message: s for one in found for s in one.spans if s.sends}
    received = [s for one in found for s in one.spans if s.kind == MESSAGE and not s.sends]
    assert len(sent) == len(received) == 8
    for span in received:
        other = sent[span.message]
        assert (other.rank, other.peer, other.tag, other.bytes) == (span.peer, span.rank, span.tag, span.bytes)
        assert other.begin < span.end
    assert sorted(s.tag for s in received) == [0, 0, 0, 1, 2, 5, 6, 7]


def waits_for_a_receive(comm: Communicator) -> None:
    if comm.rank == 0:
        work = comm.recv(np.empty(1), source=1, async_op=True)
        comm.barrier()
        work.wait()
    else:
        comm.barrier()
        time.sleep(0.3)
        comm.send(np.ones(1), 0)


def test_the_wait_for_a_posted_receive_is_counted() -> None:
    found, _ = recorded(2, waits_for_a_receive, TRACED)
    wait = total(found[0], "Work.wait")
    assert wait.calls == 1
    assert wait.ns == wait.waited >= 150_000_000
    assert total(found[0], "recv").calls == 1
    (span,) = [span for span in found[0].spans if span.name == "Work.wait"]
    assert span.end - span.begin == wait.ns


# --- waiting ----------------------------------------------------------------------------------------------------------


def one_is_late(comm: Communicator, late: int) -> list[RankProfile]:
    comm.barrier()  # ranks do not start at the same time
    with comm.trace() as trace:
        if comm.rank == late:
            time.sleep(0.3)
        comm.barrier()
    return trace.profiles


@pytest.mark.parametrize("late", [0, 2])
def test_others_waited_for_the_rank_that_was_late(late: int) -> None:
    """Other things of a busy machine take less."""
    for one in recorded(3, one_is_late, {}, late)[1][0]:
        (last,) = calls(one)
        if one.rank == late:
            assert last.last == -1
            continue
        assert last.last == late
        assert last.waited >= 150_000_000
        assert max(one.waited_for, key=lambda rank: one.waited_for[rank]) == late
        assert total(one, "barrier").waited == last.waited


# --- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ticks_of_a_us", [24, 1000, 2400, 5100])
def test_ticks_in_ns(ticks_of_a_us: int) -> None:
    """Of slow and fast counters, for a moment and for a day, before and after the anchor."""
    rate = (1000 << p.RATE_BITS) // ticks_of_a_us
    for us in (0, 1, 1000, 10**6, 10**9, 86_400 * 10**6):
        for sign in (1, -1):
            found = profile_calls.to_ns(sign * us * ticks_of_a_us, rate)
            assert abs(found - sign * us * 1000) <= 2 + us * 1000 * 2e-6


@pytest.mark.parametrize("lasted", [0, 1, 2**31 - 1, 2**31, 10**10, 2**41 - 1, 2**45])
@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_times_in_a_word(lasted: int, part: float) -> None:
    waited = int(lasted * part)
    word = profile_calls.packed(lasted, waited)
    assert 0 <= word < 1 << 63
    for found, wanted in zip(reading.times_in(word), (lasted, waited), strict=True):
        assert found <= wanted
        assert found >= min(wanted, 2**41) - 1024


def test_the_clock_is_read_where_the_counter_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "is_a_clock", lambda: False)
    found, values = recorded(2, when_it_called, TRACED)
    check_times(found, values)


def when_it_called(comm: Communicator) -> list[int]:
    times = [time.monotonic_ns()]
    for _ in range(20):
        comm.barrier()
        times.append(time.monotonic_ns())
        time.sleep(0.001)
    return times


def check_times(found: list[RankProfile], values: list[list[int]]) -> None:
    for one, times in zip(found, values, strict=True):
        assert len(one.spans) == 20
        for span, before, after in zip(one.spans, times, times[1:], strict=False):
            assert before - 1000 <= span.begin <= span.end <= after + 1000


def test_routines_that_run_as_python_are_recorded_too() -> None:
    check_times(*recorded(2, when_it_called, TRACED | {"SHMCOLL_FAULTS": "*:jitter@1"}))


def of_unlike_shapes(comm: Communicator) -> None:
    comm.barrier()
    with pytest.raises(shmcoll.CollectiveMismatch):
        comm.all_reduce(np.ones(2 + comm.rank))


def test_a_call_that_fails_is_recorded() -> None:
    found, _ = recorded(2, of_unlike_shapes, TRACED)
    for one in found:
        assert [span.name for span in calls(one)] == ["barrier", "all_reduce"]
        assert one.spans[1].words == f"all_reduce(float64[{2 + one.rank}], sum)"
        assert total(one, "all_reduce").calls == 1


def test_times_are_those_of_the_clock() -> None:
    """That of `time.monotonic_ns()`, to 1 us."""
    check_times(*recorded(2, when_it_called, TRACED))


# --- what is left -----------------------------------------------------------------------------------------------------


def killed_in_the_midst(comm: Communicator) -> None:
    x = np.ones(2)
    for _ in range(100):
        comm.all_reduce(x)
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_rank_leaves_its_part() -> None:
    job = Job(2, killed_in_the_midst, environment=TRACED, tell=True)
    found: list[RankProfile] = []
    outcomes = job.finish(look=lambda: found.extend(profiles(job.arena)))
    assert outcomes[1].status == -signal.SIGKILL
    assert [len(calls(one)) for one in found] == [100, 100]
    assert [total(one, "all_reduce").calls for one in found] == [100, 100]


def many(comm: Communicator, count: int) -> None:
    x = np.ones(1)
    for _ in range(count):
        comm.all_reduce(x, out=x)


def test_a_full_ring_says_what_it_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "SPANS", 1024)
    found, _ = recorded(2, many, TRACED, 3000)
    for one in found:
        assert len(one.spans) == 1023  # the place of the next span is not read
        assert one.dropped == 3000 - 1023
        assert [span.sequence for span in one.spans] == list(range(1978, 3001))
        assert total(one, "all_reduce").calls == 3000


def test_a_reader_may_come_while_ranks_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds whole spans, in order and without a gap, though the ring comes round while it reads."""
    monkeypatch.setattr(recorder, "SPANS", 64)
    job = Job(2, many, (5000,), environment=TRACED)
    try:
        job.until(lambda: job.sequence(0) > 64, "the ranks call")
        while job.sequence(0) < 5000:
            for one in profiles(job.arena):
                numbers = [span.sequence for span in one.spans]
                assert numbers == list(range(one.dropped + 1, one.dropped + 1 + len(numbers)))
                assert all(a.end <= b.begin + 1000 for a, b in zip(one.spans, one.spans[1:], strict=False))
    finally:
        job.finish()


def test_off_there_is_no_region() -> None:
    def look(comm: Communicator) -> tuple[int, int]:
        comm.barrier()
        arena = comm._local_rank.arena
        own = layout.directory_offset(arena.ranks, comm.rank)
        return arena.load(own + layout.PROFILE), arena.load(own + layout.HELD)

    found, values = recorded(2, look, {})
    assert found == []
    assert values == [(0, 0), (0, 0)]


# --- trust ------------------------------------------------------------------------------------------------------------


def overwritten(comm: Communicator, seed: int) -> None:
    """Write over the regions of all ranks by chance, as another process of the user could."""
    for _ in range(50):
        comm.all_reduce(np.ones(2))
    comm.broadcast_object("x")
    if comm.rank == 0:
        random, arena = np.random.default_rng(seed), comm._local_rank.arena
        for rank in range(comm.size):
            own = layout.directory_offset(arena.ranks, rank) + layout.PROFILE
            region = arena.load(own)
            if seed % 3 == 0:
                arena.store(own, int(random.integers(-(1 << 63), (1 << 63) - 1)) & -(seed % 2 or 4096))
            elif seed % 3 == 1:
                arena.write(region + layout.WORD, random.bytes(p.HEAD_BYTES - layout.WORD))
            else:
                spans = arena.load(region + p.HEAD_TRACE) + p.spans_offset(1 << 16)
                for at in random.integers(0, p.region_bytes(arena.ranks, 2000), 20_000):
                    arena.write(region + p.HEAD_BYTES + int(at), random.bytes(8))
                    arena.write(spans + int(at) % 8000, random.bytes(8))
    comm.barrier()


@pytest.mark.parametrize("seed", range(6))
def test_a_reader_survives_whatever_is_there(seed: int) -> None:
    found, _ = recorded(2, overwritten, TRACED, seed)
    for one in found:
        for span in one.spans:
            assert span.begin <= span.end
            assert 0 <= span.waited <= span.end - span.begin
            assert span.name.isprintable()
            assert set(span.group) <= {0, 1}
        assert set(one.waited_for) <= {0, 1}


def test_numbers_that_are_too_long() -> None:
    assert list(reading._parsed(f"{'9' * 5000},1-{'9' * 5000},2", 4)) == [2]


def test_a_fork_records_nothing() -> None:
    def fork(comm: Communicator) -> int:
        comm.barrier()
        pid = os.fork()
        if pid == 0:
            with pytest.raises(shmcoll.CallNotAllowed, match="statistics: this process was forked by rank 0"):
                comm.statistics()
            os._exit(7 if recorder.current is None else 1)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    found, values = recorded(1, fork, TRACED)
    assert values == [7]
    assert len(found[0].spans) == 1


def in_threads(comm: Communicator) -> None:
    """Each thread calls on a communicator of its own."""
    others, together = [comm.dup() for _ in range(3)], threading.Barrier(3)

    def call(other: Communicator) -> None:
        together.wait()  # else one may have the identity of another one that has ended
        for _ in range(200):
            other.all_reduce(np.ones(1))

    threads = [threading.Thread(target=call, args=(other,)) for other in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_threads_do_not_lose_calls_of_one_another() -> None:
    found, _ = recorded(2, in_threads, TRACED)
    for one in found:
        assert total(one, "all_reduce").calls == 600
        spans = [span for span in one.spans if span.name == "all_reduce" and span.kind == CALL]
        assert Counter(span.communicator for span in spans) == {2: 200, 3: 200, 4: 200}
        assert len({span.thread for span in spans}) == 3
        assert all(span.thread > WORKER for span in spans)
