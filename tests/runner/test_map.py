"""`shmcoll.map` and `imap`, and those of ranks that stay: results in order, each item once, the next item to the next
rank that is free; what an exception keeps."""

import itertools
import os
import pickle
import random
import re
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmcoll
from shmcoll.runner import chunks, progress
from tests.support.waiting import until


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_results_come_in_the_order_of_the_items(method: str) -> None:
    def items() -> Iterator[str]:
        yield from ("a", "bb", "ccc")

    expected = [("a", 1), ("bb", 2), ("ccc", 3)]
    assert shmcoll.map(lambda text: (text, len(text)), items(), n=2, method=method) == expected


def test_several_iterables_end_with_the_shortest() -> None:
    assert shmcoll.map(lambda a, b: a + b, itertools.count(), [10, 20, 30], n=2) == [10, 21, 32]


def test_what_the_builtin_takes() -> None:
    class Sequence:
        def __getitem__(self, at: int) -> int:
            return [3, 4][at]

    class Unsized(list):  # type: ignore[type-arg]
        def __len__(self) -> int:
            raise TypeError("not here")

    assert shmcoll.map(str, iter([3]), n=1, chunk=1 << 80) == ["3"]
    assert shmcoll.map(str, Sequence(), n=1) == ["3", "4"]  # type: ignore[arg-type]
    assert shmcoll.map(str, Unsized([3]), n=1) == ["3"]


def test_each_item_is_taken_once(seed: int) -> None:
    draw = random.Random(seed)
    items = [draw.randrange(1000) for _ in range(500)]
    done = shmcoll.map(lambda item: (item, os.environ["RANK"]), items, n=4)
    assert [item for item, _ in done] == items


def test_many_small_items_go_in_chunks() -> None:
    """The rank that has the first of them keeps a variable, which the others of its chunk find."""
    with shmcoll.ranks(1) as r:
        assert r.map(lambda item: item, range(20_000)) == [*range(20_000)]
    made = chunks.Chunks((range(20_000),), None, 2)
    sizes = []
    while chunk := made.next():
        sizes.append(len(chunk.items))
        made.note(len(chunk.items), 1e-6 * len(chunk.items))
    assert sizes[0] == 1
    assert len(sizes) < 50
    assert sizes[-1] < 500
    fixed = chunks.Chunks((range(10),), 4, 2)
    assert [len(fixed.next().items) for _ in range(3)] == [4, 4, 2]  # type: ignore[union-attr]


def test_a_rank_that_is_free_takes_the_next_item(tmp_path: Path) -> None:
    """The first item ends when all others are done, which the other rank alone can do."""

    def work(item: int) -> str:
        if item:
            (tmp_path / str(item)).touch()
        else:
            until(lambda: sum(1 for _ in tmp_path.iterdir()) == 20)
        return os.environ["RANK"]

    first, *others = shmcoll.map(work, range(21), n=2, timeout=60)
    assert set(others) == {"0", "1"} - {first}


def test_there_are_no_more_ranks_than_items() -> None:
    assert shmcoll.map(lambda _: os.environ["WORLD_SIZE"], "ab", n=8) == ["2", "2"]
    assert shmcoll.map(int, [], n=8) == []
    assert shmcoll.map(int, iter([]), n=2) == []
    assert [*shmcoll.imap(int, [])] == []


def test_the_default_is_one_rank_for_each_core() -> None:
    from shmcoll.engine.system.cores import usable_cores

    sizes = shmcoll.map(lambda _: int(os.environ["WORLD_SIZE"]), range(usable_cores() + 1))
    assert set(sizes) == {usable_cores()}


# --- as they come -----------------------------------------------------------------------------------------------------


def test_imap_reads_no_further_than_it_needs() -> None:
    read = []

    def items() -> Iterator[int]:
        for item in itertools.count():
            read.append(item)
            yield item

    results = shmcoll.imap(lambda item: -item, items(), n=2, chunk=1)
    assert [next(results) for _ in range(5)] == [0, -1, -2, -3, -4]
    assert len(read) < 5 + 40
    assert shmcoll.map(abs, [-1], n=1) == [1]  # in the midst of it
    assert next(results) == -5
    results.close()


