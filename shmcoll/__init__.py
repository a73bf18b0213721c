"""shmcoll: collective communication for the processes of one machine, in shared memory.

Who may import whom (a test holds it): imports go down only.

    mindspore, nki   front doors: each speaks its own API and calls the communicator
    jit              collectives and messages for users' `@njit` code
    runner           `shmcoll.run`: the caller's side, and the server that forks the ranks and watches them
    startup          how a process becomes a rank
    communicator     what a user calls: the methods, groups, grids, plans, objects, shared arrays
    calls            one file a collective: its arguments, checked and converted, then the native call
    runtime          one rank at work: dispatching calls, asynchronous work, groups, failures made exceptions
    diagnostics      what ranks do, said in words
    collectives      one file a collective: algorithm, source, cost, routine
    engine           everything below a collective: memory, protocol, messages, kernels, compiler
    errors           the exceptions

Names are loaded on first use: `import shmcoll` alone is cheap, so that tools start fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shmcoll.communicator import Communicator
    from shmcoll.communicator.messages import ANY, Recv, Send
    from shmcoll.engine.compiler.user_operators import op, premul_sum
    from shmcoll.engine.kernels.dtypes import pair_dtype
    from shmcoll.errors import (
        ArenaError,
        BufferChanged,
        CollectiveMismatch,
        CollectiveTimeout,
        InternalError,
        RankFailed,
        ShmcollError,
    )
    from shmcoll.runner.api import run
    from shmcoll.runtime.async_worker import Work
    from shmcoll.startup.join import init

__version__ = "0.1.0"

_HOME = {
    "init": "shmcoll.startup.join",
    "run": "shmcoll.runner.api",
    "op": "shmcoll.engine.compiler.user_operators",
    "premul_sum": "shmcoll.engine.compiler.user_operators",
    "pair_dtype": "shmcoll.engine.kernels.dtypes",
    "ANY": "shmcoll.communicator.messages",
    "Recv": "shmcoll.communicator.messages",
    "Send": "shmcoll.communicator.messages",
    "Communicator": "shmcoll.communicator",
    "Work": "shmcoll.runtime.async_worker",
    "ShmcollError": "shmcoll.errors",
    "RankFailed": "shmcoll.errors",
    "CollectiveTimeout": "shmcoll.errors",
    "CollectiveMismatch": "shmcoll.errors",
    "ArenaError": "shmcoll.errors",
    "BufferChanged": "shmcoll.errors",
    "InternalError": "shmcoll.errors",
}

__all__ = [
    "ANY",
    "ArenaError",
    "BufferChanged",
    "CollectiveMismatch",
    "CollectiveTimeout",
    "Communicator",
    "InternalError",
    "RankFailed",
    "Recv",
    "Send",
    "ShmcollError",
    "Work",
    "__version__",
    "init",
    "op",
    "pair_dtype",
    "premul_sum",
    "run",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'shmcoll' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
