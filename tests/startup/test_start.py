"""What a start does without: modules that take long to import, and code that only some jobs call."""

import subprocess
import sys
import textwrap

import pytest

#: of these, none is imported by a job that makes a call whose code has been compiled
HEAVY = {
    *("numba", "llvmlite.binding", "platformdirs", "cloudpickle", "mpi4py", "torch"),
    *("asyncio", "concurrent.futures", "difflib", "importlib.metadata", "importlib.resources", "logging"),
    *("multiprocessing", "random", "secrets", "shutil", "socket", "subprocess", "sysconfig", "tempfile", "zipfile"),
}
#: nor of ours: what another kind of job needs, what compiles, and what describes a failure
OURS = {
    *(
        "compiler.lowering",
        "compiler.numba_target",
        "compiler.intrinsics",
        "native.mpi_functions",
        "system.connections",
    ),
    *("startup.rendezvous", "startup.rendezvous_errors", "startup.several_nodes", "startup.warm", "runner", "nodes"),
    *("startup.children", "mpi", "torch", "diagnostics.hang_report", "diagnostics.rank_status", "diagnostics.job_dump"),
}


def modules(program: str) -> set[str]:
    """Return the modules that are imported at the end of a program, and not by numpy."""
    program = textwrap.dedent(program) + "\nimport sys; print(*sys.modules)"
    before = _printed("import numpy, sys; print(*sys.modules)")
    return _printed(program) - before


def _printed(program: str) -> set[str]:
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(told.stdout.split())


def heavy(found: set[str]) -> set[str]:
    parts = {name for name in found if name.startswith("shmcoll.")}
    ends = {f"shmcoll.{own}" for own in OURS} | {f"shmcoll.engine.{own}" for own in OURS}
    return found & HEAVY | parts & ends


def test_importing_imports_nothing_else():
    found = _printed("import sys; import shmcoll; print(*sys.modules)")
    assert not found & {"numpy", *HEAVY}
    assert {name for name in found if name.startswith("shmcoll")} == {"shmcoll"}


@pytest.mark.parametrize("call", ["barrier()", "all_reduce(np.ones(3))"])
def test_a_first_call_imports_nothing_heavy(ranks, call):
    assert ranks(1, lambda comm: bool(comm.barrier() or comm.all_reduce([1.0]))) == [True]  # the cache is full now
    found = modules(f"""
        import numpy as np
        import shmcoll
        shmcoll.init().{call}
    """)
    assert "shmcoll.communicator" in found
    assert heavy(found) == set()
