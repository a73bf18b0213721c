"""What `shmcoll.run` calls, what it returns, and what its ranks find around them."""

import contextlib
import io
import os
import random
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmcoll
from shmcoll.runner import api
from tests.support.patience import PATIENCE

METHODS = ("fork", pytest.param("spawn", marks=pytest.mark.slow))


@pytest.mark.parametrize("method", METHODS)
def test_results_come_in_rank_order(method: str) -> None:
    def slow_start(scale: int) -> tuple[int, int, float]:
        comm = shmcoll.init()
        total = comm.all_reduce(np.float64([comm.rank]))
        return comm.rank * scale, comm.size, float(total[0])

    assert shmcoll.run(slow_start, 3, 10, method=method) == [(0, 3, 3.0), (10, 3, 3.0), (20, 3, 3.0)]


def test_function_need_not_join() -> None:
    assert shmcoll.run(lambda: int(os.environ["RANK"]), 2) == [0, 1]


def test_builtin_functions_and_one_rank() -> None:
    assert shmcoll.run(divmod, 1, 7, 2) == [(3, 1)]


def test_closures_and_what_they_refer_to() -> None:
    offset = [5]

    def inner(x: int) -> int:
        return x + offset[0]

    assert shmcoll.run(lambda x: inner(x) * shmcoll.init().rank, 2, 1) == [0, 6]
    offset[0] = 7
    assert shmcoll.run(lambda x: inner(x), 1, 1) == [8]


def test_module_that_ranks_cannot_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """As pytest loads tests, and as notebooks' helpers are made up: its functions are sent with what they refer to."""
    module = types.ModuleType("made_up_for_this_test")
    exec("FACTOR = 3\ndef helper(x): return x * FACTOR\ndef function(x): return helper(x)", module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert shmcoll.run(module.function, 2, 5) == [15, 15]


@pytest.mark.parametrize("method", METHODS)
def test_large_arrays_in_and_out(method: str) -> None:
    x = np.arange(3_000_000, dtype=np.float64).reshape(1500, 2000)
    for rank, result in enumerate(shmcoll.run(lambda x: x + shmcoll.init().rank, 2, x, method=method)):
        assert np.array_equal(result, x + rank)
        result[:] = 0  # it is the caller's own


def test_many_ranks() -> None:
    assert shmcoll.run(lambda: shmcoll.init().rank, 40) == list(range(40))


def test_functions_and_classes_of_a_script(scripts: Any) -> None:
    text = """
        import shmcoll

        class Point:
            def __init__(self, x):
                self.x = x

        class Odd(Exception):
            pass

        def work(point):
            rank = shmcoll.init().rank
            if point.x < 0:
                raise Odd(rank)
            return Point(point.x + rank)

        first, second = shmcoll.run(work, 2, Point(5))
        print(first.x, second.x, isinstance(second, Point))
        try:
            shmcoll.run(work, 1, Point(-1), method="spawn")
        except Odd as e:
            print(e.args)
    """
    assert scripts(text) == "5 6 True\n(0,)\n"


@pytest.mark.parametrize("method", METHODS)
def test_ranks_have_the_callers_place(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shmcoll.run(int, 1)  # the server runs already, elsewhere
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["program", "--flag"])
    monkeypatch.setenv("SOME_SETTING", "set")
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    (tmp_path / "module_of_the_test.py").write_text("VALUE = 41")

    def look() -> tuple:
        import module_of_the_test  # type: ignore[import-not-found]

        found = {n: os.environ.get(n) for n in ("SOME_SETTING", "PYTHONPATH", "PYTHONSAFEPATH", "LOCAL_WORLD_SIZE")}
        return module_of_the_test.VALUE, Path.cwd(), sys.argv, sys.path, found, sys.stdin.read()

    for value, folder, argv, path, found, given in shmcoll.run(look, 2, method=method):
        assert (value, folder, argv, path, given) == (41, tmp_path, ["program", "--flag"], sys.path, "")
        inherited = os.environ.get("PYTHONPATH")
        assert list(found.values()) == ["set", inherited, None, "2"]


def test_ranks_draw_different_numbers() -> None:
    def draw() -> tuple[float, float]:
        return random.random(), float(np.random.rand())

    drawn = [x for result in shmcoll.run(draw, 3) for x in result]
    drawn += [x for result in shmcoll.run(draw, 3) for x in result]
    assert len(set(drawn)) == 12


@pytest.mark.parametrize("method", METHODS)
def test_forked_and_fresh_ranks_look_alike(method: str) -> None:
    def look() -> tuple:
        import signal

        shmcoll.init()
        handlers = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD)]
        descriptors = sum(1 for _ in Path("/proc/self/fd").iterdir())
        main = sys.modules["__main__"]
        threads = [t.name for t in threading.enumerate()]
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        apart = os.getpgid(0) == os.getpid()
        return (
            [str(h) for h in handlers],
            descriptors,
            vars(main).get("__file__"),
            threads,
            blocked,
            apart,
            sys.stdout.name,
        )

    handlers, descriptors, main, threads, blocked, apart, _ = shmcoll.run(look, 2, method=method)[1]
    assert [h.rpartition(".")[2] for h in handlers[1:]] == ["0", "1", "0"] or handlers[1:] == [
        "Handlers.SIG_DFL", "Handlers.SIG_IGN", "Handlers.SIG_DFL",
    ]  # fmt: skip
    assert "default_int_handler" in handlers[0]
    assert descriptors <= 11
    assert main == vars(sys.modules["__main__"]).get("__file__")
    assert (threads, blocked, apart) == (["MainThread"], set(), True)


