"""`shmcoll.ranks`: what is there from call to call."""

import os
import sys
import threading
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmcoll

METHODS = ("fork", pytest.param("spawn", marks=pytest.mark.slow))


@pytest.mark.parametrize("method", METHODS)
def test_processes_modules_and_the_communicator_stay(method: str) -> None:
    def first() -> tuple[int, int]:
        import decimal

        decimal.of_the_first_call = 7  # type: ignore[attr-defined]
        comm = shmcoll.init()
        comm.barrier()
        return os.getpid(), id(comm)

    def second() -> tuple[tuple[int, int], int, float]:
        import decimal

        comm = shmcoll.init()
        total = comm.all_reduce(np.float64([comm.rank]))
        return (os.getpid(), id(comm)), decimal.of_the_first_call, float(total[0])  # type: ignore[attr-defined]

    with shmcoll.ranks(3, method=method) as r:
        assert (len(r), repr(r)) == (3, "<shmcoll.Ranks: 3 ranks>")
        places = r.run(first)
        assert len(set(places)) == 3
        assert r.run(second) == [(place, 7, 3.0) for place in places]
    assert repr(r) == "<shmcoll.Ranks: 3 ranks, closed>"


GLOBALS = """
    import shmcoll

    cache, scale, data = {}, 2, None

    class Point:
        def __init__(self, x):
            self.x = x

    def helper(x):
        return x * scale

    def load(n):
        global data, point
        data, point = n + shmcoll.init().rank, Point(n)

    def step():
        cache["calls"] = cache.get("calls", 0) + 1
        return helper(data), cache["calls"], isinstance(point, Point)

    with shmcoll.ranks(2) as r:
        r.run(load, 10)
        print(r.run(step), r.run(step))
        scale = 3  # a change in the caller reaches the ranks
        print(r.run(step), data, cache)

        def helper(x):
            return -x

        print(r.run(step))
        data = 5
        print(r.run(step))
        r.run(load, 10)
        print(r.run(step))

        def use():
            return scale

        def use_by_another():
            return use()

        for scale in (3, 7, 3):
            print(r.run(use if scale == 7 else use_by_another))
"""


def test_global_variables_stay_until_the_caller_changes_them(scripts: Any) -> None:
    assert scripts(GLOBALS).splitlines() == [
        "[(20, 1, True), (22, 1, True)] [(20, 2, True), (22, 2, True)]",
        "[(30, 3, True), (33, 3, True)] None {}",
        "[(-10, 4, True), (-11, 4, True)]",
        "[(-5, 5, True), (-5, 5, True)]",
        "[(-10, 6, True), (-11, 6, True)]",
        "[3, 3]",
        "[7, 7]",
        "[3, 3]",
    ]


@pytest.mark.slow
def test_globals_that_a_failed_call_brought_are_sent_again(scripts: Any) -> None:
    text = """
        import os, shmcoll
        late = 1

        class Stubborn:
            def __reduce__(self):
                return (int, ("no number",))

        def use(_):
            return late

        with shmcoll.ranks(1) as r:
            try:
                r.run(use, Stubborn())
            except ValueError as e:
                print(e)
            print(r.run(use, 0))
    """
    assert scripts(text).splitlines() == ["invalid literal for int() with base 10: 'no number'", "[1]"]


