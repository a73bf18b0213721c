"""Signals that the launcher reads from a descriptor, each with its sender."""

import ctypes
import os
import signal
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_LIBC = ctypes.CDLL(None, use_errno=True)
_INFO = struct.Struct("=IiiI112x")  # struct signalfd_siginfo: signal, errno, code, pid
_FROM_KERNEL = 0x80  # the code of a signal from a terminal


class Arrived(NamedTuple):
    """A signal that has arrived. sender: 0 for the terminal."""

    signum: signal.Signals
    sender: int


def catch(signums: Iterable[int]) -> int:
    """Return a descriptor from which these signals, which are blocked, can be read. Ignored ones stay ignored."""
    wanted = sum(1 << (signum - 1) for signum in signums if signal.getsignal(signum) is not signal.SIG_IGN)
    fd = _LIBC.signalfd(-1, (wanted).to_bytes(128, "little"), os.O_NONBLOCK | os.O_CLOEXEC)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "signalfd")
    return int(fd)


def read(fd: int) -> Iterator[Arrived]:
    """Yield the signals that have arrived, the lowest number first."""
    for signum, _, code, sender in _INFO.iter_unpack(os.read(fd, 32 * _INFO.size)):
        yield Arrived(signal.Signals(signum), 0 if code == _FROM_KERNEL else sender)
