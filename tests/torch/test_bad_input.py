"""What the backend refuses: each by one line that says what to do, on the rank that made the mistake, before anything
has moved."""

import os
import warnings
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")

import torch.distributed as dist  # noqa: E402

import shmcoll  # noqa: E402
import shmcoll.torch  # noqa: E402

Call = Callable[[torch.Tensor], Any]

#: calls with a tensor of four elements, in each place that a tensor can have
CALLS: dict[str, Call] = {
    "all_reduce": lambda x: dist.all_reduce(x, dist.ReduceOp.MAX),
    "asynchronous": lambda x: dist.all_reduce(x, dist.ReduceOp.MAX, async_op=True),
    "reduce": lambda x: dist.reduce(x, 0),
    "broadcast": lambda x: dist.broadcast(x, 0),
    "all_gather": lambda x: dist.all_gather([plain(x), plain(x)], x),
    "all_gather_into_tensor": lambda x: dist.all_gather_into_tensor(plain(x, 8), x),
    "reduce_scatter_tensor": lambda x: dist.reduce_scatter_tensor(plain(x, 2), x),
    "all_to_all, sent": lambda x: dist.all_to_all([plain(x), plain(x)], [x, x]),
    "all_to_all, received": lambda x: dist.all_to_all([x, x], [plain(x), plain(x)]),
    "all_to_all_single": lambda x: dist.all_to_all_single(plain(x), x),
    "isend": lambda x: dist.isend(x, 1 - dist.get_rank()),
    "irecv": lambda x: dist.irecv(x, 1 - dist.get_rank()),
}

TENSORS: dict[str, tuple[Callable[[], torch.Tensor], str]] = {
    "another device": (lambda: torch.ones(4, device="meta"), 'dist.new_group(backend="shmcoll")'),
    "sparse": (lambda: torch.ones(4).to_sparse(), "to_dense()"),
    "sparse by rows": (lambda: torch.ones(2, 2).to_sparse_csr(), "to_dense()"),
    "quantised": (lambda: torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.quint8), "tensor.dequantize()"),
    "nested": (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(2)]), "tensor.unbind()"),
}


def plain(x: torch.Tensor, length: int = 0) -> torch.Tensor:
    if x.is_quantized:
        return torch.quantize_per_tensor(torch.zeros(length or 4), 1, 0, x.dtype)
    return torch.zeros(length or (4 if x.is_nested else x.shape), dtype=x.dtype)


