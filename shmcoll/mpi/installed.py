"""The mpi4py that is installed: one whose module is for the MPICH family can use this library."""

import struct
from importlib.util import find_spec
from pathlib import Path

from shmcoll.engine.system.text import to_bytes, to_text
from shmcoll.errors import ShmcollError
from shmcoll.mpi.abi.facts import NAMES
from shmcoll.mpi.abi.library import SONAME

_SYMBOLS = 11  # a section of symbols for the dynamic linker
_STRONG = 0x10, 0x12  # symbols of functions that must be there
_INSTALL = "pip install 'shmcoll[mpi4py]'"


def check() -> None:
    """Raise `ShmcollError` if mpi4py is not installed, or is built for another MPI only."""
    try:
        package = find_spec("mpi4py")
    except ValueError:  # a program has put something into sys.modules
        package = None
    if package is None or not package.submodule_search_locations:
        raise ShmcollError(f"mpi4py is not installed; install it: {_INSTALL}")
    folder = Path(package.submodule_search_locations[0])
    modules = [data for path in folder.glob("MPI.*.so") if to_bytes(SONAME) in (data := path.read_bytes())]
    if not modules:
        raise ShmcollError(
            f"the mpi4py in {folder} is built for another MPI than the MPICH family; take the one of the index: "
            f"pip uninstall mpi4py, then {_INSTALL}"
        )
    if unknown := sorted(set().union(*map(_needed, modules)) - set(NAMES)):
        raise ShmcollError(
            f"the mpi4py in {folder} calls functions of MPI that this version of shmcoll does not have, such as "
            f"{unknown[0]}; upgrade shmcoll, or take an mpi4py that it knows: {_INSTALL}"
        )


def _needed(data: bytes) -> set[str]:
    """Return the functions of MPI without which a shared object cannot be loaded; none if it is not one."""
    if data[:6] != b"\x7fELF\x02\x01":
        return set()
    (start,), (count,) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<H", data, 60)
    sections = [struct.unpack_from("<IIQQQQII", data, start + 64 * i) for i in range(count)]
    needed = set()
    for _, kind, _, _, at, length, link, _ in sections:
        if kind != _SYMBOLS:
            continue
        texts = sections[link][4]
        for name, info, _, section, _, _ in struct.iter_unpack("<IBBHQQ", data[at : at + length]):
            if info in _STRONG and section == 0:
                text = data[texts + name : data.index(b"\0", texts + name)]
                if text.startswith(b"MPI"):
                    needed.add(to_text(text))
    return needed