def test_globals_of_a_module_that_ranks_cannot_import(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("made_up_for_this_test_of_ranks")
    exec("def load(x):\n global data\n data = x\ndef get():\n return data", module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with shmcoll.ranks(2) as r:
        r.run(module.load, 5)
        assert r.run(module.get) == [5, 5]


def test_output_of_each_call_goes_where_the_caller_prints(capsys: pytest.CaptureFixture[str]) -> None:
    def speak(text: str) -> None:
        print(text)
        os.write(1, b"from below\n")
        print("to stderr", file=sys.stderr)

    with shmcoll.ranks(1) as r:
        for text in ("one", "two"):
            r.run(speak, text)
            assert capsys.readouterr() == (f"{text}\nfrom below\n", "to stderr\n")
        r.run(lambda: print("x" * 99 + "\n", end="") or ([print("x" * 99) for _ in range(4999)] and None))
        assert capsys.readouterr().out == ("x" * 99 + "\n") * 5000


@pytest.mark.slow
def test_shmcoll_run_and_other_ranks_beside_them() -> None:
    with shmcoll.ranks(2) as r, shmcoll.ranks(1) as s:
        here, there = r.run(os.getpid), s.run(os.getpid)
        assert shmcoll.run(lambda: shmcoll.init().size, 3) == [3, 3, 3]
        assert (r.run(os.getpid), s.run(os.getpid)) == (here, there)


def test_threads_take_turns() -> None:
    results: dict[int, list[int]] = {}
    with shmcoll.ranks(2) as r:

        def call(i: int) -> None:
            results[i] = r.run(lambda: i * 10 + shmcoll.init().rank)

        threads = [threading.Thread(target=call, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == {i: [i * 10, i * 10 + 1] for i in range(3)}


@pytest.mark.slow
def test_large_arrays_and_many_calls() -> None:
    x = np.arange(500_000.0)
    with shmcoll.ranks(2) as r:
        before = r.run(lambda: len(os.listdir("/proc/self/fd")))  # noqa: PTH208
        for i in range(30):
            for rank, result in enumerate(r.run(lambda x, i: x + i + shmcoll.init().rank, x, i)):
                assert np.array_equal(result, x + i + rank)
        after = r.run(lambda: len(os.listdir("/proc/self/fd")))  # noqa: PTH208
    assert [b - a for a, b in zip(before, after, strict=True)] == [after[0] - before[0]] * 2
    assert after[0] - before[0] <= 4  # those of the communicator


@pytest.mark.slow
def test_asynchronous_calls_end_with_the_call_and_others_can_follow() -> None:
    def start() -> None:
        global work
        work = shmcoll.init().all_reduce(np.ones(3), async_op=True)

    def finish() -> tuple[bool, list[float]]:
        return work.done(), work.wait().tolist()  # type: ignore[name-defined]

    with shmcoll.ranks(2) as r:
        for _ in range(2):
            r.run(start)
            assert r.run(finish) == [(True, [2.0] * 3)] * 2


def test_a_posted_receive_stays_posted() -> None:
    def post() -> None:
        global work
        comm = shmcoll.init()
        work = comm.recv(np.empty(1), source=1, async_op=True) if comm.rank == 0 else None

    def send() -> None:
        comm = shmcoll.init()
        if comm.rank == 1:
            comm.send(np.full(1, 7.0), dest=0)
        else:
            work.wait()  # type: ignore[name-defined]

    with shmcoll.ranks(2) as r:
        for _ in range(2):
            r.run(post)
            assert r.run(lambda: work is None or work.done()) == [False, True]  # type: ignore[name-defined]
            r.run(send)


def test_a_program_that_closes_stdout() -> None:
    with shmcoll.ranks(1) as r:
        assert r.run(lambda: sys.stdout.close()) == [None]
        assert r.run(int) == [0]


def test_the_failure_of_an_asynchronous_call_is_raised_once(capfd: pytest.CaptureFixture[str]) -> None:
    def lose() -> None:
        comm = shmcoll.init()
        group = comm.split(0)
        group.all_reduce(np.ones(3 + comm.rank), async_op=True)

    with shmcoll.ranks(2) as r:
        raised: list[BaseException] = []
        for fn in (lose, *[int] * 20):  # the handle may go a moment after the call has ended
            try:
                r.run(fn)
            except shmcoll.CollectiveMismatch as e:
                raised += [e, *e.others.values()]  # type: ignore[attr-defined]
        assert [e.__notes__[0] for e in raised] == ["in an asynchronous call that nobody waited for"] * 2
        assert r.run(int) == [0, 0]


def test_the_end_is_that_of_a_program(tmp_path: Path) -> None:
    def register() -> None:
        import atexit

        rank = shmcoll.init().rank
        atexit.register(lambda: (tmp_path / str(rank)).touch())

    with shmcoll.ranks(2) as r:
        r.run(register)
        assert list(tmp_path.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]


def test_sys_exit_is_the_end_of_a_program_too(tmp_path: Path) -> None:
    def leave() -> None:
        import atexit

        atexit.register((tmp_path / "ended").touch)
        sys.exit(3)

    with shmcoll.ranks(1) as r, pytest.raises(shmcoll.RankFailed, match="exited with code 3, without a result"):
        r.run(leave)
    assert (tmp_path / "ended").exists()


@pytest.mark.parametrize(
    ("error", "text", "arguments"),
    [
        (TypeError, "n must be an int, got 2.0 of type float", {"n": 2.0}),
        (ValueError, "n must be at least 1, got 0", {"n": 0}),
        (ValueError, "method must be 'fork' or 'spawn', got 'thread'", {"n": 1, "method": "thread"}),
    ],
)
def test_bad_arguments(error: type[Exception], text: str, arguments: dict) -> None:
    with pytest.raises(error) as caught:
        shmcoll.ranks(**arguments)
    assert str(caught.value) == text


def test_bad_arguments_of_a_call_leave_the_ranks_alone() -> None:
    lock = threading.Lock()
    with shmcoll.ranks(1) as r:
        with pytest.raises(TypeError, match="fn must be callable"):
            r.run(3)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="timeout must be a positive number of seconds, got 0"):
            r.run(int, timeout=0)
        with pytest.raises(TypeError, match=r"cannot be sent to the ranks: TypeError: cannot pickle '_thread.lock'"):
            r.run(lambda: lock)
        with pytest.raises(TypeError, match="the result of rank 0, a generator, cannot be pickled"):
            r.run(lambda: (i for i in range(3)))
        assert r.run(int) == [0]


def test_a_rank_starts_none() -> None:
    with pytest.raises(shmcoll.CallNotAllowed, match=r"shmcoll.ranks was called by rank 0 of a job"):
        shmcoll.run(lambda: shmcoll.ranks(1), 1)
