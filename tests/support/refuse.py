"""Run a command whose system calls of one name are refused, as in a container with a strict profile.

python refuse.py NAME ERRNO COMMAND [ARGUMENT ...]
"""

import ctypes
import errno
import os
import platform
import struct
import sys

#: numbers of system calls, by machine
NUMBERS = {
    "x86_64": {
        "close_range": 436, "epoll_create1": 291, "fallocate": 285, "fchmod": 91, "flock": 73, "fstatfs": 138,
        "getxattr": 191, "madvise": 28, "mbind": 237, "memfd_create": 319, "mremap": 25, "pidfd_open": 434,
        "prctl": 157, "prlimit64": 302, "process_vm_readv": 310, "rt_sigtimedwait": 128, "sched_getaffinity": 204,
        "sched_setaffinity": 203, "sched_yield": 24, "sendmsg": 46, "setpgid": 109, "setsid": 112, "socketpair": 53,
        "statfs": 137, "waitid": 247, "ftruncate": 77, "poll": 7, "sysinfo": 99, "kill": 62, "getrandom": 318,
    },
    "aarch64": {
        "close_range": 436, "epoll_create1": 20, "fallocate": 47, "fchmod": 52, "flock": 32, "fstatfs": 44,
        "getxattr": 8, "madvise": 233, "mbind": 235, "memfd_create": 279, "mremap": 216, "pidfd_open": 434,
        "prctl": 167, "prlimit64": 261, "process_vm_readv": 270, "rt_sigtimedwait": 137, "sched_getaffinity": 123,
        "sched_setaffinity": 122, "sched_yield": 124, "sendmsg": 211, "setpgid": 154, "setsid": 157, "socketpair": 199,
        "statfs": 43, "waitid": 95, "ftruncate": 46, "poll": 73, "sysinfo": 179, "kill": 129, "getrandom": 278,
    },
}[platform.machine()]  # fmt: skip

_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[platform.machine()]
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


def refuse(name: str, error: int) -> None:
    """Refuse this system call from now on, in this process and all that it starts."""
    steps = [
        (_LOAD, 0, 0, 4),  # seccomp_data.arch
        (_EQUAL, 0, 3, _ARCHITECTURE),
        (_LOAD, 0, 0, 0),  # seccomp_data.nr
        (_EQUAL, 0, 1, NUMBERS[name]),
        (_RETURN, 0, 0, _ERRNO | error),
        (_RETURN, 0, 0, _ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (_PR_SET_SECCOMP, _FILTER, program, 0, 0)):
        if libc.prctl(*arguments):
            raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    refuse(sys.argv[1], getattr(errno, sys.argv[2]))
    os.execvp(sys.argv[3], sys.argv[3:])
