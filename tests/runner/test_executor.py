"""`shmcoll.Executor` as an executor of `concurrent.futures`, and with libraries that take one."""

import asyncio
import concurrent.futures
import importlib
import itertools
import multiprocessing
import os
import signal
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmcoll
from shmcoll.runner.map_call import MapCall
from tests.support.waiting import until


def test_what_executors_do() -> None:
    with shmcoll.Executor(2) as executor:
        assert isinstance(executor, concurrent.futures.Executor)
        assert executor.submit(pow, 2, exp=10).result() == 1024
        assert [*executor.map(pow, range(5), itertools.repeat(2), chunksize=2)] == [0, 1, 4, 9, 16]
        with pytest.raises(ZeroDivisionError) as caught:
            executor.submit(divmod, 1, 0).result()
        assert any(note.endswith(": divmod(1, 0)") for note in caught.value.__notes__)
        with pytest.raises(SystemExit):
            executor.submit(lambda: exit(3)).result()
        with pytest.raises(ValueError, match="chunksize"):
            executor.map(abs, [1], chunksize=0)
        with pytest.raises(TypeError, match="cannot be sent to the ranks"):
            executor.submit(id, threading.Lock()).result()
        with pytest.raises(TypeError, match="fn must be callable, got 3"):
            executor.submit(3)  # type: ignore[arg-type]
        large = executor.submit(np.full, 1 << 18, 3.0).result()
        assert large.sum() == 3 << 18
        assert asyncio.run(_in_loop(executor)) == 32
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        executor.submit(abs, 1)