def test_imap_returns_what_has_come(tmp_path: Path) -> None:
    def work(item: int) -> int:
        if item == 0:
            until((tmp_path / "seen").exists)
        return item

    results = shmcoll.imap(work, range(3), n=2, ordered=False, chunk=1)
    assert {next(results), next(results)} == {1, 2}
    (tmp_path / "seen").touch()
    assert [*results] == [0]


def test_the_ranks_of_an_imap_end_with_its_iterator() -> None:
    results = shmcoll.imap(lambda _: os.getpid(), itertools.count(), n=1)
    pid = next(results)
    del results
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_ranks_that_stay_map(tmp_path: Path) -> None:
    def load() -> None:
        global factor
        factor = 10

    def scaled(item: int) -> int:
        return factor * item

    with shmcoll.ranks(2) as r:
        r.run(load)
        assert r.map(scaled, range(4)) == [0, 10, 20, 30]
        results = r.imap(scaled, itertools.count())
        assert [next(results), next(results)] == [0, 10]
        with pytest.raises(shmcoll.CallNotAllowed, match=r"these ranks work on the items of Ranks\.imap"):
            r.run(int)
        results.close()
        assert sorted(r.imap(scaled, [3, 1], ordered=False)) == [10, 30]
        with pytest.raises(ZeroDivisionError) as caught:
            r.map(lambda item: 1 // item, [1, 0])
        assert "item 1 of Ranks.map: 0" in caught.value.__notes__
        assert r.run(lambda: 1) == [1, 1]
        results = r.imap(scaled, itertools.count())
        next(results)
    with pytest.raises(shmcoll.CallNotAllowed, match="these ranks are closed"):
        sum(1 for _ in results)


factor = 0


# --- exceptions -------------------------------------------------------------------------------------------------------


def test_the_exception_of_an_item_ends_the_call_and_names_the_item(tmp_path: Path) -> None:
    def work(item: int) -> int:
        (tmp_path / str(item)).touch()
        if item == 3:
            raise ValueError("bad sample")
        return 1 // (item < 10)  # items that nobody takes after the failure

    with pytest.raises(ValueError, match="bad sample") as caught:
        shmcoll.map(work, range(100_000), n=1)
    assert caught.value.__notes__ == ["item 3 of shmcoll.map: 3", "raised by rank 0 of shmcoll.map"]
    assert isinstance(caught.value.__cause__, shmcoll.RemoteTraceback)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "2", "3"]
    assert caught.value.results == {0: 1, 1: 1, 2: 1}  # type: ignore[attr-defined]


def test_an_item_is_shown_in_short() -> None:
    for item, shown in (("x" * 1000, "'xxx"), (np.zeros((2, 3)), "an array of float64, of shape (2, 3)")):
        with pytest.raises(AttributeError) as caught:
            shmcoll.map(lambda item: item.missing, [item], n=1)
        assert caught.value.__notes__[0].startswith(f"item 0 of shmcoll.map: {shown}")
        assert len(caught.value.__notes__[0]) < 150


def test_other_ranks_take_no_more_items_after_a_failure(tmp_path: Path) -> None:
    def work(item: int) -> None:
        if item == 0:
            raise ValueError("bad sample")
        until((tmp_path / "failed").exists)
        (tmp_path / f"item {item}").touch()

    thread = threading.Timer(0.5, (tmp_path / "failed").touch)
    thread.start()
    try:
        with pytest.raises(ValueError, match="bad sample"):
            shmcoll.map(work, range(1000), n=2)
    finally:
        thread.join()
    assert len([path for path in tmp_path.iterdir() if path.name.startswith("item")]) <= 1


