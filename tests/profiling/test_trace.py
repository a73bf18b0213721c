"""`comm.trace`, `comm.statistics` and `shmcoll.range`, as a program uses them."""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmcoll
from shmcoll.communicator import Communicator
from shmcoll.engine import layout
from shmcoll.profiling import recorder
from shmcoll.profiling.spans import CALL, RANGE
from tests.support.ranks import Job


def run(n: int, function: Any, *args: Any, **environment: str) -> list[Any]:
    outcomes = Job(n, function, args, environment=environment).finish()
    assert [one.traceback for one in outcomes if one.error] == []
    return [one.value for one in outcomes]


def forward(comm: Communicator, file: str | None) -> Any:
    x = np.ones(8)
    comm.all_reduce(x)  # before
    with comm.trace(file) as trace:
        for _ in range(5):
            with shmcoll.range("forward"):
                comm.all_reduce(x)
        comm.broadcast_object("text")
    comm.all_reduce(x)  # after
    if comm.rank:
        assert trace.profiles == []
        return None
    figures = {(one.operation, one.calls) for one in trace.statistics.operations}
    spans = [(one.rank, [(s.kind, s.name) for s in one.spans if s.kind in (CALL, RANGE)]) for one in trace.profiles]
    return figures, spans, str(trace.statistics)


