"""Handles: the integers by which a program for MPI names objects, and the objects themselves.

A handle has the kind of the object in its upper bits, as with MPICH, so a handle of one kind in the place of another is
found. Numbers of freed handles are not given again before all others have been, so a freed handle is found as well.
"""

from typing import Any

from shmcoll.mpi.abi.facts import CONSTANTS
from shmcoll.mpi.objects import native_table
from shmcoll.mpi.objects.errors import MPIError

_USER = 2 << 30  # of objects that programs make; those of the ABI have 1 << 30
_NUMBERS = 1 << 26
_OF_PROCESS = CONSTANTS["MPI_COMM_WORLD"], CONSTANTS["MPI_COMM_SELF"]  # from MPI_Init to MPI_Finalize

#: why these are not there; nothing if they are
closed: list[str] = ["MPI_Init has not been called"]


class Kind:
    """The objects of one kind. name: of the handle's type in C. error: the class for a handle that is not valid. first:
    the first handle, if it has not the kind in its bits."""

    def __init__(self, name: str, null: str, error: str, *, first: int | None = None):
        self.name = name
        self.null = CONSTANTS[null]
        self._null_name = null
        self._base = _USER | (self.null & 0x3C000000) if first is None else first
        self._error = CONSTANTS[error]
        self._objects: dict[int, Any] = {}
        self._next = 0

    def add(self, obj: Any, handle: int | None = None) -> int:
        """Give an object a handle. handle: that of the ABI, if it has one."""
        if handle is None:
            while self._signed(self._base + self._next) in self._objects:
                self._next = (self._next + 1) % _NUMBERS
            handle = self._base + self._next
            self._next = (self._next + 1) % _NUMBERS
        handle = self._signed(handle)
        self._objects[handle] = obj
        obj.handle = handle
        native_table.put(self.name, handle, obj)
        return handle

    def changed(self, obj: Any) -> None:
        """Let native code know that an object has changed."""
        native_table.put(self.name, obj.handle, obj)

    def find(self, handle: int) -> Any:
        """Return the object of a handle.

        Raises:
            MPIError: it is the null handle, a freed one, or no handle of this kind.
        """
        try:
            return self._objects[handle]
        except KeyError:
            if handle in _OF_PROCESS and closed:
                raise MPIError("MPI_ERR_OTHER", closed[0]) from None
            raise MPIError(self._error, f"{self._in_words(handle)} is not a valid {self.name}") from None

    def known(self, handle: int) -> Any:
        """Return the object of a handle; None if there is none."""
        return self._objects.get(handle)

    def get(self, handle: int) -> Any:
        """Return the object of a handle; None for the null handle."""
        return None if handle == self.null else self.find(handle)

    def remove(self, obj: Any) -> None:
        """Free the handle of an object, unless it is permanent."""
        if getattr(obj, "is_permanent", False):
            return
        native_table.drop(self.name, obj.handle)
        self._objects.pop(obj.handle, None)
        obj.handle = self.null

    def all(self) -> list[Any]:
        return list(self._objects.values())

    def _in_words(self, handle: int) -> str:
        if handle == self.null:
            return self._null_name
        return f"handle {handle & 0xFFFFFFFF:#x}{', which was freed,' if self._was_given(handle) else ''}"

    def _was_given(self, handle: int) -> bool:
        return 0 <= (handle & 0xFFFFFFFF) - (self._base & 0xFFFFFFFF) < self._next

    @staticmethod
    def _signed(handle: int) -> int:
        return (handle & 0xFFFFFFFF) - (1 << 32 if handle & 1 << 31 else 0)


COMM = Kind("MPI_Comm", "MPI_COMM_NULL", "MPI_ERR_COMM")
GROUP = Kind("MPI_Group", "MPI_GROUP_NULL", "MPI_ERR_GROUP")
DATATYPE = Kind("MPI_Datatype", "MPI_DATATYPE_NULL", "MPI_ERR_TYPE")
ERRHANDLER = Kind("MPI_Errhandler", "MPI_ERRHANDLER_NULL", "MPI_ERR_ERRHANDLER")
OP = Kind("MPI_Op", "MPI_OP_NULL", "MPI_ERR_OP")
INFO = Kind("MPI_Info", "MPI_INFO_NULL", "MPI_ERR_INFO")
WIN = Kind("MPI_Win", "MPI_WIN_NULL", "MPI_ERR_WIN")
REQUEST = Kind("MPI_Request", "MPI_REQUEST_NULL", "MPI_ERR_REQUEST")
SESSION = Kind("MPI_Session", "MPI_SESSION_NULL", "MPI_ERR_SESSION")
MESSAGE = Kind("MPI_Message", "MPI_MESSAGE_NULL", "MPI_ERR_REQUEST")
FILE = Kind("MPI_File", "MPI_FILE_NULL", "MPI_ERR_FILE", first=1)  # a pointer in C: positive

#: by the name of the handle's type in C
KINDS = {
    kind.name: kind for kind in (COMM, GROUP, DATATYPE, ERRHANDLER, OP, INFO, WIN, REQUEST, SESSION, MESSAGE, FILE)
}
