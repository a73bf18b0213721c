"""The library in this process: where its file is, and the table of its functions.

The file is in the cache directory, under a name with a hash of its bytes. It is trusted only if its bytes are those
that `library.py` writes, and if no other user can change it. A process loads it for all (`RTLD_GLOBAL`). From then on,
what is linked to a `libmpi.so.12` finds this one by that name, wherever another one may be.

At the end of the process, mpi4py calls MPI_Finalized and MPI_Finalize when Python can run no function any more. So
`close` fills the table with functions of the library itself before.
"""

import ctypes
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shmcoll.engine.system import trusted_files
from shmcoll.engine.system.cache_dir import cache_folder
from shmcoll.mpi.abi import library
from shmcoll.mpi.abi.facts import NAMES


def library_file() -> Path:
    """Return the path of the library, which is written if it is not there.

    Raises:
        OSError: the cache directory cannot be written, or another user may write to it.
    """
    data = library.image()
    folder = cache_folder() / f"mpi-{hashlib.sha256(data).hexdigest()[:16]}"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / library.SONAME
    try:
        if trusted_files.read(path) == data:
            return path
    except FileNotFoundError:
        pass
    trusted_files.write(path, data)
    return path


class Library:
    """The loaded library.

    Raises:
        OSError: its file cannot be had.
        RuntimeError: the process has loaded another library of MPI.
    """

    def __init__(self) -> None:
        self.path = library_file()
        self._loaded = ctypes.CDLL(str(self.path), ctypes.RTLD_GLOBAL)
        if not hasattr(self._loaded, library.TABLE):
            raise RuntimeError(
                f"this process has loaded another {library.SONAME}; import shmcoll.mpi before everything that uses MPI"
            )
        self._table = (ctypes.c_size_t * len(NAMES)).in_dll(self._loaded, library.TABLE)
        self._slots = {name: i for i, name in enumerate(NAMES)}
        self._kept: list[Any] = []  # what the table points to

    def variable(self, name: str) -> int:
        """Return the value of a variable of the library, such as MPI_UNWEIGHTED."""
        return ctypes.c_size_t.in_dll(self._loaded, name).value

    def fill(self, functions: Mapping[str, Any]) -> None:
        """Put functions into the table. functions: callbacks of ctypes, or addresses, by name."""
        for name, function in functions.items():
            self._kept.append(function)
            self._table[self._slots[name]] = function if isinstance(function, int) else _address(function)

    def close(self) -> None:
        """Let every function succeed and do nothing, and MPI_Finalized say that MPI has ended."""
        self._table[:] = [_address(self._loaded.shmcoll_mpi_succeed)] * len(NAMES)
        self.fill(
            {"MPI_Finalized": self._loaded.shmcoll_mpi_store_1, "MPI_Initialized": self._loaded.shmcoll_mpi_store_1}
        )


def _address(function: Any) -> Any:
    return ctypes.cast(function, ctypes.c_void_p).value
