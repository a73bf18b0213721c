"""Kernels that refuse to let a rank read its peers' memory: by a filter of system calls, or from another namespace.

The issue's other refusals are the same to a rank, which only sees that process_vm_readv fails: ptrace_scope 2 and 3
(EPERM), and another pid namespace (ESRCH, or the memory of another process, which has another witness:
tests/conformance/test_exposed_arrays.py).
"""

import ctypes
import errno
import platform
import shutil
import struct
import subprocess
from typing import Any

import numpy as np
import pytest

from shmcoll.errors import RankFailed
from tests.support import switches

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
CLONE_NEWUSER = 0x10000000
READV = {"x86_64": 310, "aarch64": 270}[platform.machine()]

SMALL = switches.IN_PLACE  # so that messages are copied from private memory
LENGTH = 200_000
LIBC = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def refuse_reads() -> None:
    """Refuse process_vm_readv to this process from now on, as sandboxes do."""
    code = b"".join(
        struct.pack("=HBBI", *instruction)
        for instruction in (
            (LOAD, 0, 0, 0),  # the number of the system call
            (JUMP_IF_EQUAL, 0, 1, READV),
            (RETURN, 0, 0, REFUSE),
            (RETURN, 0, 0, ALLOW),
        )
    )
    memory = ctypes.create_string_buffer(code)
    program = _Program(len(code) // 8, ctypes.addressof(memory))
    assert LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) == 0


def enter_namespace() -> None:
    """Go on in a user namespace of this process's own, in which it may not read its siblings."""
    assert LIBC.unshare(CLONE_NEWUSER) == 0, errno.errorcode[ctypes.get_errno()]


def has_namespaces() -> bool:
    return shutil.which("unshare") is not None and subprocess.run(["unshare", "--user", "true"]).returncode == 0


def use_every_way(comm: Any) -> bool | None:
    """Move long private arrays by collectives and messages; return what is known of reading."""
    n, me = comm.size, comm.rank
    for turn in range(4):
        x = np.arange(LENGTH) + me + turn
        assert np.array_equal(comm.all_gather(x).reshape(n, -1), [np.arange(LENGTH) + r + turn for r in range(n)])
        assert np.array_equal(comm.broadcast(x, 1), np.arange(LENGTH) + 1 + turn)
        x = np.arange(LENGTH) + me + turn
        received = comm.sendrecv(x, (me + 1) % n, np.empty_like(x), (me - 1) % n)[0]
        assert np.array_equal(received, np.arange(LENGTH) + (me - 1) % n + turn)
    return switches.can_read_others(comm)


@pytest.mark.parametrize("refuse", [refuse_reads, enter_namespace])
def test_reads_that_are_refused_from_the_start(ranks: Any, refuse: Any) -> None:
    """One rank that may not read is enough: all arrays go through shared memory, and results are right."""
    if refuse is enter_namespace and not has_namespaces():
        pytest.skip("this system makes no user namespaces")

    def work(comm: Any) -> int:
        if comm.rank == 1:
            refuse()
        comm.barrier()
        return use_every_way(comm)

    assert ranks(2, work, environment=SMALL) == [False] * 2


def test_reads_that_are_refused_later(ranks: Any) -> None:
    """A message goes through its ring then. A collective has no other way in its midst: all ranks get an error."""

    def work(comm: Any) -> str:
        assert use_every_way(comm) is True
        if comm.rank == 1:
            refuse_reads()
        comm.barrier()
        x, out = np.arange(LENGTH) + comm.rank, np.empty(LENGTH, np.int64)
        for _ in range(3):
            comm.sendrecv(x, 1 - comm.rank, out, 1 - comm.rank)
            assert np.array_equal(out, np.arange(LENGTH) + 1 - comm.rank)
        with pytest.raises(RankFailed) as told:
            comm.all_gather(x)
        return str(told.value)

    for text in ranks(2, work, environment=SMALL):
        assert "the array of rank 0 in all_gather" in text
        assert "may not be traced" in text
