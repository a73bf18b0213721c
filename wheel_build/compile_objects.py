"""Compile routines, gate and kernels for every level of this architecture: `compile_objects.py FOLDER PART PARTS`

One of PARTS processes that share the work; PART is its number. Writes FOLDER/LEVEL/NAME-HASH.o.

The code comes out the same on every machine of the architecture: numba lowers for no processor, and LLVM optimises for
the processor that a level names.
"""

import os
import sys
from pathlib import Path

os.environ |= {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}  # before numba is imported
sys.path.insert(0, str(Path(__file__).parents[1]))

from shmcoll.collectives import RECORDS
from shmcoll.engine.compiler import compile as code
from shmcoll.engine.compiler.levels import levels
from shmcoll.engine.compiler.lowering import lowered
from shmcoll.engine.compiler.object_cache import packaged_name, sealed
from shmcoll.nodes.native import collectives as short_calls
from shmcoll.startup.rank_process import die_with


def everything() -> dict[str, code.Functions]:
    """What a job can need, except the kernels around functions of users."""
    found = {name: code.routine_functions(record) for name, record in RECORDS.items()}
    found |= {"gate": code.gate_functions(), "array_allocator": code.allocator_functions()}
    found["calls_over_nodes"] = short_calls.functions()
    return found | {f"{r}_{d.name}": code.kernel_functions(d, r) for d, r in code.all_kernels()}


def main(folder: Path, part: int, parts: int) -> None:
    die_with(os.getppid())  # a build that is killed leaves nothing behind that computes for minutes
    for name, functions in list(everything().items())[part::parts]:
        text = lowered(functions)
        for level in levels():
            path = folder / level.name / packaged_name(name, level)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(sealed(code.emitted(functions, level, text), path.name))
        print(name, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
