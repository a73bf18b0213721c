"""Fill the object cache of the emulated machine, on this one: `compile_ahead.py CACHE PLATFORM [NAME...]`

Emulated, numba takes minutes for each routine. So they are compiled here, by the same code, for that machine. PLATFORM
is a file with what `shmcoll.engine.compiler.object_cache` says there of the platform: versions, CPU and its features. A
name is an operation, `gate`, or `reduction_dtype` of a kernel; without names, all operations and the kernels that tests
need.
"""

import ast
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.pretend_aarch64 import pretend


def main(folder: str, platform: str, *names: str) -> None:
    os.environ["SHMCOLL_CACHE_DIR"] = folder
    text = Path(platform).read_text().rstrip("\n")
    _, cpu, features = ast.literal_eval(text)
    pretend(cpu, features)

    from shmcoll.collectives import RECORDS
    from shmcoll.engine.compiler import compile as code
    from shmcoll.engine.compiler import object_cache
    from tests.support.prepare import USUAL

    object_cache._platform = lambda: text
    code._place = lambda _data, symbols: (0,) * len(symbols)  # this machine cannot load it
    kernels = {f"{reduction}_{dtype.name}": (dtype, reduction) for dtype, reduction in code.all_kernels()}
    for name in names or ("gate", "array_allocator", *RECORDS, *(k for k, (_, r) in kernels.items() if r in USUAL)):
        if name == "gate":
            code.load_gate(tell)
        elif name == "array_allocator":
            code.load_allocator(tell)
        elif name in RECORDS:
            code.load_routine(RECORDS[name], tell)
        else:
            code.load_kernel(*kernels[name], tell)


def tell(progress: str) -> None:
    print(progress, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
