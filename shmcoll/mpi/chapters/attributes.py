"""MPI's chapter on attributes of communicators, windows and datatypes: one set of functions for the three."""

import ctypes
from typing import Any

from shmcoll.engine.system.cores import usable_cores
from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.abi.memory import Numbers
from shmcoll.mpi.objects import native_table
from shmcoll.mpi.objects.attributes import Key, find_key, new_key
from shmcoll.mpi.objects.errors import LAST_USED
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.process import PROCESS

_POINTER = ctypes.c_size_t
_LARGEST_TAG = (1 << 31) - 1

#: attributes of MPI_COMM_WORLD: what they point to
_OF_WORLD = {
    c["MPI_TAG_UB"]: ctypes.c_int(_LARGEST_TAG),
    c["MPI_HOST"]: ctypes.c_int(c["MPI_PROC_NULL"]),
    c["MPI_IO"]: ctypes.c_int(c["MPI_ANY_SOURCE"]),
    c["MPI_WTIME_IS_GLOBAL"]: ctypes.c_int(1),
    c["MPI_UNIVERSE_SIZE"]: ctypes.c_int(0),
    c["MPI_APPNUM"]: ctypes.c_int(0),
    c["MPI_LASTUSEDCODE"]: ctypes.c_int(0),
}


def _functions(kind: str) -> None:
    """Register the functions for one kind of object."""
    name = {"comm": "Comm", "win": "Win", "type": "Type"}[kind]
    register = {"comm": "comm_keyval", "win": "win_keyval", "type": "type_keyval"}[kind]

    @mpi(name=f"{name}_create_keyval")
    def create(copy: int, delete: int, extra: int) -> int:
        return new_key(Key(kind, copy, delete, extra))

    @mpi(name=f"{name}_free_keyval", inout=(register,))
    def free(number: Numbers) -> None:
        find_key(number.value, kind).is_freed = True
        native_table.forget_attributes()
        number.value = c["MPI_KEYVAL_INVALID"]

    @mpi(name=f"{name}_set_attr")
    def set_attribute(obj: Any, number: int, value: int) -> None:
        obj.attributes.set(obj, number, find_key(number, kind), value)

    @mpi(name=f"{name}_get_attr")
    def get_attribute(obj: Any, number: int, place: int) -> bool:
        value = _own(obj, number)
        if value is None:
            find_key(number, kind)
            value = obj.attributes.get(number)
            if value is not None and kind == "comm":
                native_table.note_attribute(obj.handle, number, value)
        if value is not None:
            Numbers(_POINTER, place, "attribute_val").value = value
        return value is not None

    @mpi(name=f"{name}_delete_attr")
    def delete_attribute(obj: Any, number: int) -> None:
        obj.attributes.delete(obj, number, find_key(number, kind))


def _own(obj: Any, number: int) -> int | None:
    """Return the attribute that MPI itself has attached; None if there is none with this key."""
    if number in _OF_WORLD:
        _OF_WORLD[c["MPI_UNIVERSE_SIZE"]].value = max(PROCESS.world.size, usable_cores())
        _OF_WORLD[c["MPI_APPNUM"]].value = PROCESS.number
        _OF_WORLD[c["MPI_LASTUSEDCODE"]].value = LAST_USED[0]
        return ctypes.addressof(_OF_WORLD[number])
    own: dict[int, int] = getattr(obj, "own_attributes", {})
    return own.get(number)


for _kind in ("comm", "win", "type"):
    _functions(_kind)
