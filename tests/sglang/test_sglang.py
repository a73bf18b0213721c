"""The plug-in in SGLang's own groups, where the Python part of SGLang is installed (`make test-sglang`)."""

from pathlib import Path
from typing import Any

import pytest

sglang = pytest.importorskip("sglang", reason="SGLang is not installed: make test-sglang")
torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from sglang.srt.distributed import parallel_state  # noqa: E402

from tests.support.engine_groups import all_reduce_beside_the_dead, check_that_rank_1_is_named  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # those of SGLang itself


def begin(comm: Any, store: Path, parts: list[list[int]], over: str = "") -> Any:
    """Return SGLang's group of this rank. over: the backend; by default that of SGLang's platform."""
    over = over or parallel_state.get_default_distributed_backend("cpu")
    parallel_state.init_distributed_environment(comm.size, comm.rank, f"file://{store}-{over}", comm.rank, over)
    return parallel_state.GroupCoordinator(
        group_ranks=parts, local_rank=comm.rank, torch_distributed_backend=over, use_pynccl=False, use_mscclpp=False,
        use_custom_allreduce=False, use_torch_symm_mem_all_reduce=False, use_hpu_communicator=False,
        use_xpu_communicator=False, group_name="tp",
    )  # fmt: skip


def calls_of_sglang(comm: Any, store: Path, parts: list[list[int]], over: str) -> Any:
    group = begin(comm, store, parts, over)
    assert dist.get_backend(group.device_group) == (over or "shmcoll")
    me, n = group.rank_in_group, group.world_size
    told = [group.all_reduce(torch.full((2, 3), me + 1).to(kind)) for kind in (torch.bfloat16, torch.float64)]
    told += [group.all_gather(torch.full((2, 3), me), dim) for dim in (0, -1)]
    told += [group.reduce_scatter_along_dim(torch.full((2 * n, n), 1.0 + me), dim) for dim in (0, -1)]
    listed = [torch.zeros(2) for _ in range(n)]
    group.all_gather(torch.full((2,), float(me)), output_tensor_list=listed)
    told += listed
    if not over or over == "shmcoll":
        step = torch.compile(lambda x: group.all_reduce(x * 2) + 1, fullgraph=True, backend="eager")
        assert step(torch.ones(3)).equal(torch.full((3,), 2.0 * n + 1))
    return [one.float().tolist() for one in told]


@pytest.mark.parametrize("parts", [[[0, 1]], [[0, 1], [2, 3]], [[0, 2], [1, 3]], [[0, 1, 2, 3]]])
def test_calls_of_sglang_are_as_over_gloo(ranks: Any, tmp_path: Path, parts: list[list[int]]) -> None:
    n = sum(map(len, parts))
    ours = ranks(n, calls_of_sglang, tmp_path / "store", parts, "")
    assert ours == ranks(n, calls_of_sglang, tmp_path / "store", parts, "gloo")


def calls_of_rows(comm: Any, store: Path) -> None:
    group = begin(comm, store, [[0, 2], [1, 3]])
    me, sizes = group.rank_in_group, [1, 3]
    mine = torch.full((sizes[me], 2), float(me))
    wanted = torch.tensor([0.0, 1.0, 1.0, 1.0])
    assert [one.T[0].tolist() for one in group.all_gatherv([mine, mine.int()], sizes)] == [wanted.tolist()] * 2
    out = torch.empty(4, 2)
    assert group.all_gatherv(mine, sizes, out) is out and out.T[0].equal(wanted)
    whole = torch.arange(8.0).view(4, 2)
    part = (2 * whole).split(sizes)[me]
    assert group.reduce_scatterv(whole, sizes=sizes).equal(part)
    assert group.reduce_scatterv(whole, torch.empty_like(part), sizes).equal(part)
    assert group.reduce_scatterv(whole).equal((2 * whole).chunk(2)[me])


def test_calls_of_rows_which_sglang_has_for_nccl_only(ranks: Any, tmp_path: Path) -> None:
    ranks(4, calls_of_rows, tmp_path / "store")


def a_rank_dies(comm: Any, store: Path) -> Any:
    return all_reduce_beside_the_dead(comm, begin(comm, store, [[0, 1]]))


def test_a_rank_that_dies_is_named(ranks: Any, tmp_path: Path) -> None:
    check_that_rank_1_is_named(ranks.outcomes(2, a_rank_dies, tmp_path / "store"))


def with_the_native_operator(comm: Any, store: Path) -> Any:
    """SGLang would take its own operator for any group of as many ranks as its tensor-parallel one has."""
    parallel_state.is_shm_available = lambda *_: True
    asked = []
    torch.ops.sgl_kernel = type("Kernel", (), {"shm_allreduce": staticmethod(lambda *_: asked.append("all_reduce"))})
    group = begin(comm, store, [[0, 1], [2, 3]])
    parallel_state._TP = group
    across = begin_another(comm, [[0, 2], [1, 3]])
    group.all_reduce(torch.ones(1))
    return asked, across.all_reduce(torch.ones(1)).tolist()


def begin_another(comm: Any, parts: list[list[int]]) -> Any:
    return parallel_state.GroupCoordinator(parts, comm.rank, "shmcoll", False, False, False, False, False, False)


def test_the_native_operator_stays_where_it_is_right(ranks: Any, tmp_path: Path) -> None:
    assert ranks(4, with_the_native_operator, tmp_path / "store") == [(["all_reduce"], [2.0])] * 4