def test_output_goes_where_the_caller_prints(capsys: pytest.CaptureFixture[str]) -> None:
    def speak() -> None:
        print("grün", shmcoll.init().rank)
        print("to stderr", file=sys.stderr)
        os.write(1, b"from below\n")

    shmcoll.run(speak, 2)
    out, err = capsys.readouterr()
    assert sorted(out.splitlines()) == ["from below", "from below", "grün 0", "grün 1"]
    assert err == "to stderr\nto stderr\n"
    with contextlib.redirect_stdout(io.StringIO()) as there:
        shmcoll.run(speak, 1)
    assert there.getvalue() == "grün 0\nfrom below\n"


def test_more_output_than_a_pipe_holds(capsys: pytest.CaptureFixture[str]) -> None:
    shmcoll.run(lambda: [print("x" * 99) for _ in range(5000)] and None, 2)
    assert capsys.readouterr().out == ("x" * 99 + "\n") * 10000


def test_threads_take_turns() -> None:
    results: dict[int, list[int]] = {}

    def call(i: int) -> None:
        results[i] = shmcoll.run(lambda: i * 10 + shmcoll.init().rank, 2)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: [i * 10, i * 10 + 1] for i in range(3)}


def test_forked_child_has_a_server_of_its_own() -> None:
    def parent_of_rank() -> int:
        return os.getppid()

    [ours] = shmcoll.run(parent_of_rank, 1)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.write(write, str(shmcoll.run(parent_of_rank, 1)[0]).encode())
            api.shutdown()
        os._exit(0)
    os.close(write)
    with open(read) as pipe:
        theirs = int(pipe.read())
    os.waitpid(child, 0)
    assert theirs != ours
    assert shmcoll.run(parent_of_rank, 1) == [ours]


@pytest.mark.slow
def test_more_blas_threads_than_one_means_fresh_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where numpy's BLAS has threads, as its wheels for machines of several cores do, a fork would lose them."""
    [one] = shmcoll.run(lambda: os.environ["OMP_NUM_THREADS"], 1)
    assert one == os.environ.get("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert shmcoll.run(lambda: (os.environ["OMP_NUM_THREADS"], shmcoll.init().rank), 2) == [("2", 0), ("2", 1)]


def test_nothing_is_left_to_warn_about_at_the_end() -> None:
    """As under `python -X dev`."""
    code = "import shmcoll; print(shmcoll.run(lambda: 1, 2))"
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", code]
    told = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (told.returncode, told.stdout, told.stderr) == (0, "[1, 1]\n", "")


def test_server_ends_and_starts_again() -> None:
    [first] = shmcoll.run(os.getppid, 1)
    assert shmcoll.run(os.getppid, 2) == [first, first]
    api.shutdown()
    assert not Path(f"/proc/{first}").exists()
    assert shmcoll.run(os.getppid, 1) != [first]
