"""Collective communication for the processes of one machine, in shared memory.

`shmcoll.init()` joins the job that `shmrun` or another launcher has started, and returns its `Communicator`, whose
methods are the collectives. `shmcoll.run(function, n)` starts n ranks from a script, a test or a notebook.

Example:
    >>> import numpy as np
    >>> import shmcoll
    >>> comm = shmcoll.init()
    >>> comm.all_reduce(np.ones(3)) / comm.size
    array([1., 1., 1.])

PYTEST_DONT_REWRITE
"""

# Names are loaded on first use: `import shmcoll` alone is cheap, so that tools start fast.

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shmcoll import jit as jit
    from shmcoll.communicator import Communicator
    from shmcoll.communicator.graph import Graph
    from shmcoll.communicator.grid import Grid
    from shmcoll.communicator.messages import ANY, Envelope, Message, Recv, RecvObject, Send, SendObject
    from shmcoll.communicator.plans import Plan
    from shmcoll.engine.compiler.user_operators import op, premul_sum
    from shmcoll.engine.kernels.dtypes import pair_dtype
    from shmcoll.engine.system.interpreter import freeze_support
    from shmcoll.errors import (
        ArenaError,
        BufferChanged,
        CallNotAllowed,
        Cancelled,
        CollectiveMismatch,
        CollectiveTimeout,
        Deadlock,
        InternalError,
        OperatorFailed,
        RankFailed,
        RemoteTraceback,
        ShmcollError,
    )
    from shmcoll.profiling.ranges import range as range
    from shmcoll.runner.api import run
    from shmcoll.runner.executor import Executor
    from shmcoll.runner.mapping import imap
    from shmcoll.runner.mapping import map as map
    from shmcoll.runner.pool import Ranks, ranks
    from shmcoll.runner.shared_memory import shared
    from shmcoll.runtime.work import Work, wait_all, wait_any, wait_some
    from shmcoll.startup.join import from_mpi, init

__version__ = "0.1.0"

_HOME = {
    "jit": "shmcoll.jit",
    "init": "shmcoll.startup.join",
    "from_mpi": "shmcoll.startup.join",
    "run": "shmcoll.runner.api",
    "range": "shmcoll.profiling.ranges",
    "map": "shmcoll.runner.mapping",
    "imap": "shmcoll.runner.mapping",
    "Executor": "shmcoll.runner.executor",
    "ranks": "shmcoll.runner.pool",
    "Ranks": "shmcoll.runner.pool",
    "shared": "shmcoll.runner.shared_memory",
    "freeze_support": "shmcoll.engine.system.interpreter",
    "op": "shmcoll.engine.compiler.user_operators",
    "premul_sum": "shmcoll.engine.compiler.user_operators",
    "pair_dtype": "shmcoll.engine.kernels.dtypes",
    "ANY": "shmcoll.communicator.messages",
    "Envelope": "shmcoll.communicator.messages",
    "Message": "shmcoll.communicator.messages",
    "Recv": "shmcoll.communicator.messages",
    "RecvObject": "shmcoll.communicator.messages",
    "Send": "shmcoll.communicator.messages",
    "SendObject": "shmcoll.communicator.messages",
    "Communicator": "shmcoll.communicator",
    "Graph": "shmcoll.communicator.graph",
    "Grid": "shmcoll.communicator.grid",
    "Plan": "shmcoll.communicator.plans",
    "Work": "shmcoll.runtime.work",
    "wait_all": "shmcoll.runtime.work",
    "wait_any": "shmcoll.runtime.work",
    "wait_some": "shmcoll.runtime.work",
    "ShmcollError": "shmcoll.errors",
    "RankFailed": "shmcoll.errors",
    "CollectiveTimeout": "shmcoll.errors",
    "Deadlock": "shmcoll.errors",
    "CollectiveMismatch": "shmcoll.errors",
    "ArenaError": "shmcoll.errors",
    "CallNotAllowed": "shmcoll.errors",
    "Cancelled": "shmcoll.errors",
    "BufferChanged": "shmcoll.errors",
    "InternalError": "shmcoll.errors",
    "OperatorFailed": "shmcoll.errors",
    "RemoteTraceback": "shmcoll.errors",
}

# `from shmcoll import *` must not replace the built-in `map` and `range`, nor import numba, which `jit` does
__all__ = [
    "ANY",
    "ArenaError",
    "BufferChanged",
    "CallNotAllowed",
    "Cancelled",
    "CollectiveMismatch",
    "CollectiveTimeout",
    "Communicator",
    "Deadlock",
    "Envelope",
    "Executor",
    "Graph",
    "Grid",
    "InternalError",
    "Message",
    "OperatorFailed",
    "Plan",
    "RankFailed",
    "Ranks",
    "Recv",
    "RecvObject",
    "RemoteTraceback",
    "Send",
    "SendObject",
    "ShmcollError",
    "Work",
    "__version__",
    "freeze_support",
    "from_mpi",
    "imap",
    "init",
    "op",
    "pair_dtype",
    "premul_sum",
    "ranks",
    "run",
    "shared",
    "wait_all",
    "wait_any",
    "wait_some",
]


if not TYPE_CHECKING:  # else mypy would let any name pass

    def __getattr__(name: str) -> Any:
        if name in _HOME:
            try:
                module = import_module(_HOME[name])
                value = module if module.__name__ == f"{__name__}.{name}" else getattr(module, name)
            except (ImportError, AttributeError) as e:
                from shmcoll.engine.system import hidden_modules

                if (explained := hidden_modules.explained(e)) is e:
                    raise
                raise explained from None
            globals()[name] = value
            return value
        if name.startswith("_"):
            raise AttributeError(f"shmcoll has no attribute {name!r}")
        from shmcoll.diagnostics import other_names

        comm = import_module("shmcoll.communicator").Communicator
        raise other_names.missing("shmcoll", name, __all__, comm)


def __dir__() -> list[str]:
    """Return the public names, for completion and `help`. Modules of the package are found by their paths."""
    return sorted({*__all__, *_HOME})
