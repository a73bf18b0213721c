"""Compile routines, gate and kernels for every level of this architecture: `compile_objects.py FOLDER`

Writes FOLDER/LEVEL/NAME-HASH.o, and the library for programs of MPI, FOLDER/mpi/libmpi.so.12.

The code comes out the same on every machine of the architecture: numba lowers for no processor, and LLVM optimises for
the processor that a level names.
"""

import os
import sys
from pathlib import Path
from types import ModuleType

os.environ |= {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}  # before numba is imported
sys.path.insert(0, str(Path(__file__).parents[1]))

from shmcoll.engine.compiler import compile as code
from shmcoll.engine.compiler import lowering
from shmcoll.engine.compiler.levels import levels
from shmcoll.engine.compiler.object_cache import packaged_name, sealed
from shmcoll.startup.rank_process import die_with
from shmcoll.startup.warm import ALL, compile_in_forks, functions_of, kernels


def main(folder: Path) -> bool:
    """Compile what a job can need, except the kernels around functions of users. Returns whether that has succeeded."""
    die_with(os.getppid())  # a build that is killed leaves nothing behind that computes for minutes
    write_library(folder / "mpi")
    return compile_in_forks([*ALL, *kernels()], lambda name: emit(folder, name))


def write_library(folder: Path) -> None:
    """Write the library that programs of MPI load."""
    package = sys.modules["shmcoll.mpi"] = ModuleType("shmcoll.mpi")  # the import of the real one would load it here
    package.__path__ = [str(Path(__file__).parents[1] / "shmcoll" / "mpi")]
    from shmcoll.mpi.abi import loaded

    del sys.modules["shmcoll.mpi"]
    folder.mkdir()
    (folder / loaded.PACKAGED.name).write_bytes(loaded.sealed())


def emit(folder: Path, name: str) -> None:
    functions = functions_of(name)
    module = lowering.module(functions)
    for level in levels():
        path = folder / level.name / packaged_name(name, level)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(sealed(code.emitted(functions, level, module), path.name))


if __name__ == "__main__":
    sys.exit(not main(Path(sys.argv[1])))
