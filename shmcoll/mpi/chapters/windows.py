"""MPI's chapter on windows: how they are made, asked, named and freed."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from shmcoll.errors import ArenaError
from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.abi.memory import Numbers, number_type, put_text, text_at
from shmcoll.mpi.chapters import groups
from shmcoll.mpi.objects.communicators import PROC_NULL, Comm, Group
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.objects.handles import WIN
from shmcoll.mpi.objects.info import Info
from shmcoll.mpi.objects.info import made as made_info
from shmcoll.mpi.objects.windows import ALLOCATE, CREATE, DYNAMIC, SHARED, Window

LONGEST_NAME = c["MPI_MAX_OBJECT_NAME"]
_APART = 64  # bytes: parts that need not be contiguous do not share a cache line


def _made(window: Window) -> Window:
    WIN.add(window)
    return window


def _wrong(size: int, unit: int) -> list[MPIError]:
    """Return what is wrong with the arguments of a rank. It is told when all ranks have come."""
    found = []
    if size < 0:
        found.append(MPIError("MPI_ERR_SIZE", f"size {size} is negative"))
    if unit <= 0:
        found.append(MPIError("MPI_ERR_DISP", f"displacement unit {unit} is not positive"))
    return found


def _zeros(native: Any, size: int, wrong: list[MPIError]) -> np.ndarray:
    """Return shared memory. Nothing in it, and one more error, if there is none."""
    try:
        return native.zeros(0 if wrong else size, np.uint8)
    except (ArenaError, MemoryError) as error:
        wrong.append(MPIError("MPI_ERR_NO_MEM", str(error)))
        return native.zeros(0, np.uint8)


def _store(place: int, address: int) -> None:
    Numbers(number_type("void*"), place).value = address


@mpi()
def Win_create(base: int, size: int, unit: int, info: Info | None, comm: Comm) -> Window:
    wrong = _wrong(size, unit)
    if size > 0 and not base:
        wrong.append(MPIError("MPI_ERR_BASE", f"the memory of {size} bytes is a null pointer"))
    return _made(Window(comm, CREATE, unit, info or {}, lambda _: (base, size, ()), wrong))


@mpi(nullable=("info",))
def Win_create_dynamic(info: Info | None, comm: Comm) -> Window:
    return _made(Window(comm, DYNAMIC, 1, info or {}, lambda _: (0, 0, ())))


@mpi()
def Win_allocate(size: int, unit: int, info: Info | None, comm: Comm, place: int) -> Window:
    wrong = _wrong(size, unit)

    def allocate(native: Any) -> tuple[int, int, Sequence[Any]]:
        views = native.views(_zeros(native, size, wrong))
        return views[native.rank].ctypes.data if size else 0, size, views

    return _allocated(Window(comm, ALLOCATE, unit, info or {}, allocate, wrong), place)


@mpi()
def Win_allocate_shared(size: int, unit: int, info: Info | None, comm: Comm, place: int) -> Window:
    """Allocate one array for all ranks, in the order of the ranks, unless a hint allows gaps."""
    wrong = _wrong(size, unit)
    may_have_gaps = info is not None and info.get("alloc_shared_noncontig") == "true"

    def allocate(native: Any) -> tuple[int, int, Sequence[Any]]:
        room = 0 if wrong else -(-size // _APART) * _APART if may_have_gaps else size
        rooms = native.all_gather(np.array([room], np.int64)).ravel().tolist()
        whole = native.views(_zeros(native, sum(rooms) if native.rank == 0 else 0, wrong))[0]
        return whole.ctypes.data + sum(rooms[: native.rank]) if sum(rooms) else 0, size, [whole]

    return _allocated(Window(comm, SHARED, unit, info or {}, allocate, wrong), place)


def _allocated(window: Window, place: int) -> Window:
    _store(place, window.targets[window.rank].base)
    return _made(window)


@mpi()
def Win_shared_query(win: Window, rank: int, place: int) -> tuple[int, int]:
    """Memory that is not in the arena is shown to its own rank alone; to others it has no bytes."""
    if win.flavor == DYNAMIC:
        raise MPIError("MPI_ERR_RMA_FLAVOR", f"{win.in_words} is a dynamic window: MPI_Win_shared_query has no answer")
    if rank == PROC_NULL:
        rank = next((target.rank for target in win.targets if target.size), 0)
    win.check_rank(rank)
    target = win.targets[rank]
    address = target.address_here(target.base, target.size)
    _store(place, address or 0)
    return target.size if address is not None else 0, target.unit


@mpi()
def Win_attach(win: Window, base: int, size: int) -> None:
    _check_dynamic(win)
    if size < 0 or (size and not base):
        raise MPIError("MPI_ERR_RMA_ATTACH", f"{size} bytes at {base:#x} cannot be attached")
    if any(base < other + length and other < base + size for other, length in win.attached.items()):
        raise MPIError("MPI_ERR_RMA_ATTACH", f"some of the {size} bytes at {base:#x} are attached already")
    win.attached[base] = size


@mpi()
def Win_detach(win: Window, base: int) -> None:
    _check_dynamic(win)
    if win.attached.pop(base, None) is None:
        raise MPIError("MPI_ERR_RMA_ATTACH", f"no memory that begins at {base:#x} is attached to {win.in_words}")


def _check_dynamic(win: Window) -> None:
    if win.flavor != DYNAMIC:
        raise MPIError(
            "MPI_ERR_RMA_FLAVOR", f"{win.in_words} is not a dynamic window; MPI_Win_create_dynamic makes one"
        )


@mpi(inout=("win",))
def Win_free(win: Numbers) -> None:
    WIN.find(win.value).free()
    win.value = WIN.null


@mpi()
def Win_get_group(win: Window) -> Group:
    return groups.made(win.group.ranks)


@mpi()
def Win_set_name(win: Window, name: int) -> None:
    win.name = text_at(name)[: LONGEST_NAME - 1]


@mpi(nullable=("win",))
def Win_get_name(win: Window | None, name: int) -> int:
    return put_text(name, win.name if win else "MPI_WIN_NULL", LONGEST_NAME)


@mpi()
def Win_set_info(win: Window, info: Info | None) -> None:
    win.info.update(info or {})


@mpi()
def Win_get_info(win: Window) -> Info:
    return made_info(win.info)
