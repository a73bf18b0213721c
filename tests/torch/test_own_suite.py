"""torch's own tests of backends (`torch.testing._internal.distributed.distributed_test`), run with this backend.

The tests decide by the name of a backend whether they run. They are imported as those of "mpi", a backend for the CPU
for which few of them skip. Tests for accelerators, and those for gloo or NCCL by name, skip themselves. LEFT_OUT lists
what cannot pass with this backend, and why.
"""

import os
import traceback
import unittest
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")
pytest.importorskip("expecttest", reason="expecttest, which torch's tests need, is not installed")

import torch.distributed as dist  # noqa: E402

import shmcoll.torch  # noqa: E402, F401  # registers the backend

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(torch.__version__ >= (2, 14), reason="LEFT_OUT is for the tests of torch 2.13"),
]

SIZE = 4

#: tests that are not run: parts of their names, and why
LEFT_OUT = {
    "cuda": "needs a GPU",
    "nccl": "is for NCCL",
    "_gloo": "is for gloo",
    "torch_profiler": "torch's profiler records what backends in C++ do",
    "autograd_profiler": "torch's profiler records what backends in C++ do",
    "monitored_barrier": "torch 2.13 accepts no backend except gloo there",
    "barrier_timeout": "expects gloo's words",
    "batch_isend_irecv_op": "expects NCCL's errors",
    "batch_isend_irecv_mixed_backend_err": "expects NCCL",
    "get_backend": "compares the name of the backend with that for which the tests are imported",
    "Backend_enum_class": "compares the name of the backend with that for which the tests are imported",
    "sparse_all_reduce": "is for gloo by name",
    "SyncBatchNorm_process_group": "needs torchvision",
}


def load() -> Any:
    """Import torch's tests; they read the name of their backend when they are imported."""
    os.environ.update(BACKEND="mpi", WORLD_SIZE=str(SIZE), TEMP_DIR="")
    warnings.simplefilter("ignore")  # of what torch's tests import
    from torch.testing._internal import common_distributed

    for feature in ("ddp", "subgroup"):
        common_distributed.DistTestCases.backend_feature[feature].add("mpi")
    common_distributed.DistTestCases.skip_collective["allgather_coalesced"].discard("mpi")
    from torch.testing._internal.distributed import distributed_test

    return distributed_test


def run_all(comm: Any, folder: Path) -> dict[str, str]:
    """Run the tests on this rank. Return what became of each: "passed", "skipped", or a traceback."""
    from torch.testing._internal import common_utils
    from torch.testing._internal.distributed import distributed_test

    class Own(distributed_test.DistributedTest._DistTestBase, common_utils.TestCase):
        rank, world_size = comm.rank, comm.size

        def _barrier(self, *_: Any, **__: Any) -> None:
            dist.barrier()

    os.environ["TEMP_DIR"] = str(folder)
    comm.timeout = 200.0
    outcomes = {}
    for name in sorted(name for name in dir(Own) if name.startswith("test_")):
        if any(part in name for part in LEFT_OUT):
            continue
        test = Own(name)
        test.file_name = str(folder / name)
        comm.barrier()
        dist.init_process_group(
            "shmcoll", store=dist.FileStore(test.file_name, comm.size), rank=comm.rank, world_size=comm.size,
            timeout=timedelta(seconds=60),
        )  # fmt: skip
        try:
            test.setUp()
            getattr(test, name)()
            outcomes[name] = "passed"
        except (SystemExit, unittest.SkipTest):
            outcomes[name] = "skipped"
        except BaseException:
            outcomes[name] = traceback.format_exc()
        comm.barrier()
        if dist.is_initialized():
            dist.destroy_process_group()
    return outcomes


def test_torchs_tests_pass(ranks: Any, tmp_path: Path) -> None:
    load()
    (tmp_path / "test_dir").mkdir()
    (tmp_path / "barrier").mkdir()
    outcomes = ranks(SIZE, run_all, tmp_path, deadline=300.0)
    failed = {
        name: found for name in outcomes[0] if not (found := {one[name] for one in outcomes}) <= {"passed", "skipped"}
    }
    passed = [name for name in outcomes[0] if all(one[name] == "passed" for one in outcomes)]
    print(f"{len(passed)} of torch's tests pass")
    assert not failed, "\n".join(f"{name}: {text}" for name, texts in failed.items() for text in texts)
    assert len(passed) >= 100
