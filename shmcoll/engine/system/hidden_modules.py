"""A file of the program that has the name of a module which we import: `random.py` hides `random` from everybody.

Python imports from the folder of the script first. Such a file is found after an import has failed, and the error names
it: Python's own names an attribute that some other module lacks. This file imports nothing that could be hidden.
"""

import os
import sys

_OF_OTHERS = {"cloudpickle", "llvmlite", "ml_dtypes", "mpi4py", "numba", "numpy", "scipy", "torch"}


def explained(error: Exception) -> Exception:
    """Return the error to raise instead of one that an import raised: itself, unless a file hides a module."""
    if sys.hexversion < 0x030B0000:
        return ImportError(f"shmcoll needs Python 3.11 or later, and {sys.executable} is {sys.version.split()[0]}")
    folder = os.path.abspath(sys.path[0] if sys.path else "")  # noqa: PTH100
    files = [getattr(module, "__file__", None) for key, module in list(sys.modules.items()) if key != "__main__"]
    trace = error.__traceback__
    while trace:
        files.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    for file in files:
        place, _, name = (file or "").removesuffix("/__init__.py").removesuffix(".py").rpartition("/")
        if os.path.abspath(place) == folder and name in {*sys.stdlib_module_names, *_OF_OTHERS}:  # noqa: PTH100
            what = f"{file} hides the module {name!r}, which shmcoll needs"
            return ImportError(f"{what}: give the file another name", name=name, path=file)
    if sys.platform != "linux":
        return ImportError(f"shmcoll runs on Linux, not on {sys.platform}: use WSL 2 on Windows, a container elsewhere")
    return error
