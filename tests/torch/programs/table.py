"""Whole programs of torch, as their users write them: a table by name.

A program is a function of this rank and the number of ranks. It runs in a default group that the table makes, and
returns what it has computed: tensors, numbers and texts, in lists and dicts. Each runs over gloo and over this backend,
and the results must be equal.
"""

import importlib.util
import os
import socket
import tempfile
import traceback
import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import shmcoll.torch  # noqa: F401  # registers the backend

LIMIT = timedelta(seconds=60)  # of each call: a test has 150 s

PROGRAMS: dict[str, Callable[..., Any]] = {}
SLOW: set[str] = set()
LIBRARIES: dict[str, str] = {}  # of programs that need one
#: A group of gloo joins its threads when its last reference goes. That may be in one of these threads, with a callback
#: of a future, and the process is aborted then. A rank ends without freeing anything
KEPT: list[Any] = []


def program(function: Any = None, *, slow: bool = False, library: str = "") -> Any:
    """Add a program to the table.

    Args:
        slow: whether it is left out where tests must be short.
        library: what must be installed. Such a program is slow, and makes its default group itself, by the environment:
            its third argument is the backend.
    """
    if function is None:
        return partial(program, slow=slow, library=library)
    if library:
        LIBRARIES[function.__name__] = library
        if not importlib.util.find_spec(library):
            return function
    PROGRAMS[function.__name__] = function
    if slow or library:
        SLOW.add(function.__name__)
    return function


def load(names: Sequence[str]) -> None:
    """Import what programs need, once, before the ranks are forked."""
    torch.compile(torch.neg, backend="eager")(torch.ones(1))
    for library in {LIBRARIES[name] for name in names if name in LIBRARIES}:
        importlib.import_module(library)


def run_all(comm: Any, folder: Path, backend: str, names: Sequence[str]) -> dict[str, Any]:
    """Run these programs on this rank. Return the results, or tracebacks, by name."""
    warnings.simplefilter("ignore")  # of what torch is about to rename, and of what its compiler does not know
    tempfile.tempdir = str(folder)  # what programs leave there is removed with it
    results = {}
    for name in names:
        # each time: Lightning removes some at its end
        os.environ.update(WORLD_SIZE=str(comm.size), LOCAL_WORLD_SIZE=str(comm.size), MASTER_ADDR="127.0.0.1")
        os.environ.update(RANK=str(comm.rank), LOCAL_RANK=str(comm.rank), OMP_NUM_THREADS="1")
        arguments: tuple[Any, ...] = comm.rank, comm.size
        if name in LIBRARIES:
            os.environ["MASTER_PORT"] = str(comm.broadcast_object(free_port() if comm.rank == 0 else None))
            arguments += (backend,)
        else:
            store = dist.FileStore(str(folder / f"{backend} {name}"), comm.size)
            # A rank that cannot connect over gloo leaves the others waiting
            dist.init_process_group(backend, store=store, rank=comm.rank, world_size=comm.size, timeout=LIMIT)
        torch.manual_seed(7)
        try:
            results[name] = plain(PROGRAMS[name](*arguments))
        except Exception:
            results[name] = traceback.format_exc()
        comm.barrier()  # a rank that still connects over gloo needs the sockets and the file of the others
        if dist.is_initialized():
            if backend == "gloo":
                KEPT.extend(dist.distributed_c10d._world.pg_map)
            dist.destroy_process_group()
    return results


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def plain(result: Any) -> Any:
    """Return a result in the types of Python, which `==` compares bit for bit."""
    if isinstance(result, torch.Tensor):
        dense = result.detach().to_dense() if result.is_sparse else result.detach()
        return str(dense.dtype), str(result.layout), dense.tolist()
    if isinstance(result, dict):
        return {key: plain(one) for key, one in result.items()}
    if isinstance(result, list | tuple):
        return [plain(one) for one in result]
    return result


def model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.ReLU(), torch.nn.Linear(12, 5))


def batch(rank: int, step: int) -> torch.Tensor:
    return torch.randn(4, 6, generator=torch.Generator().manual_seed(100 * step + rank))


def train(trained: torch.nn.Module, rank: int, steps: int = 3) -> None:
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        trained(batch(rank, step)).square().mean().backward()
        optimizer.step()


def are_alike(found: Any, expected: Any, tolerance: float) -> bool:
    """Return whether two results are equal, except for this relative difference of numbers below and above 1."""
    if isinstance(found, float) and isinstance(expected, float) and tolerance:
        return abs(found - expected) <= tolerance * max(1.0, abs(expected))
    if isinstance(found, dict) and isinstance(expected, dict):
        return found.keys() == expected.keys() and all(are_alike(found[k], expected[k], tolerance) for k in found)
    if isinstance(found, list | tuple) and isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(map(are_alike, found, expected, [tolerance] * len(found)))
    return bool(found == expected)
