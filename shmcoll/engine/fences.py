"""Memory fences for plain Python, whose own loads and stores are plain machine instructions.

    fence      no load and no store moves across it, in either direction
    acquire    behind a load: what follows is read and written after it
    release    in front of a store: what is before is read and written before it

x86-64 keeps loads in order, stores in order, and a store behind earlier loads. There `acquire` and `release` do
nothing, and only a store followed by a load of another word needs `fence`. aarch64 reorders all of these.

A fence posts a private semaphore and takes it back, because these are atomic instructions that every glibc has. On
x86-64 each of the two is a full fence. On aarch64 glibc posts with release and takes with acquire, and that processor
keeps an acquiring load behind an earlier releasing store (Arm Architecture Reference Manual, "barrier-ordered-before").
So what is before the post stays before what is behind the take. Threads may use the semaphore at once: each takes only
after it has posted, so none ever finds it empty. membarrier(2) would not do: sandboxes refuse it, and in a process with
one thread it returns without a fence.

Cost: about 1 us. Compiled code has fences of its own, in `atomics.py`.
"""

import ctypes
import os

_LIBC = ctypes.CDLL(None)
_SEMAPHORE = (ctypes.c_int64 * 4)()  # all zero: what sem_init makes of a private one of value 0
_IS_ORDERED = os.uname().machine == "x86_64"


def fence() -> None:
    _LIBC.sem_post(_SEMAPHORE)
    _LIBC.sem_trywait(_SEMAPHORE)


def acquire() -> None:
    if not _IS_ORDERED:
        fence()


def release() -> None:
    if not _IS_ORDERED:
        fence()