async def _in_loop(executor: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(executor, pow, 2, 5)


def test_futures_that_no_rank_has_begun_can_be_cancelled(tmp_path: Path) -> None:
    executor = shmcoll.Executor(1)
    first = executor.submit(until, (tmp_path / "go").exists)
    others = [executor.submit(abs, i) for i in range(10)]
    assert others[-1].cancel()
    executor.shutdown(wait=False, cancel_futures=True)
    assert sum(one.cancelled() for one in others) >= 9
    (tmp_path / "go").touch()
    executor.shutdown()
    assert first.done()
    assert all(one.done() for one in others)


def test_a_timeout_of_map(tmp_path: Path) -> None:
    with shmcoll.Executor(1) as executor:
        results = executor.map(lambda item: item and until((tmp_path / "go").exists), [0, 1], timeout=0.5)
        assert next(results) == 0
        with pytest.raises(TimeoutError):
            next(results)
        (tmp_path / "go").touch()


def test_a_shutdown_while_the_thread_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread does not close the socket into which a message to it is about to be written."""
    wake = MapCall.wake

    def late(call: MapCall) -> None:
        if executor._waiting.is_shut:
            wake(call)  # the thread may end from now on
            executor._thread.join(0.5)
        wake(call)

    monkeypatch.setattr(MapCall, "wake", late)
    executor = shmcoll.Executor(1)
    assert executor.submit(abs, -1).result() == 1
    executor.shutdown()


def begin(value: int) -> None:
    global begun
    begun = value


def look(_: int) -> int:
    return begun


begun = 0


def test_an_initializer() -> None:
    with shmcoll.Executor(2, initializer=begin, initargs=(7,)) as executor:
        assert [*executor.map(look, range(4))] == [7] * 4
    with shmcoll.Executor(1, initializer=divmod, initargs=(1, 0)) as executor:
        with pytest.raises(concurrent.futures.BrokenExecutor) as caught:
            executor.submit(abs, 1).result()
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_rank_that_dies_breaks_the_executor() -> None:
    with shmcoll.Executor(2) as executor:
        futures = [
            executor.submit(os.kill, os.getpid(), 0),
            executor.submit(lambda: os.kill(os.getpid(), signal.SIGKILL)),
        ]
        with pytest.raises(concurrent.futures.BrokenExecutor) as caught:
            futures[1].result()
        assert isinstance(caught.value, shmcoll.RankFailed)
        assert caught.value.signal == signal.SIGKILL
        until(lambda: executor._waiting.broken is not None)
        with pytest.raises(concurrent.futures.BrokenExecutor):
            executor.submit(abs, 1)


def test_a_fork_cannot_use_it() -> None:
    with shmcoll.Executor(1) as executor:
        assert executor.submit(abs, -1).result() == 1
        pid = os.fork()
        if not pid:
            code = 1
            try:
                executor.submit(abs, 1)
            except shmcoll.CallNotAllowed:
                executor.shutdown()
                forgotten = executor._forgotten
                forgotten()  # what follows when it is forgotten
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        assert executor.submit(abs, -2).result() == 2


def test_an_executor_that_is_forgotten_completes_its_futures() -> None:
    executor = shmcoll.Executor(1)
    thread = executor._thread
    future = executor.submit(abs, -3)
    del executor
    thread.join()
    assert future.result() == 3


def test_functions_of_a_script_keep_what_the_initializer_has_set(scripts: Any) -> None:
    assert scripts("""
        import shmcoll

        model = None
        factor = 2

        def load(base):
            global model
            model = base

        def work(item):
            return factor * (model + item)

        with shmcoll.Executor(2, initializer=load, initargs=(10,)) as executor:
            print(*executor.map(work, range(4)), executor.submit(work, 5).result())
            factor = 3
            print(*executor.map(work, range(4), chunksize=2))
    """).splitlines() == ["20 22 24 26 30", "30 33 36 39"]


def test_the_end_of_the_program_waits_for_futures(scripts: Any) -> None:
    assert scripts("""
        import shmcoll, time

        executor = shmcoll.Executor(1)
        executor.submit(lambda: (time.sleep(0.1), print("done")))
    """).splitlines() == ["done"]


@pytest.mark.parametrize(
    ("error", "text", "keywords"),
    [
        (TypeError, r"unexpected keyword argument 'max_workers'; did you mean n=\?", {"max_workers": 2}),
        (TypeError, "initializer must be callable, got 3", {"initializer": 3}),
        (ValueError, "n must be at least 1, got 0", {"n": 0}),
        (ValueError, "method must be 'fork' or 'spawn'", {"method": "x"}),
    ],
)
def test_wrong_arguments(error: type[Exception], text: str, keywords: dict) -> None:
    with pytest.raises(error, match=text):
        shmcoll.Executor(**keywords)


# --- libraries --------------------------------------------------------------------------------------------------------


def test_joblib() -> None:
    joblib = pytest.importorskip("joblib")
    importlib.import_module("shmcoll.joblib")
    with joblib.parallel_config("shmcoll", n_jobs=2):
        assert joblib.Parallel()(joblib.delayed(abs)(i) for i in range(-5, 5)) == [5, 4, 3, 2, 1, 0, 1, 2, 3, 4]
        with pytest.raises(ZeroDivisionError):
            joblib.Parallel()(joblib.delayed(divmod)(1, i) for i in range(5))


def test_joblib_ends_what_runs() -> None:
    joblib = pytest.importorskip("joblib")
    importlib.import_module("shmcoll.joblib")
    with joblib.parallel_config("shmcoll", n_jobs=2), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about tasks that were cancelled
        with pytest.raises(ZeroDivisionError):
            joblib.Parallel()([joblib.delayed(signal.pause)(), joblib.delayed(divmod)(1, 0)])
        with pytest.raises(multiprocessing.TimeoutError):
            joblib.Parallel(timeout=0.5)(joblib.delayed(signal.pause)() for _ in range(8))
        results = joblib.Parallel(return_as="generator")(
            [joblib.delayed(abs)(-1), *(joblib.delayed(signal.pause)() for _ in range(8))]
        )
        assert next(results) == 1
        results.close()


def test_an_executor_that_is_broken_says_by_what() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with shmcoll.Executor(1) as executor:
        assert str(executor.submit(stop).exception()) == "KeyboardInterrupt"


@pytest.mark.slow
def test_scipy() -> None:
    optimize = pytest.importorskip("scipy.optimize")
    with shmcoll.Executor(2) as executor:
        found = optimize.differential_evolution(
            lambda x: (x**2).sum(), [(-1, 1)] * 2, workers=executor.map, updating="deferred", maxiter=3, seed=1
        )
    assert found.fun < 0.1


@pytest.mark.slow
def test_dask() -> None:
    dask = pytest.importorskip("dask")
    with shmcoll.Executor(2) as executor:
        total = dask.delayed(sum)([dask.delayed(abs)(-i) for i in range(5)])
        assert total.compute(scheduler=executor) == 10
        assert total.compute(scheduler="processes", pool=executor) == 10


@pytest.mark.slow
def test_emcee() -> None:
    emcee = pytest.importorskip("emcee")
    with shmcoll.Executor(2) as executor:
        sampler = emcee.EnsembleSampler(8, 2, lambda x: -0.5 * (x**2).sum(), pool=executor)
        sampler.run_mcmc(np.random.default_rng(1).normal(size=(8, 2)), 3)
    assert sampler.get_chain().shape == (3, 8, 2)
