"""What `shmrun doctor` checks on the machine: system, cores, memory, limits. It changes nothing."""

import ctypes
import os
import resource
import signal
from collections.abc import Iterator

from shmcoll.engine import atomics, layout
from shmcoll.engine.memory import arena
from shmcoll.engine.memory.available_memory import available
from shmcoll.engine.system.cores import allowed_cores, usable_cores
from shmcoll.engine.system.processes import check_proc
from shmcoll.errors import ShmcollError
from shmcoll.startup import rank_process
from shmrun.commands.findings import Finding, Level, amount

_GLIBC = (2, 30)
_ENOUGH = 128 << 20  # bytes of /dev/shm; a container has 64 MiB by default


def system() -> Iterator[Finding]:
    libc = os.confstr("CS_GNU_LIBC_VERSION") or "no glibc"
    number = tuple(int(part) for part in libc.removeprefix("glibc ").split(".")[:2] if part.isdigit())
    if number >= _GLIBC:
        yield Finding(Level.OK, "libc", libc)
    else:
        advice = "shmcoll needs Linux with glibc 2.30 or later; use another image, such as python:3.12-slim"
        yield Finding(Level.ERROR, "libc", libc, advice)
    kernel = f"{os.uname().sysname} {os.uname().release}, {os.uname().machine}"
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (OSError, AttributeError) as e:
        advice = "shmrun needs it: Linux 5.3 or later, and a sandbox (seccomp) that lets it through"
        yield Finding(Level.ERROR, "kernel", f"{kernel}; pidfd does not work: {e}", advice)
    else:
        yield Finding(Level.OK, "kernel", f"{kernel}; pidfd works")
    try:
        check_proc()
    except ShmcollError as e:
        cause, _, advice = str(e).partition(". ")
        yield Finding(Level.ERROR, "/proc", cause, advice)


def cores() -> Iterator[Finding]:
    allowed, usable = len(allowed_cores()), usable_cores()
    text = f"{usable} usable: {os.cpu_count()} in the machine, {allowed} allowed by affinity"
    if usable < allowed:
        text += f", {usable} by the CPU quota of a cgroup"
    if usable > 1:
        yield Finding(Level.OK, "cores", text)
    else:
        advice = "ranks take turns on one core; give the container more (docker run --cpus), or widen its affinity"
        yield Finding(Level.WARNING, "cores", text, advice)


def polling() -> Iterator[Finding]:
    """Yield the findings about polling, as `Communicator` decides it: ranks poll if there is a core for each."""
    usable = usable_cores()
    for ranks in (2, 4, 8):
        if ranks <= usable:
            yield Finding(Level.OK, "waiting", f"{ranks} ranks poll before they sleep: there is a core for each")
        else:
            text = f"{ranks} ranks yield their core and sleep: there are more ranks than the {usable} usable cores"
            yield Finding(Level.OK, "waiting", f"{text}; correct, but slower")


def shared_memory() -> Iterator[Finding]:
    folder, need = "/dev/shm", _arena_bytes(max(2, usable_cores()))
    try:
        fd = os.memfd_create("shmcoll-doctor", os.MFD_CLOEXEC)
    except OSError as e:
        text = f"not available: {e.strerror}; shmrun and shmcoll.run use {folder} as well"
        yield Finding(Level.WARNING, "memfd", text)
    else:
        os.close(fd)
        yield Finding(Level.OK, "memfd", "available; shmrun and shmcoll.run use it, whatever the size of /dev/shm")
        yield _memory(available(None), need)
    others = "ranks that mpiexec, torchrun or a shell starts meet there"
    try:
        info = os.statvfs(folder)
    except OSError as e:
        yield Finding(Level.WARNING, folder, f"missing ({e.strerror}); {others}")
        return
    size, free = info.f_blocks * info.f_frsize, info.f_bavail * info.f_frsize
    text = f"{amount(free)} free of {amount(size)}; {others}"
    if free >= max(need, _ENOUGH):
        yield Finding(Level.OK, folder, text)
    else:
        advice = "for such ranks, remove files from it or make it larger: docker run --shm-size=1g"
        yield Finding(Level.WARNING, folder, text, advice)