def test_exceptions_are_returned_if_they_are_wanted() -> None:
    def work(item: int) -> int:
        if item == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return 10 // item

    results = shmcoll.map(work, range(20), n=2, return_errors=True)
    assert isinstance(results[0], ZeroDivisionError)
    assert isinstance(results[5], shmcoll.RankFailed)
    assert results[5].signal == signal.SIGKILL
    assert results[5].__notes__ == [f"rank {results[5].rank} had item 5: 5"]
    assert [one for at, one in enumerate(results) if at not in (0, 5)] == [10 // i for i in range(1, 20) if i != 5]
    assert [type(one) for one in shmcoll.imap(work, [0, 1], n=1, return_errors=True)] == [ZeroDivisionError, int]
    assert isinstance(shmcoll.map(lambda _: ValueError("a result"), [1], n=1)[0], ValueError)


def test_exceptions_that_forbid_attributes_are_those_of_their_items() -> None:
    class Frozen(Exception):
        def __setattr__(self, name: str, value: object) -> None:
            raise TypeError("not here")

    def work(item: int) -> int:
        if item == 1:
            raise Frozen("bad sample")
        return item

    first, second, third = shmcoll.map(work, range(3), n=1, return_errors=True)
    text = r"Frozen: bad sample \(the exception itself cannot be unpickled here: TypeError: not here\)"
    assert (first, third) == (0, 2)
    assert re.search(text, str(second))
    with pytest.raises(shmcoll.RankFailed, match=text):
        shmcoll.map(work, [1], n=1)


def test_a_function_that_raises_stop_iteration() -> None:
    def work(item: int) -> int:
        return next(iter([])) if item == 2 else item

    for call in (lambda: shmcoll.map(work, range(4), n=1), lambda: [*shmcoll.imap(work, range(4), n=1)]):
        with pytest.raises(RuntimeError, match=r"^fn raised StopIteration\(\)\n") as caught:
            call()
        assert caught.value.__notes__[0].startswith(("item 2 of shmcoll.map: 2", "item 2 of shmcoll.imap: 2"))
        assert isinstance(caught.value.__cause__, shmcoll.RemoteTraceback)
        assert isinstance(caught.value.results, dict)  # type: ignore[attr-defined]


def test_a_rank_that_dies_ends_the_call_and_other_results_are_kept() -> None:
    with pytest.raises(
        shmcoll.RankFailed, match=r"rank . of shmcoll.map exited with code 3, without a result"
    ) as caught:
        shmcoll.map(lambda item: os._exit(3) if item == 2 else item, range(4), n=2, chunk=1)
    assert caught.value.__notes__ == [f"rank {caught.value.rank} had item 2: 2"]
    assert {0: 0, 1: 1}.items() <= caught.value.results.items()  # type: ignore[attr-defined]
    with pytest.raises(shmcoll.RankFailed) as caught:  # nobody is left for the other items
        shmcoll.map(lambda item: os._exit(3) if item == 1 else item, range(4), n=1, return_errors=True)
    assert caught.value.results == {0: 0}  # type: ignore[attr-defined]


def test_a_rank_that_is_killed_before_it_has_noted_its_chunk(tmp_path: Path) -> None:
    """Nobody has the chunk, as the caller finds out: another rank gets it."""

    def forget_the_note() -> None:
        from shmcoll.runner import map_worker

        map_worker.packets.receive = _killed_once(map_worker.packets.receive, tmp_path / "killed")  # type: ignore

    def work(item: int) -> int:
        if item == 0:
            forget_the_note()
        else:
            until((tmp_path / "killed").exists)  # else this rank could take all chunks
        return item

    results = shmcoll.map(work, range(6), n=2, chunk=1, return_errors=True, timeout=60)
    assert results == [*range(6)]


def _killed_once(receive: Callable[..., Any], mark: Path) -> Callable[..., Any]:
    def receive_and_die(*arguments: Any) -> Any:
        packet = receive(*arguments)
        if packet:
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return packet

    return receive_and_die


def test_an_iterable_that_raises() -> None:
    def items() -> Iterator[int]:
        yield from range(3)
        raise OSError("broken")

    for call in (lambda: shmcoll.map(abs, items(), n=1), lambda: [*shmcoll.imap(abs, items(), n=1)]):
        with pytest.raises(OSError, match="broken") as caught:
            call()
        assert "that had given 3 items" in caught.value.__notes__[0]
    assert shmcoll.map(abs, [-1], n=1) == [1]


def test_ctrl_c_keeps_what_there_is(tmp_path: Path) -> None:
    def work(item: int) -> int:
        if item == 2:
            (tmp_path / "waits").touch()
            until(lambda: False)
        return item

    def interrupt() -> None:
        until((tmp_path / "waits").exists)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt) as caught:
        shmcoll.map(work, range(100), n=1, chunk=4)
    thread.join()
    assert caught.value.results == {0: 0, 1: 1}  # type: ignore[attr-defined]
    assert "rank 0 had item 2: 2" in caught.value.__notes__[0]


