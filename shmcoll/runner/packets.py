"""Packets between a caller and ranks that work on its items (`map_call.py`, `map_worker.py`).

A packet is one message of a SOCK_SEQPACKET socket: it arrives as a whole or not at all, and one reader gets it. It
consists of a head and a body, which is a pickle. A long body, and the buffers that are left out of it
(`pickling.LARGE`), are in a file in memory, whose descriptor comes with the packet. Further descriptors are those of
shared arrays (`shared_memory.py`).

    sender     writes the file: body, lengths of the buffers, then each buffer at a page of its own. Seals its size, and
               sends the packet. It does not change the file again, unless the receiver has said that it has let go
    receiver   maps the file privately: what it writes there, no other process sees. Its arrays are in the mapping,
               which ends with the last of them

So the bytes of a large array are copied once, by the sender. The file has no name: the kernel frees it with the last
descriptor and the last mapping.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import socket
import struct
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from shmcoll.engine.memory import arena_file
from shmcoll.engine.memory.available_memory import available, mib
from shmcoll.errors import ArenaError
from shmcoll.runner import passing, protocol, shared_memory

INLINE = 32 << 10  # bytes: longer bodies are in a file
_CHECKED = 64 << 20  # bytes: for such a file it is checked first whether there is enough memory

_MAGIC = 0x5348_4D43_4F4C_4C00
_HEAD = struct.Struct("=9qd")  # magic, kind, rank, first, count, flags, length of the body, buffers, file, seconds

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_FAILED = ctypes.c_void_p(-1).value

# flags
LAST = 1  # of an answer: nothing of its chunk follows
HAS_ERRORS = 4  # of an answer: exceptions are among the results
LET_GO = 2  # of an answer: the rank has no mapping of the chunk's file any more


@dataclass
class Packet:
    """A packet. rank: its sender. first: the number of its chunk. count: how many results an answer has. seconds: how
    long the chunk has taken so far. memory: refers to the mapping of the file, as long as it is there."""

    kind: int
    rank: int
    first: int
    count: int = 0
    flags: int = 0
    seconds: float = 0.0
    body: Any = b""
    buffers: list[memoryview] = field(default_factory=list)
    memory: Any = None
    descriptors: list[int] = field(default_factory=list)


class File:
    """A file in memory for the packets of one sender, which may use it again."""

    def __init__(self, length: int) -> None:
        self.length = -length % mmap.PAGESIZE + length
        if length >= _CHECKED and available(None) < length:
            raise arena_file.too_small("an item or a result", length, None)
        self.fd = os.memfd_create("shmcoll-items", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, self.length)
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, arena_file.SEALS)
        except BaseException as e:
            self.close()
            if isinstance(e, OSError) and e.errno == errno.EFBIG:
                text = f"an item or a result takes {mib(length)}, more than the limit on the size of files (ulimit -f)"
                raise OSError(errno.EFBIG, text) from None
            raise

    def write(self, data: Any, offset: int) -> None:
        view = memoryview(data)
        done = 0
        while done < view.nbytes:
            try:
                done += os.pwrite(self.fd, view[done:], offset + done)
            except OSError as e:
                if e.errno != errno.ENOSPC:
                    raise
                raise arena_file.too_small("an item or a result", view.nbytes, self.fd) from None

    def close(self) -> None:
        os.close(self.fd)


def length_of(body: bytes, large: Sequence[memoryview]) -> int:
    """Return the length of the file for these; 0 if they need none."""
    if not large and len(body) <= INLINE:
        return 0
    return _ends(len(body), [one.nbytes for one in large])[-1]


def _ends(body: int, buffers: list[int]) -> list[int]:
    """Return where each buffer begins in the file, and the end of the last."""
    page = mmap.PAGESIZE
    at = -(-(body + 8 * len(buffers)) // page) * page
    ends = [at]
    for size in buffers:
        at += -(-size // page) * page
        ends.append(at)
    return ends


def send(
    sock: socket.socket, packet: Packet, large: Sequence[memoryview], file: File | None, *, waits: bool = True
) -> None:
    """Send a packet whose body is bytes. file: for what is not sent inline. waits: whether to wait for a place in the
    socket; otherwise `BlockingIOError` is raised if there is none."""
    body = packet.body
    descriptors = packet.descriptors
    if file:
        sizes = [one.nbytes for one in large]
        file.write(body + struct.pack(f"={len(sizes)}q", *sizes), 0)
        for one, at in zip(large, _ends(len(body), sizes), strict=False):
            file.write(one, at)
        descriptors = [file.fd, *descriptors]
    head = _HEAD.pack(
        _MAGIC, packet.kind, packet.rank, packet.first, packet.count, packet.flags, len(body), len(large),
        file is not None, packet.seconds,
    )  # fmt: skip
    parts = [head] if file else [head, body]
    flags = 0 if waits else socket.MSG_DONTWAIT
    while True:
        try:
            passing.send(sock, parts, descriptors, flags)
            return
        except OSError as e:
            if e.errno != errno.ETOOMANYREFS:  # so many descriptors of this user are on their way
                raise
            if not waits:
                raise BlockingIOError(e.errno, e.strerror) from None
        time.sleep(0.001)


def receive(sock: socket.socket, flags: int = 0) -> Packet | None:
    """Return the next packet; None if the sender has closed its end, or has not sent a packet of ours."""
    while True:
        data, descriptors, is_cut = passing.receive(sock, _HEAD.size + INLINE, flags)
        if not data:
            return None
        try:
            if is_cut:
                raise protocol.too_many_files()
            if len(data) >= _HEAD.size and (packet := _parsed(data, descriptors)):
                return packet
        except BaseException:
            close(descriptors)
            raise
        close(descriptors)  # the program has written into a descriptor that it had not opened


def _parsed(data: bytes, descriptors: list[int]) -> Packet | None:
    magic, kind, rank, first, count, flags, length, buffers, has_file, seconds = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        return None
    packet = Packet(kind, rank, first, count, flags, seconds, descriptors=descriptors)
    if not has_file:
        packet.body = data[_HEAD.size :]
        return packet
    fd = descriptors.pop(0)
    try:
        memory = mapped(fd)
    finally:
        os.close(fd)
    view = memoryview(memory).cast("B")
    sizes = struct.unpack_from(f"={buffers}q", view, length)
    packet.body = view[:length]
    starts = _ends(length, list(sizes))
    packet.buffers = [view[at : at + size] for at, size in zip(starts, sizes, strict=False)]
    packet.memory = weakref.ref(memory)
    return packet


def close(descriptors: Sequence[int]) -> None:
    for fd in descriptors:
        os.close(fd)


def mapped(fd: int) -> Any:
    """Map a file of a packet privately. Keeps no descriptor, as Python's `mmap` would: a program may have many results.
    Raises `ArenaError` if it is not such a file."""
    shared_memory.check(fd)
    length = os.fstat(fd).st_size
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    at = _LIBC.mmap(None, ctypes.c_size_t(length), protection, mmap.MAP_PRIVATE, fd, ctypes.c_int64(0))
    if at is None or at == _FAILED:
        raise ArenaError(f"cannot map {mib(length)} of an item or a result: {os.strerror(ctypes.get_errno())}")
    memory = (ctypes.c_ubyte * length).from_address(at)
    weakref.finalize(memory, _LIBC.munmap, ctypes.c_void_p(at), ctypes.c_size_t(length)).atexit = False
    return memory
