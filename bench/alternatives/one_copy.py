"""all_to_all in one copy: each rank reads its blocks from the others' memory by process_vm_readv.

    shmrun -n 2 bench/alternatives/one_copy.py [--quick]

Ranks tell each other where x lies, read, and meet again, as x may not change before all have read.
"""

import ctypes
import os
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

import shmcoll

LIBC = ctypes.CDLL(None, use_errno=True)


class Run(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("address", ctypes.c_void_p), ("length", ctypes.c_size_t))


def one_copy(comm: shmcoll.Communicator, pids: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
    addresses = comm.all_gather(np.array([x.ctypes.data]))
    length = x.nbytes // comm.size
    for i in range(comm.size):
        peer = (comm.rank + i) % comm.size
        read(int(pids[peer]), out.ctypes.data + peer * length, int(addresses[peer]) + comm.rank * length, length)
    comm.barrier()


def read(pid: int, target: int, source: int, length: int) -> None:
    done = 0
    while done < length:
        mine, theirs = Run(target + done, length - done), Run(source + done, length - done)
        count = LIBC.process_vm_readv(pid, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0)
        if count <= 0:
            raise OSError(ctypes.get_errno(), f"process_vm_readv of process {pid} failed")
        done += count


def is_allowed(comm: shmcoll.Communicator, pids: np.ndarray) -> bool:
    """Whether all ranks may read from each other: often only a process's ancestors may (ptrace_scope)."""
    try:
        one_copy(comm, pids, np.zeros(comm.size), np.zeros(comm.size))
        allowed = True
    except OSError:
        comm.barrier()
        allowed = False
    return bool(comm.all_reduce(np.array([allowed]), "land")[0])


def median_us(comm: shmcoll.Communicator, call: Callable[[], object], times: int) -> float:
    seconds = []
    for _ in range(times):
        comm.barrier()
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return float(comm.all_reduce(np.array([statistics.median(seconds)]), "max")[0]) * 1e6


def main() -> None:
    comm = shmcoll.init()
    LIBC.process_vm_readv.restype = ctypes.c_ssize_t
    quick = "--quick" in sys.argv
    pids = comm.all_gather(np.array([os.getpid()]))
    if not is_allowed(comm, pids):
        print("the system does not let ranks read each other's memory (kernel.yama.ptrace_scope, seccomp)")
        return
    if comm.rank == 0:
        print("      bytes   one copy us   shmcoll us   ratio")
    for size in (1 << 12, 1 << 16) if quick else (1 << 12, 1 << 16, 1 << 20, 1 << 22, 1 << 24, 1 << 26):
        x = np.arange(size // 8, dtype=np.int64) + comm.rank
        ours, theirs = np.empty_like(x), np.empty_like(x)
        figures: tuple[list[float], list[float]] = ([], [])
        for _ in range(1 if quick else 5):
            times = 3 if quick else max(5, (1 << 24) // size)
            figures[0].append(median_us(comm, lambda x=x, out=theirs: one_copy(comm, pids, x, out), times))
            figures[1].append(median_us(comm, lambda x=x, out=ours: comm.all_to_all(x, out=out), times))
        assert (ours == theirs).all()
        if comm.rank == 0:
            single, double = map(statistics.median, figures)
            print(f"{size:11}   {single:11.1f}   {double:10.1f}   {single / double:5.2f}")


if __name__ == "__main__":
    main()