def test_a_block_is_recorded_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    (figures, spans, text), _ = run(2, forward, str(file))
    assert figures == {("all_reduce", 10), ("broadcast_object", 1)}
    each = [(CALL, "all_reduce"), (RANGE, "forward")] * 5 + [(CALL, "broadcast_object")]
    assert spans == [(0, each), (1, each)]
    assert "all_reduce" in text
    events = json.loads(file.read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X" and event["name"] in ("all_reduce", "forward")]
    assert len(slices) == 20


def elsewhere(comm: Communicator, folder: str) -> None:
    before = Path.cwd()
    os.chdir(folder)
    Path(f"rank{comm.rank}").mkdir()
    with comm.trace(b"trace.json"):  # type: ignore[arg-type]
        os.chdir(f"rank{comm.rank}")
    os.chdir(before)


def test_a_block_may_change_the_directory(tmp_path: Path) -> None:
    run(2, elsewhere, str(tmp_path))
    assert (tmp_path / "trace.json").exists()


def twice(comm: Communicator) -> list[int]:
    counts = []
    for n in (3, 7):
        with comm.trace() as trace:
            for _ in range(n):
                comm.barrier()
        counts += [row.calls for row in trace.statistics.operations]
    assert recorder.current is None
    assert comm._dispatcher.profile is None
    before = comm._local_rank.arena.load(layout.directory_offset(2, comm.rank) + layout.HELD)
    with comm.trace(), comm.trace() as inner:
        comm.barrier()
    after = comm._local_rank.arena.load(layout.directory_offset(2, comm.rank) + layout.HELD)
    assert before == after, "the memory of calls is given back"
    recorder.SPANS = 1 << 8
    with comm.trace() as outer:
        for _ in range(recorder.SPANS):
            comm.barrier()
        with comm.trace() as late:
            comm.barrier()
    if comm.rank == 0:
        assert [len(one.spans) for one in late.profiles] == [1, 1]
        assert [one.dropped for one in late.profiles] == [0, 0], "what came before the block is no loss"
        assert all(one.dropped for one in outer.profiles)
    return counts + [row.calls for row in inner.statistics.operations]


def test_blocks_one_after_the_other_and_within_another() -> None:
    assert run(2, twice) == [[6, 14, 2], []]


def ends_within_a_note(comm: Communicator) -> bytes:
    made = comm._local_rank.record(traces=True)
    place, text = made._trace, made.text

    def other_thread(kind: str, name: str) -> int:
        comm._local_rank.record_no_more(traces=True)
        return text(kind, name)

    made.text = other_thread  # type: ignore[method-assign]
    made.note(recorder.IN_RANGE, "late", 1)
    return comm._local_rank.arena.read(place, 64)


def test_a_note_is_not_written_into_memory_that_was_given_back() -> None:
    assert run(1, ends_within_a_note) == [bytes(64)]


def within_a_job_that_counts(comm: Communicator) -> list[int]:
    comm.barrier()
    with comm.trace() as trace:
        comm.barrier()
    comm.barrier()
    comm.barrier()
    found = {row.operation: row.calls for row in comm.statistics().operations}
    comm.barrier()
    return [row.calls for row in trace.statistics.operations] + [found["barrier"]]


def test_a_block_in_a_job_that_counts_anyway() -> None:
    first, second = run(2, within_a_job_that_counts, SHMCOLL_STATS="1")
    assert first[0] == 2
    assert first[-1] in (7, 8)  # the last barrier of the other rank may not have ended, or the one after have begun
    assert second[-1] in (7, 8)


def refused(comm: Communicator, folder: str) -> None:
    why = r"trace: '.*missing/t.json' cannot be written: .*missing is not a directory"
    with pytest.raises(OSError, match=why), comm.trace(f"{folder}/missing/t.json"):
        raise AssertionError("the block does not run")
    for name, kind in (("", OSError), (folder, OSError), (os.fsencode(folder), OSError), ("a\0b", ValueError)):
        with pytest.raises(kind, match=r"trace: .* (directory|null byte)$"), comm.trace(name):  # type: ignore[arg-type]
            raise AssertionError("the block does not run")
    group = comm.split(0)
    group.close()
    with pytest.raises(shmcoll.CallNotAllowed, match=r"trace on rank .*: this communicator is closed"), group.trace():
        raise AssertionError("the block does not run")
    with pytest.raises(TypeError), comm.trace(5):  # type: ignore[arg-type]
        raise AssertionError("the block does not run")
    with pytest.raises(shmcoll.CallNotAllowed, match="nothing is recorded; start the job with shmrun --stats"):
        comm.statistics()
    with pytest.raises(KeyError), comm.trace(f"{folder}/t.json"):
        raise KeyError("of the program")
    assert recorder.current is None
    with pytest.raises(TypeError, match="range: the name must be a string, got 5"):
        shmcoll.range(5)  # type: ignore[arg-type]
    assert comm.all_reduce(np.ones(1)) == 2


def test_what_is_wrong_is_said_on_all_ranks(tmp_path: Path) -> None:
    run(2, refused, str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def late(comm: Communicator) -> Any:
    with comm.trace() as trace:
        for _ in range(3):
            if comm.rank == 1:
                time.sleep(0.2)
            comm.barrier()
    return trace.statistics.document()["slow_rank"]


def test_statistics_name_the_rank_that_was_slow() -> None:
    assert run(2, late)[0] == 1


def ranges_of_a_name(comm: Communicator) -> list[str]:
    with comm.trace() as trace:
        for name in ("", "x" * 5000, "ä\n\x1b[31m", "\ud800"):
            with shmcoll.range(name), shmcoll.range("inner"):
                pass
    return [span.name for one in trace.profiles for span in one.spans if span.kind == RANGE and span.name != "inner"]


def test_names_of_ranges() -> None:
    """Any string; long ones are cut, and nothing in them reaches a terminal."""
    assert run(1, ranges_of_a_name) == [["", "x" * 1000, "ä??[31m", "\\ud800"]]


def raises_in_ranges(comm: Communicator) -> list[str]:
    for _ in (0, 1):
        with pytest.raises(KeyError), shmcoll.range("off"):
            raise KeyError
        with comm.trace() as trace, pytest.raises(KeyError), shmcoll.range("on"):
            raise KeyError
    return [span.name for one in trace.profiles for span in one.spans if span.kind == RANGE]


def test_exceptions_leave_ranges() -> None:
    assert run(1, raises_in_ranges) == [["on"]]


def many_names_and_groups(comm: Communicator) -> list[str]:
    with comm.trace() as trace:
        for i in range(recorder.SLOTS):
            with shmcoll.range(f"step {i}"):
                pass
        with comm.dup() as other:
            other.all_reduce(np.ones(1))
        comm.all_reduce(np.ones(1))
    assert len(comm._local_rank._recorder._numbers) <= recorder.SLOTS
    (one,) = trace.profiles
    unnamed = [span for span in one.spans if span.name == "(a name for which there was no room)"]
    assert 0 < len(unnamed) < 20
    return [f"{span.name} {span.group} {span.sequence}" for span in one.spans if span.name == "all_reduce"]


def test_texts_for_which_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls are recorded all the same."""
    monkeypatch.setattr(recorder, "SLOTS", 256)
    (spans,) = run(1, many_names_and_groups)
    assert spans[0] == "all_reduce () 0"
    assert spans[1].startswith("all_reduce (0,) ")


def traces_in_threads(comm: Communicator) -> list[int]:
    """Each on a communicator of its own, again and again."""
    counts: list[int] = []
    held = layout.directory_offset(comm.size, comm.rank) + layout.HELD

    def trace(other: Communicator) -> None:
        for _ in range(10):
            with other.trace() as found:
                other.barrier()
            if comm.rank == 0:
                counts.extend(row.calls for row in found.statistics.operations if row.operation == "barrier")

    others = [comm.dup() for _ in range(3)]
    before = 0
    for _ in (0, 1):
        threads = [threading.Thread(target=trace, args=(other,)) for other in others]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        before, after = comm._local_rank.arena.load(held), before
    assert before == after, "no block of memory is left over"
    assert recorder.current is None
    return counts


def test_threads_may_trace_at_the_same_time() -> None:
    counts = run(2, traces_in_threads)[0]
    assert len(counts) == 60
    assert all(count >= 2 for count in counts)
