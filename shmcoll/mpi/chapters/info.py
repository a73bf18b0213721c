"""MPI's chapter on info objects."""

import os
import platform
import sys
from pathlib import Path

from shmcoll.engine.system.text import exact_bytes
from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.abi.memory import Numbers, put_text, text_at
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.objects.handles import INFO
from shmcoll.mpi.objects.info import LONGEST_KEY, LONGEST_VALUE, Info, key_at, made


@mpi()
def Info_create() -> Info:
    return made({})


@mpi()
def Info_create_env(_argc: int, _argv: int) -> Info:
    return made(_environment())


@mpi()
def Info_dup(info: Info) -> Info:
    return made(info)


@mpi(inout=("info",))
def Info_free(info: Numbers) -> None:
    INFO.remove(INFO.find(info.value))
    info.value = INFO.null


@mpi()
def Info_set(info: Info, key: int, value: int) -> None:
    text = text_at(value)
    if not 0 < len(text) <= LONGEST_VALUE:
        raise MPIError("MPI_ERR_INFO_VALUE", f"a value must have 1 to {LONGEST_VALUE} characters, got {len(text)}")
    info[key_at(key)] = text


@mpi()
def Info_delete(info: Info, key: int) -> None:
    name = key_at(key)
    if name not in info:
        raise MPIError("MPI_ERR_INFO_NOKEY", f"there is no key {name!r}")
    del info[name]


@mpi()
def Info_get(info: Info, key: int, length: int, value: int) -> bool:
    text = info.get(key_at(key))
    if text is not None:
        put_text(value, text, length + 1)
    return text is not None


@mpi(inout=("buflen",), nullable=("value",))
def Info_get_string(info: Info, key: int, room: Numbers, value: int) -> bool:
    text = info.get(key_at(key))
    if text is not None:
        if room.value > 0:
            put_text(value, text, room.value)
        room.value = len(exact_bytes(text)) + 1
    return text is not None


@mpi()
def Info_get_valuelen(info: Info, key: int) -> tuple[int, bool]:
    text = info.get(key_at(key))
    return len(exact_bytes(text or "")), text is not None


@mpi()
def Info_get_nkeys(info: Info) -> int:
    return len(info)


@mpi()
def Info_get_nthkey(info: Info, n: int, key: int) -> None:
    if not 0 <= n < len(info):
        raise MPIError("MPI_ERR_ARG", f"there is no key number {n} among {len(info)}")
    put_text(key, list(info)[n], LONGEST_KEY + 1)


def _environment() -> dict[str, str]:
    """Return what MPI_INFO_ENV says."""
    return {
        "command": sys.executable,
        "argv": " ".join(sys.orig_argv[1:]) or sys.executable,
        "maxprocs": os.environ.get("WORLD_SIZE", "1"),
        "host": platform.node(),
        "arch": platform.machine(),
        "wdir": str(Path.cwd()),
        "thread_level": "MPI_THREAD_MULTIPLE",
    }


INFO.add(Info(_environment()), c["MPI_INFO_ENV"])