def test_the_end_of_the_time_keeps_what_there_is() -> None:
    with pytest.raises(TimeoutError) as caught:
        shmcoll.map(lambda item: item == 3 and until(lambda: False), range(9), n=1, chunk=1, timeout=1)
    assert caught.value.results == {0: False, 1: False, 2: False}  # type: ignore[attr-defined]


# --- memory -----------------------------------------------------------------------------------------------------------


def test_large_arrays_are_mapped_and_belong_to_their_receiver() -> None:
    rows = [np.full(1 << 17, i, np.float64) for i in range(12)]  # 1 MiB each

    def doubled(row: np.ndarray) -> np.ndarray:
        row *= 2
        return row

    results = shmcoll.map(doubled, rows, n=2)
    assert [float(one[0]) for one in rows] == [*range(12)]
    assert [float(one.sum()) for one in results] == [2.0 * i * (1 << 17) for i in range(12)]
    results[1][:] = 7
    assert float(results[2][0]) == 4
    pid = os.fork()  # what a child writes there, its parent does not see
    if not pid:
        results[2][:] = 99
        os._exit(0)
    os.waitpid(pid, 0)
    assert float(results[2][0]) == 4


def test_the_memory_of_results_is_freed_with_them() -> None:
    def mapped() -> int:
        return Path("/proc/self/maps").read_text().count("shmcoll-items")

    files = len([*Path("/proc/self/fd").iterdir()])
    results = shmcoll.map(lambda i: np.full(1 << 18, i), range(30), n=2)
    assert mapped() == 30
    assert len([*Path("/proc/self/fd").iterdir()]) == files
    view = results[3][10:20]
    del results
    assert mapped() == 1
    assert view.tolist() == [3] * 10
    del view
    assert mapped() == 0


def test_an_array_that_a_rank_keeps_is_not_overwritten() -> None:
    def keep(row: np.ndarray) -> None:
        kept.append(row)

    def sums() -> list[float]:
        return [float(row.mean()) for row in kept]

    with shmcoll.ranks(1) as r:
        r.map(keep, (np.full(1 << 17, i, float) for i in range(20)), chunk=1)
        assert r.run(sums) == [[float(i) for i in range(20)]]


kept: list[np.ndarray] = []


def test_an_array_that_is_sent_again_and_again_is_said_once(scripts: Any) -> None:
    text = scripts("""
        import sys
        import numpy as np
        import shmcoll

        sys.stderr = sys.stdout
        for fresh in range(6):
            shmcoll.map(len, [np.zeros(1 << 18)], n=1)
        print("now")
        same = np.zeros(1 << 18)
        shmcoll.map(lambda item: item[0], ((i, same) for i in range(8)), n=1, chunk=1)
        for _ in range(8):
            shmcoll.run(len, 1, same)
    """)
    assert text.splitlines() == [
        "now",
        "shmcoll: the same array, of float64 and shape (262144,), is sent to ranks again and again, 2.0 MiB each time; "
        "shmcoll.shared(array) copies it once",
    ]


def test_items_may_share_an_array() -> None:
    x = shmcoll.shared(np.zeros(6))

    def fill(item: tuple[int, np.ndarray]) -> None:
        number, part = item
        part[:] = number

    shmcoll.map(fill, ((i, x[2 * i : 2 * i + 2]) for i in range(3)), n=2)
    assert x.tolist() == [0, 0, 1, 1, 2, 2]


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "text", "arguments", "keywords"),
    [
        (TypeError, "fn must be callable, got 3 of type int", (3, []), {}),
        (TypeError, "each of the iterables must be one of the arguments of fn, got 3", (int, 3), {}),
        (TypeError, "n must be an int, got '2' of type str", (int, [1]), {"n": "2"}),
        (ValueError, "n must be at least 1, got 0", (int, [1]), {"n": 0}),
        (ValueError, "chunk must be at least 1, got 0", (int, [1]), {"chunk": 0}),
        (TypeError, "chunk must be an int, got 1.5 of type float", (int, [1]), {"chunk": 1.5}),
        (ValueError, "timeout must be a positive number of seconds, got -1", (int, [1]), {"timeout": -1}),
    ],
)
def test_bad_arguments(error: type[Exception], text: str, arguments: tuple, keywords: dict) -> None:
    for call in (shmcoll.map, shmcoll.imap):
        with pytest.raises(error) as caught:
            call(*arguments, **keywords)
        assert str(caught.value) == text