def refusal(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def bad_tensors(rank: int) -> dict[str, tuple[str, str]]:
    if torch.__version__ >= (2, 14):  # its dispatcher answers first
        return {}
    return {
        f"{name} of a tensor: {kind}": (refusal(lambda call=call, make=make: call(make())), advice)
        for kind, (make, advice) in TENSORS.items()
        for name, call in CALLS.items()
    }


def a_destroyed_group(rank: int) -> dict[str, tuple[str, str]]:
    group = dist.new_group()
    backend = shmcoll.torch.backend_of(group)
    dist.barrier(group)
    dist.destroy_process_group(group)
    calls = {
        "blocking": lambda: backend.barrier(dist.BarrierOptions()),
        "allreduce": lambda: backend.allreduce([torch.ones(2)]),
        "send": lambda: backend.send([torch.ones(2)], 1 - rank, 0),
        "recv": lambda: backend.recv([torch.ones(2)], 1 - rank, 0),
    }
    return {name: (refusal(call), "this group has been destroyed; make another one") for name, call in calls.items()}


def a_fork(rank: int) -> dict[str, tuple[str, str]]:
    calls = {
        "all_reduce": lambda: dist.all_reduce(torch.ones(2)),
        "asynchronous": lambda: dist.all_reduce(torch.ones(2), async_op=True),
        "send": lambda: dist.send(torch.ones(2), 1 - rank),
        "recv": lambda: dist.recv(torch.ones(2), 1 - rank),
    }
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, "\n".join(refusal(call) for call in calls.values()).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(writing)
    with open(reading) as pipe:
        return {
            name: (text, "call collectives in the rank")
            for name, text in zip(calls, pipe.read().splitlines(), strict=True)
        }


MISTAKES = [bad_tensors, a_destroyed_group, a_fork]


def make(comm: Any, store: Path, mistakes: Callable[[int], dict[str, tuple[str, str]]]) -> dict[str, tuple[str, str]]:
    warnings.simplefilter("ignore")  # of torch, about kinds of tensors that it is about to drop
    dist.init_process_group("shmcoll", store=dist.FileStore(str(store), 2), rank=comm.rank, world_size=2)
    made = mistakes(comm.rank)
    tensor = torch.ones(3)
    dist.all_reduce(tensor)  # nothing has moved, and the group goes on
    assert tensor.tolist() == [2.0] * 3
    dist.destroy_process_group()
    return made


@pytest.mark.parametrize("mistakes", MISTAKES)
def test_a_mistake_is_refused_by_one_line_that_says_what_to_do(ranks: Any, tmp_path: Path, mistakes: Any) -> None:
    for made in ranks(2, make, tmp_path / "store", mistakes):
        for name, (text, advice) in made.items():
            assert advice in text and "\n" not in text, f"{name}: {text}"


def tensors_that_gloo_takes(comm: Any, folder: Path) -> list[Any]:
    """Views, and tensors whose gradient torch records: over gloo these are written, too."""
    warnings.simplefilter("ignore")  # of torch, about gradients through gloo
    results = []
    for backend in ("gloo", "shmcoll"):
        dist.init_process_group(backend, store=dist.FileStore(str(folder / backend), 2), rank=comm.rank, world_size=2)
        made: list[Any] = []
        whole = torch.arange(4.0).view(2, 2) + comm.rank
        both = torch.complex(whole, -whole)
        leaf, between = whole.clone().requires_grad_(), whole.clone().requires_grad_() * 2
        for tensor in (both, torch.view_as_real(both), leaf, between, leaf.detach()):
            dist.all_reduce(tensor)
            made.append(torch.view_as_real(tensor.detach()) if tensor.is_complex() else tensor.detach())
        made.append(refusal(partial(dist.all_reduce, both.conj())).partition(":")[0])
        (between * leaf).sum().backward()
        results.append([one.tolist() if isinstance(one, torch.Tensor) else one for one in [*made, leaf.grad]])
        dist.destroy_process_group()
    return results


def test_views_and_tensors_with_gradients_are_written_as_over_gloo(ranks: Any, tmp_path: Path) -> None:
    for gloos, ours in ranks(2, tensors_that_gloo_takes, tmp_path):
        assert ours == gloos


def two_backends(comm: Any, folder: Path, first: str, second: str) -> list[float]:
    store = dist.FileStore(str(folder / first), 2)
    dist.init_process_group(first, store=store, rank=comm.rank, world_size=2, timeout=timedelta(seconds=60))
    group, results = dist.new_group(backend=second), []
    for one in (None, group, None):
        tensor = torch.tensor([comm.rank + 1.0])
        work = dist.all_reduce(tensor, group=one, async_op=True)
        work.get_future().then(lambda ended: ended.value()[0] * 2).wait()
        assert work.wait() and work.is_completed()
        results.append(tensor.item())
    results.append(dist.get_backend(group) == second)
    dist.destroy_process_group()
    return results


def test_two_backends_in_one_program(ranks: Any, tmp_path: Path) -> None:
    for pair in (("gloo", "shmcoll"), ("shmcoll", "gloo")):
        assert ranks(2, two_backends, tmp_path, *pair) == [[3.0, 3.0, 3.0, True]] * 2


def test_a_torch_that_was_never_seen_is_told_once() -> None:
    version = type(torch.__version__)
    with pytest.warns(UserWarning, match=r"tested with torch 2\.13 to 2\.15, and this is torch 9\.1\.0\. It goes on"):
        shmcoll.torch._check_version(version("9.1.0"))
    with warnings.catch_warnings(action="error"):
        shmcoll.torch._check_version(torch.__version__)
        shmcoll.torch.register()  # again: it has no effect
