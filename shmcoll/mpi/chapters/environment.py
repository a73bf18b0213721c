"""MPI's chapter on the environment: beginning, end, versions, errors, time, memory."""

import ctypes
import platform
import threading
import time
from functools import partial

import shmcoll
from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.abi.memory import put_text
from shmcoll.mpi.objects.communicators import Comm
from shmcoll.mpi.objects.error_handlers import exit_now
from shmcoll.mpi.objects.functions import MAKERS, mpi
from shmcoll.mpi.objects.info import Info, made
from shmcoll.mpi.process import PROCESS

_MULTIPLE = c["MPI_THREAD_MULTIPLE"]


@mpi(inout=("argc",))
def Init(_argc, _argv) -> None:
    PROCESS.start()


@mpi(inout=("argc",))
def Init_thread(_argc, _argv, _required) -> int:
    PROCESS.start()
    return _MULTIPLE


@mpi()
def Initialized() -> bool:
    return PROCESS.is_initialized


@mpi()
def Finalize() -> None:
    PROCESS.finish()


@mpi()
def Finalized() -> bool:
    return PROCESS.is_finalized


@mpi()
def Query_thread() -> int:
    return _MULTIPLE


@mpi()
def Is_thread_main() -> bool:
    return threading.get_ident() == PROCESS.thread


@mpi()
def Get_version() -> tuple[int, int]:
    return c["MPI_VERSION"], c["MPI_SUBVERSION"]


@mpi()
def Get_library_version(version) -> int:
    return put_text(version, f"shmcoll {shmcoll.__version__}", c["MPI_MAX_LIBRARY_VERSION_STRING"])


@mpi()
def Get_processor_name(name) -> int:
    return put_text(name, platform.node(), c["MPI_MAX_PROCESSOR_NAME"])


@mpi()
def Wtime() -> float:
    return time.monotonic()


@mpi()
def Wtick() -> float:
    return time.get_clock_info("monotonic").resolution


@mpi()
def Pcontrol(_level: int, _more: int) -> None:
    """Nothing here can be profiled by level."""


@mpi()
def Abort(comm: Comm, code: int) -> None:
    """End this process, after the others have been told."""
    for one in {comm, PROCESS.world}:
        one.abort(f"MPI_Abort({code}) on {comm.in_words}")
    exit_now(code & 0xFF or 1)


def _no() -> int:
    return 0


for _kind in ("cuda", "hip", "ze"):  # memory of devices is not used as buffers
    MAKERS[f"MPIX_Query_{_kind}_support"] = partial(ctypes.CFUNCTYPE(ctypes.c_int), _no)


@mpi()
def Get_hw_resource_info() -> Info:
    return made({f"hwloc://{kind}": "false" for kind in ("core", "numa", "socket")})