def test_an_item_that_cannot_be_pickled() -> None:
    items = [1, threading.Lock(), 2]
    with pytest.raises(TypeError, match=r"cannot be sent to the ranks: TypeError: cannot pickle '_thread.lock'"):
        shmcoll.map(id, items, n=2)
    with pytest.raises(TypeError, match=r"it is in item 1$"):
        shmcoll.map(id, items, n=2)
    first, second, third = shmcoll.map(str, items, n=2, chunk=3, return_errors=True)
    assert (first, third) == ("1", "2")
    assert isinstance(second, TypeError)


def test_an_item_that_cannot_be_unpickled() -> None:
    class Broken:
        def __reduce__(self) -> Any:
            return _broken, ()

    with pytest.raises(pickle.UnpicklingError, match="not here") as caught:
        shmcoll.map(str, [1, Broken(), 3], n=1, chunk=3)
    assert any(note.startswith("item 1 of shmcoll.map: ") for note in caught.value.__notes__)


def _broken() -> None:
    raise pickle.UnpicklingError("not here")


def test_a_result_that_cannot_be_pickled_is_that_of_an_item() -> None:
    def letters(item: int) -> Iterator[str]:
        yield from "ab"

    async def later(item: int) -> int:
        return item

    lock = threading.Lock
    for fn, text in (
        (
            letters,
            "item 0, a generator, cannot be pickled: TypeError: cannot pickle 'generator' object; make a list of it",
        ),
        (later, "item 0, a coroutine, .*; give it to asyncio.run in the function"),
        (lambda item: lock() if item == 2 else item, "item 2, a _thread.lock, cannot be pickled: "),
    ):
        with pytest.raises(TypeError, match=f"^the result of {text}"):
            shmcoll.map(fn, range(3), n=1)


def test_a_result_that_cannot_be_unpickled_here() -> None:
    class Broken:
        def __reduce__(self) -> Any:
            return _broken_here, (os.getpid(),)

    with pytest.raises(TypeError, match="the result of an item cannot be unpickled here: UnpicklingError: not here"):
        shmcoll.map(lambda _: Broken(), [1], n=1)
    found = shmcoll.map(lambda item: Broken() if item == 1 else item, range(3), n=1, chunk=3, return_errors=True)
    for number, one in enumerate(found):  # they came together
        assert str(one).startswith("a result of the items 0 to 2 cannot be unpickled here: ")
        assert one.__notes__ == [f"item {number} of shmcoll.map: {number}"]


def _broken_here(pid: int) -> None:
    if os.getpid() != pid:
        raise pickle.UnpicklingError("not here")


def test_a_collective_in_map_is_refused() -> None:
    with shmcoll.ranks(2) as r:
        r.run(lambda: shmcoll.init().barrier())
        for of, call in (("shmcoll.map", lambda f: shmcoll.map(f, [1], n=1)), ("Ranks.map", lambda f: r.map(f, [1]))):
            with pytest.raises(shmcoll.CallNotAllowed, match=f"was called inside {of}: its ranks work on different"):
                call(lambda _: shmcoll.init().barrier())
        assert [one.tolist() for one in r.run(lambda: shmcoll.init().all_reduce(np.ones(1)))] == [[2.0], [2.0]]


def test_a_rank_does_not_map() -> None:
    with pytest.raises(shmcoll.CallNotAllowed, match=r"shmcoll.map was called by rank 0 of a job"):
        shmcoll.run(lambda: shmcoll.map(int, [1]), 1)
    with pytest.raises(shmcoll.CallNotAllowed, match=r"shmcoll.Executor was called by rank 0 of a job"):
        shmcoll.map(lambda _: shmcoll.Executor(1), [1], n=1)


# --- progress ---------------------------------------------------------------------------------------------------------


def test_progress_is_quiet_in_a_file(capfd: pytest.CaptureFixture[str]) -> None:
    assert shmcoll.map(abs, range(3), n=1, progress=True) == [0, 1, 2]
    assert capfd.readouterr() == ("", "")


def test_progress_in_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [*shmcoll.imap(abs, range(3), n=1, progress=True)] == [0, 1, 2]
    assert "3/3" in capsys.readouterr().err


def test_progress_without_tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "find_spec", lambda _: None)
    with pytest.raises(ImportError, match=r"pip install 'shmcoll\[progress\]'"):
        shmcoll.map(abs, [1], progress=True)
