"""Run a command whose system calls of these names are refused, as in a container with a strict profile.

python refuse.py NAME[,NAME...] ERRNO COMMAND [ARGUMENT ...]
"""

import ctypes
import errno
import os
import platform
import struct
import sys

#: numbers of the system calls that shmcoll makes, and Python can do without, by machine; `poll` is ppoll on aarch64
NUMBERS = {
    "x86_64": {
        "bind": 49, "chdir": 80, "clone": 56, "close_range": 436, "dup3": 292, "epoll_create1": 291,
        "fallocate": 285, "fchmod": 91, "flock": 73, "fstatfs": 138, "ftruncate": 77, "getpgid": 121,
        "getrandom": 318, "getsockname": 51, "getsockopt": 55, "getxattr": 191, "kill": 62, "linkat": 265,
        "madvise": 28, "mbind": 237, "memfd_create": 319, "mremap": 25, "pidfd_open": 434, "pipe2": 293,
        "poll": 7, "prctl": 157, "prlimit64": 302, "process_vm_readv": 310, "recvfrom": 45, "recvmsg": 47,
        "rt_sigtimedwait": 128, "sched_getaffinity": 204, "sched_setaffinity": 203, "sched_yield": 24,
        "sendmsg": 46, "sendto": 44, "set_robust_list": 273, "setpgid": 109, "setsid": 112, "sigaltstack":
        131, "signalfd4": 289, "socket": 41, "socketpair": 53, "statfs": 137, "sysinfo": 99, "unlinkat": 263,
        "wait4": 61, "waitid": 247,
    },
    "aarch64": {
        "bind": 200, "chdir": 49, "clone": 220, "close_range": 436, "dup3": 24, "epoll_create1": 20,
        "fallocate": 47, "fchmod": 52, "flock": 32, "fstatfs": 44, "ftruncate": 46, "getpgid": 155,
        "getrandom": 278, "getsockname": 204, "getsockopt": 209, "getxattr": 8, "kill": 129, "linkat": 37,
        "madvise": 233, "mbind": 235, "memfd_create": 279, "mremap": 216, "pidfd_open": 434, "pipe2": 59,
        "poll": 73, "prctl": 167, "prlimit64": 261, "process_vm_readv": 270, "recvfrom": 207, "recvmsg": 212,
        "rt_sigtimedwait": 137, "sched_getaffinity": 123, "sched_setaffinity": 122, "sched_yield": 124,
        "sendmsg": 211, "sendto": 206, "set_robust_list": 99, "setpgid": 154, "setsid": 157, "sigaltstack":
        132, "signalfd4": 74, "socket": 198, "socketpair": 199, "statfs": 43, "sysinfo": 179, "unlinkat": 35,
        "wait4": 260, "waitid": 95,
    },
}[platform.machine()]  # fmt: skip

_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[platform.machine()]
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


def refuse(names: list[str], error: int) -> None:
    """Refuse these system calls from now on, in this process and all that it starts."""
    last = len(names)  # how far the steps behind those for the names are away
    steps = [
        (_LOAD, 0, 0, 4),  # seccomp_data.arch
        (_EQUAL, 0, last + 1, _ARCHITECTURE),
        (_LOAD, 0, 0, 0),  # seccomp_data.nr
        *((_EQUAL, last - i, 0, NUMBERS[name]) for i, name in enumerate(names)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO | error),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (_PR_SET_SECCOMP, _FILTER, program, 0, 0)):
        if libc.prctl(*arguments):
            raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    refuse(sys.argv[1].split(","), getattr(errno, sys.argv[2]))
    os.execvp(sys.argv[3], sys.argv[3:])
