"""Programs that are not Python, with or without Python in them: `shmrun --mpi ./a.out`.

Such a program is linked to a `libmpi.so.12`, and finds ours in LD_LIBRARY_PATH. That one needs the libpython of the
Python that runs `shmrun`, and begins an interpreter when the program calls MPI for the first time
(`abi/machine.py`). A program that has an interpreter already keeps its own, which then has to find this package.

The interpreter is not ended: the program may call MPI as long as it runs. When it has ended with 0, this process leaves
the job as Python programs do; otherwise the launcher tells the others.
"""

import atexit
import ctypes
import os
import sys
import sysconfig
import threading
from pathlib import Path

import shmcoll
from shmcoll.errors import ShmcollError
from shmcoll.mpi.abi.executables import needs
from shmcoll.mpi.abi.library import SONAME, Host
from shmcoll.mpi.abi.loaded import library_file

_OTHERS = ("libmpi", "libmpi_abi", "libmpi_cxx")
_LIBC = ctypes.CDLL(None)
_AT_EXIT = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)

#: what the interpreter runs first, with the paths of the Python that runs `shmrun`: it may be of a virtual environment
_BEGINNING = """
import os, signal, sys
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # unless the program has a handler
    signal.signal(signal.SIGINT, signal.SIG_DFL)
sys.path[:], sys.executable, sys.prefix, sys.exec_prefix = {!r}
sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
try:
    from shmcoll.mpi import host
    host.begin()
except ImportError:
    pass
"""


def environment(program: str) -> dict[str, str]:
    """Return the variables that a program has to have. program: the path of the executable.

    Raises:
        ShmcollError: this Python has no shared libpython, the library cannot be written, or the program is linked to
            another MPI.
    """
    names, has_own_folders = needs(Path(program))
    for name in names:
        if name.partition(".so")[0] in _OTHERS and name != SONAME:
            raise ShmcollError(
                f"{program!r} is linked to {name}, which is not of the MPICH family; link it to {SONAME}"
            )
    code = _BEGINNING.format((_paths(), sys.executable, sys.prefix, sys.exec_prefix))
    try:
        path = library_file(Host(str(libpython()), sys.base_prefix, code))
    except OSError as e:
        raise ShmcollError(f"the library for programs in C cannot be written: {e}") from e
    folders = [str(path.parent), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    made = {"LD_LIBRARY_PATH": ":".join(folders), "MPI4PY_LIBMPI": str(path)}
    if has_own_folders:  # what is loaded already has the name that the program looks for
        made["LD_PRELOAD"] = " ".join([str(path), *filter(None, [os.environ.get("LD_PRELOAD")])])
    return made


def _paths() -> list[str]:
    """Return where modules are, without what this process alone has: the folder of its script, and PYTHONPATH."""
    own = {"", str(Path.cwd()), str(Path(sys.argv[0]).parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    return [str(Path(shmcoll.__file__).parents[1]), *(path for path in sys.path if path not in own)]


def libpython() -> Path:
    """Return the shared library of this Python.

    Raises:
        ShmcollError: there is none.
    """
    known = sysconfig.get_config_vars()
    name = f"libpython{known.get('LDVERSION', '')}.so"
    folders = [
        known.get("LIBDIR"),
        Path(known.get("LIBDIR") or "/usr/lib", known.get("MULTIARCH") or ""),
        known.get("LIBPL"),
    ]
    for folder in (*filter(None, folders), Path(sys.base_prefix, "lib")):
        for path in (Path(folder, f"{name}.1.0"), Path(folder, name)):
            if path.is_file():
                return path.resolve()
    raise ShmcollError(
        f"programs for MPI that are not Python need {name}.1.0, which {sys.executable} has not; use a Python that was "
        f"built with --enable-shared, or install it (libpython{known.get('py_version_short')})"
    )


def begin() -> None:
    """Have this process, whose interpreter has just begun, leave the job when its program ends."""
    _LIBC.on_exit(_at_exit, None)


@_AT_EXIT
def _at_exit(code: int, _nothing: int | None) -> None:
    if code == 0:
        if threading.current_thread() is threading.main_thread():
            threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    sys.stdout.flush()
