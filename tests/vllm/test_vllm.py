"""The plug-in in vLLM's own groups, where the Python part of vLLM is installed (`make test-vllm`)."""

from pathlib import Path
from typing import Any

import pytest

vllm = pytest.importorskip("vllm", reason="vLLM is not installed: make test-vllm")
torch = pytest.importorskip("torch")

from vllm.config import ParallelConfig, VllmConfig, set_current_vllm_config  # noqa: E402
from vllm.distributed import parallel_state  # noqa: E402
from vllm.distributed.device_communicators import cpu_communicator  # noqa: E402
from vllm.platforms import current_platform, resolve_current_platform_cls_qualname  # noqa: E402
from vllm.platforms.cpu import CpuPlatform  # noqa: E402

from shmcoll.torch.vllm import register  # noqa: E402
from tests.support.engine_groups import all_reduce_beside_the_dead, check_that_rank_1_is_named  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # those of vLLM itself


def begin(comm: Any, store: Path, tensor: int, over: str = "shmcoll", native: Any = None) -> None:
    """Make vLLM's groups, tensor-parallel and pipeline-parallel ones. over: "gloo" for vLLM as it is."""
    if over == "gloo":
        type(current_platform).get_device_communicator_cls = CpuPlatform.get_device_communicator_cls
    config = VllmConfig(parallel_config=ParallelConfig(tensor_parallel_size=tensor, distributed_executor_backend="mp"))
    if native:
        torch.ops._C = native
    with set_current_vllm_config(config):
        parallel_state.init_distributed_environment(comm.size, comm.rank, f"file://{store}-{over}", comm.rank, over)
        parallel_state.initialize_model_parallel(tensor, comm.size // tensor)


def groups() -> list[Any]:
    return [one for one in (parallel_state.get_tp_group(), parallel_state.get_pp_group()) if one.world_size > 1]


def calls_of_vllm(comm: Any, store: Path, tensor: int, over: str) -> Any:
    """Make every call of the groups; return the results."""
    begin(comm, store, tensor, over)
    told: list[Any] = []
    for group in groups():
        me, n = group.rank_in_group, group.world_size
        told += [group.all_reduce(torch.full((2, 3), me + 1).to(kind)) for kind in (torch.bfloat16, torch.float32)]
        told += [group.all_gather(torch.full((2, 3), me), dim) for dim in (0, -1)]
        told += [group.reduce_scatter(torch.full((2 * n, n), 1.0 + me), dim) for dim in (0, -1)]
        told += [group.gather(torch.full((1, 2), me), 0, 0), group.broadcast(torch.full((2,), me), n - 1)]
        if me == 0:
            group.send(torch.full((2,), 7.0), 1)
        elif me == 1:
            told.append(group.recv(torch.Size([2]), torch.float32, 0))
        group.barrier()
    return [one if one is None else one.float().tolist() for one in told]


@pytest.mark.parametrize(("n", "tensor"), [(2, 2), (4, 2), (4, 4)])
def test_calls_of_vllm_are_as_over_gloo(ranks: Any, tmp_path: Path, n: int, tensor: int) -> None:
    ours = ranks(n, calls_of_vllm, tmp_path / "store", tensor, "shmcoll")
    assert ours == ranks(n, calls_of_vllm, tmp_path / "store", tensor, "gloo")


def calls_that_vllm_lacks(comm: Any, store: Path, tensor: int) -> None:
    begin(comm, store, tensor)
    for group in groups():
        me, n = group.rank_in_group, group.world_size
        assert isinstance(group.device_communicator, cpu_communicator.CpuCommunicator)
        sizes = list(range(n))
        mine = torch.full((me, 2), float(me))
        wanted = torch.arange(float(n)).repeat_interleave(torch.tensor(sizes))
        for one in group.all_gatherv([mine, mine.to(torch.bfloat16), mine.to(torch.int64)], 0, sizes):
            assert one.float().equal(wanted[:, None].expand(-1, 2))
        assert group.device_communicator.all_gatherv(mine.T, 1, sizes).equal(wanted.expand(2, -1))
        assert group.all_gatherv(torch.full((2, 1), me)).flatten().tolist() == [r for r in range(n) for _ in range(2)]

        whole = (torch.arange(2.0 * sum(sizes)) % 5).view(-1, 2)  # sums that bfloat16 has
        part = (n * whole).split(sizes)[me]
        assert group.reduce_scatterv(whole.to(torch.bfloat16), 0, sizes).float().equal(part)
        assert group.reduce_scatterv(whole.T, 1, sizes).equal(part.T)
        assert group.reduce_scatterv_into_output(whole, torch.empty(me, 2), 0, sizes).equal(part)

        sent = torch.cat([torch.full((me, 1), 10 * me + to) for to in range(n)])
        got = group.device_communicator.all_to_all(sent, sizes, [me] * n)
        assert got.flatten().tolist() == [10 * r + me for r in range(n) for _ in range(r)]
        got = group.device_communicator.all_to_all(torch.arange(n))
        assert got.tolist() == [me] * n

        step = torch.compile(lambda x, group=group: group.all_reduce(x * 2) + 1, fullgraph=True, backend="eager")
        assert step(torch.ones(3)).equal(torch.full((3,), 2.0 * n + 1))


@pytest.mark.parametrize(("n", "tensor"), [(2, 2), (4, 2), (9, 9)])
def test_calls_that_vllm_lacks(ranks: Any, tmp_path: Path, n: int, tensor: int) -> None:
    ranks(n, calls_that_vllm_lacks, tmp_path / "store", tensor)


def wrong_sizes(comm: Any, store: Path) -> list[str]:
    begin(comm, store, 2)
    group = parallel_state.get_tp_group()
    told = []
    for call in (
        lambda: group.reduce_scatterv(torch.ones(3), 0),
        lambda: group.reduce_scatterv(torch.ones(3), 0, [1, 1]),
        lambda: group.all_gatherv(torch.ones(3), 0, [3]),
        lambda: group.all_gatherv(torch.ones(3), 0, [3, 2]),  # rank 1 has 3 rows
    ):
        try:
            call()
        except ValueError as error:
            told.append(str(error))
    return told


def test_wrong_sizes_are_refused_by_all(ranks: Any, tmp_path: Path) -> None:
    for told in ranks(2, wrong_sizes, tmp_path / "store"):
        assert len(told) == 4
        assert "reduce_scatterv in group 'tp:0': 3 rows are not divisible by 2 ranks" in told[0]
        assert "the sizes [1, 1] do not add up to 3 rows" in told[1]
        assert "one size for each of 2 ranks, got 1" in told[2]
        assert "rank 1" in told[3]


def a_rank_dies(comm: Any, store: Path) -> Any:
    begin(comm, store, 2)
    return all_reduce_beside_the_dead(comm, parallel_state.get_tp_group())


def test_a_rank_that_dies_is_named(ranks: Any, tmp_path: Path) -> None:
    check_that_rank_1_is_named(ranks.outcomes(2, a_rank_dies, tmp_path / "store"))


class Native:
    """Stands for the part of vLLM that is compiled: what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.asked.append(name) or 0


def with_the_native_operator(comm: Any, store: Path, tensor: int) -> Any:
    native = Native()
    begin(comm, store, tensor, native=native)
    group = parallel_state.get_tp_group()
    group.all_reduce(torch.ones(1))
    rows = group.all_gatherv(torch.ones(comm.rank, 1), 0, list(range(tensor)))
    return [name for name in native.asked if "reduce" in name], len(rows)


@pytest.mark.parametrize(("n", "asked"), [(2, ["shm_allreduce"]), (9, [])])
def test_the_native_operator_stays_where_vllm_has_it(ranks: Any, tmp_path: Path, n: int, asked: list[str]) -> None:
    """It is for 8 ranks at most."""
    assert ranks(n, with_the_native_operator, tmp_path / "store", n) == [(asked, n * (n - 1) // 2)] * n


def test_vllm_uses_the_plug_in_only_if_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_current_platform_cls_qualname() == "shmcoll.torch.vllm.platform.Platform"
    monkeypatch.delenv("VLLM_PLUGINS")
    assert register() is None
    assert resolve_current_platform_cls_qualname() == "vllm.platforms.cpu.CpuPlatform"
