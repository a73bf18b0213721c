"""The operators `torch.ops.shmcoll`: the table in `operator_cases.py`, compiled, and what happens when a rank fails."""

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")

import torch.distributed as dist  # noqa: E402

import shmcoll  # noqa: E402
import shmcoll.torch  # noqa: E402
from shmcoll.torch import ops  # noqa: E402
from tests.torch import operator_cases  # noqa: E402

OPS = torch.ops.shmcoll


@pytest.mark.parametrize("n", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_every_case_is_that_of_the_model(ranks: Any, tmp_path: Path, n: int) -> None:
    for rank, failed in enumerate(ranks(n, operator_cases.run_all, tmp_path / "store", deadline=120.0)):
        assert not failed, f"rank {rank}:\n" + "\n".join(f"{name}: {text}" for name, text in failed.items())


def compiled(comm: Any, store: Path, backend: str) -> dict[str, str]:
    import torch._inductor.config

    torch._inductor.config.compile_threads = 1  # no processes that outlive the rank
    return operator_cases.run_table(comm, store, {"compiled": lambda r, n: operator_cases.compiled(r, n, backend)})


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own imports
@pytest.mark.slow  # the compiler takes 20 s to begin
@pytest.mark.parametrize(("n", "backend"), [(2, "aot_eager"), (4, "aot_eager"), (2, "inductor")])
def test_compiled_code_has_the_same_results(
    ranks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n: int, backend: str
) -> None:
    if backend == "inductor" and not shutil.which("g++"):
        pytest.skip("it compiles C++, and there is no g++")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    torch.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(1))  # once, before the ranks are forked
    for failed in ranks(n, compiled, tmp_path / "store", backend, deadline=240.0):
        assert not failed, failed["compiled"]


def begin(comm: Any, store: Path) -> int:
    dist.init_process_group(
        "shmcoll", store=dist.FileStore(str(store), comm.size), rank=comm.rank, world_size=comm.size
    )
    group = ops.handle()
    OPS.all_reduce_(torch.ones(3), group)
    return group


def a_rank_dies(comm: Any, store: Path) -> list[Any]:
    group = begin(comm, store)
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    found = []
    for call in (OPS.all_reduce_, OPS.all_reduce, OPS.all_gather_into_tensor):  # the second call finds an ended group
        try:
            call(torch.ones(4), group)
        except dist.DistBackendError as error:
            assert isinstance(error, shmcoll.RankFailed)
            found.append((error.rank, str(error)))
    return found


def test_a_rank_that_dies_is_named(ranks: Any, tmp_path: Path) -> None:
    survivor, dead = ranks.outcomes(2, a_rank_dies, tmp_path / "store")
    assert dead.status == -signal.SIGKILL
    assert survivor.error is None, survivor.traceback
    assert [rank for rank, _ in survivor.value] == [1, 1, 1]
    assert all("all_reduce_ " in text and "rank 1" in text for _, text in survivor.value), survivor.value


def a_fork_calls(comm: Any, store: Path) -> str:
    group = begin(comm, store)
    x = torch.ones(3)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            OPS.all_reduce_(x, group)
        except shmcoll.CallNotAllowed as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.close(writer)
    with open(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    OPS.all_reduce_(x, group)  # the rank itself goes on
    assert x.tolist() == [2.0] * 3
    dist.destroy_process_group()
    return text


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_fork_of_a_rank_is_refused(ranks: Any, tmp_path: Path) -> None:
    for text in ranks(2, a_fork_calls, tmp_path / "store"):
        assert "fork" in text and "\n" not in text, text


def a_handler_raises(comm: Any, store: Path) -> str:
    group = begin(comm, store)
    if comm.rank == 1:
        comm.recv(source=0)
        return ""

    def handler(*_: Any) -> None:
        raise KeyboardInterrupt("by the handler")

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.01)  # while it waits for rank 1
    try:
        OPS.all_reduce_(torch.ones(3), group)
    except KeyboardInterrupt as error:
        text = str(error)
    comm.send(torch.ones(1).numpy(), 1)
    try:
        OPS.all_reduce_(torch.ones(3), group)
    except dist.DistBackendError as error:
        return f"{text}; {error}"
    return "nothing"


def test_a_signal_handler_that_raises_ends_the_group(ranks: Any, tmp_path: Path) -> None:
    first, _ = ranks(2, a_handler_raises, tmp_path / "store")
    assert first.startswith("by the handler; ") and "all_reduce" in first, first
