"""The library in this process: where its file is, and the table of its functions.

The file comes in the package, or is written into the cache directory, under a name with a hash of what it is made from.
It ends with that hash and a checksum. A file is trusted only if both are right, and if no other user can change it. A
process loads it for all (`RTLD_GLOBAL`). From then on, what is linked to a `libmpi.so.12` finds this one by that name,
wherever another one may be. Where the process has loaded it already, as a program in C has, that one is filled.

A program calls few of the functions, so each is made when it is called for the first time: the resolver does that.

At the end of the process, mpi4py calls MPI_Finalized and MPI_Finalize when Python can run no function any more. So
`close` fills the table with functions of the library itself before.
"""

import ctypes
import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import shmcoll
from shmcoll.engine.system import trusted_files
from shmcoll.engine.system.cache_dir import cache_folder
from shmcoll.engine.system.text import to_bytes
from shmcoll.mpi.abi import library
from shmcoll.mpi.abi.facts import NAMES

#: in an installed package
PACKAGED = Path(shmcoll.__file__).parent / "objects" / "mpi" / library.SONAME

_SOURCES = ("library.py", "machine.py", "x86_64.py", "aarch64.py", "facts.json")
_LATE = "this process has loaded another {}; import shmcoll.mpi before everything that uses MPI"


def library_file(host: library.Host | None = None) -> Path:
    """Return the path of the library, which is written if it is not there. host: for programs that are not Python.

    Raises:
        OSError: the cache directory cannot be written, or another user may write to it.
    """
    key = fingerprint(host)
    if host is None and _is_whole(PACKAGED, key, trusted_files.read_installed):
        return PACKAGED
    folder = cache_folder() / f"mpi-{key}"
    folder.mkdir(mode=0o700, exist_ok=True)
    trusted_files.check_folder(folder)
    path = folder / library.SONAME
    if not _is_whole(path, key, trusted_files.read):
        trusted_files.write(path, sealed(host))
    return path


def fingerprint(host: library.Host | None = None) -> str:
    """Return a hash of what the library is made from."""
    digest = hashlib.sha256(to_bytes(repr((os.uname().machine, host))))
    for name in _SOURCES:
        digest.update(Path(__file__).with_name(name).read_bytes())
    return digest.hexdigest()[:16]


def sealed(host: library.Host | None = None) -> bytes:
    """Return the contents of the library's file."""
    body = library.image(host=host) + to_bytes(fingerprint(host))
    return body + hashlib.sha256(body).digest()


def _is_whole(path: Path, key: str, reader: Callable[[Path], bytes]) -> bool:
    try:
        data = reader(path)
    except OSError:
        return False
    body, check = data[:-32], data[-32:]
    return body.endswith(to_bytes(key)) and hashlib.sha256(body).digest() == check


class Library:
    """The loaded library.

    Raises:
        OSError: its file cannot be had.
        RuntimeError: the process has loaded another library of MPI.
    """

    def __init__(self) -> None:
        try:
            self._loaded = ctypes.CDLL(library.SONAME, ctypes.RTLD_GLOBAL | os.RTLD_NOLOAD)
            self.path: Path | None = None
        except OSError:
            if "mpi4py.MPI" in sys.modules:
                raise RuntimeError(_LATE.format("MPI of mpi4py")) from None
            self.path = library_file()
            self._loaded = ctypes.CDLL(str(self.path), ctypes.RTLD_GLOBAL)
        if not hasattr(self._loaded, library.TABLE):
            raise RuntimeError(_LATE.format(library.SONAME))
        self._table = (ctypes.c_size_t * len(NAMES)).in_dll(self._loaded, library.TABLE)
        self._kept: list[Any] = []  # what the table and the resolver point to

    def variable(self, name: str) -> int:
        """Return the value of a variable of the library, such as MPI_UNWEIGHTED."""
        return ctypes.c_size_t.in_dll(self._loaded, name).value

    def fill(self, resolve: Callable[[int], None]) -> None:
        """Let the table be filled. resolve: puts a function there, by its number."""
        self._empty = list(self._table)
        self._kept.append(ctypes.CFUNCTYPE(None, ctypes.c_int)(resolve))
        ctypes.c_size_t.in_dll(self._loaded, library.RESOLVER).value = _address(self._kept[-1])

    def put(self, name: str, function: Any) -> None:
        """Put a function into the table: a callback of ctypes, or an address."""
        self._kept.append(function)
        self._table[NAMES.index(name)] = function if isinstance(function, int) else _address(function)

    def take(self, name: str) -> None:
        """Take a function out of the table: the resolver makes it again."""
        self._table[NAMES.index(name)] = self._empty[NAMES.index(name)]

    def close(self) -> None:
        """Let every function succeed and do nothing, and MPI_Finalized say that MPI has ended."""
        self._table[:] = [_address(getattr(self._loaded, library.SUCCEED))] * len(NAMES)
        for name in ("MPI_Finalized", "MPI_Initialized"):
            self.put(name, getattr(self._loaded, library.STORE_1))


def _address(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address