def _memory(room: int, need: int) -> Finding:
    text = f"{amount(room)} is available (limits of the machine and of every enclosing cgroup considered)"
    if room >= need:
        return Finding(Level.OK, "memory", text)
    return Finding(Level.ERROR, "memory", text, "end other programs, or give the container more: docker run --memory")


def one_copy() -> Iterator[Finding]:
    """Yield whether ranks can read each other's memory, as two children of this process find it."""
    value = ctypes.c_int64(4711)
    read = ctypes.c_int64(0)
    ready, told = os.pipe()
    owner = os.fork()
    if owner == 0:
        rank_process.die_with(os.getppid())
        rank_process.let_ranks_read(os.getppid())
        os.write(told, b".")
        signal.pause()
    os.read(ready, 1)
    reader = os.fork()
    if reader == 0:
        done = atomics.read_memory(owner, ctypes.addressof(read), ctypes.addressof(value), ctypes.sizeof(value))
        os._exit(0 if read.value == value.value else max(-done, 1))
    error = os.waitstatus_to_exitcode(os.waitpid(reader, 0)[1])
    os.kill(owner, signal.SIGKILL)
    os.waitpid(owner, 0)
    for fd in (ready, told):
        os.close(fd)
    if error == 0:
        yield Finding(Level.OK, "one copy", "ranks can read each other's memory, so long arrays are copied once")
    else:
        text = f"ranks cannot read each other's memory ({os.strerror(error)}), so long private arrays are copied twice"
        advice = "arrays made by comm.empty or shmrun --share-arrays are copied once; or kernel.yama.ptrace_scope=1"
        yield Finding(Level.WARNING, "one copy", text, advice)


def trial_arena() -> Iterator[Finding]:
    ranks = max(2, usable_cores())
    try:
        made = arena.create(ranks, timeout=1.0)
    except (ShmcollError, ValueError, OSError) as e:
        yield Finding(Level.ERROR, "arena", str(e))
        return
    heap = made.load(layout.JOB_HEAP)
    need = _arena_bytes(ranks)
    text = f"made one for {ranks} ranks, {amount(need)}, and a heap of up to {amount(heap)}"
    if made.size < need + ranks * heap:
        advice = "less room for shared arrays and groups; ulimit -v unlimited"
        yield Finding(Level.WARNING, "arena", f"{text}, but could map {amount(made.size)} only", advice)
    else:
        yield Finding(Level.OK, "arena", text)
    os.close(made.fd)


def _arena_bytes(ranks: int) -> int:
    return layout.arena_bytes(ranks, arena.usual_window(ranks, usable_cores()))


def limits() -> Iterator[Finding]:
    ranks = max(8, usable_cores())
    for subject, which, need, what in (
        ("ulimit -v", resource.RLIMIT_AS, 64 << 30, "KiB of address space"),
        ("ulimit -f", resource.RLIMIT_FSIZE, _arena_bytes(ranks), "KiB a file, in memory too"),
        ("ulimit -n", resource.RLIMIT_NOFILE, 32 + 4 * ranks, "open files; the launcher needs up to 4 a rank"),
        ("ulimit -u", resource.RLIMIT_NPROC, 64 + ranks, "processes of this user"),
    ):
        limit = resource.getrlimit(which)[0]
        if limit == resource.RLIM_INFINITY:
            yield Finding(Level.OK, subject, "unlimited")
            continue
        text = f"{limit >> 10 if 'KiB' in what else limit} {what}"
        if limit >= need:
            yield Finding(Level.OK, subject, text)
        else:
            enough = need >> 10 if "KiB" in what else need
            yield Finding(Level.WARNING, subject, text, f"little for {ranks} ranks: {subject} {enough}")
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    text = "unlimited" if locked == resource.RLIM_INFINITY else f"{locked >> 10} KiB"
    yield Finding(Level.OK, "ulimit -l", f"{text}; shmcoll locks no memory")
