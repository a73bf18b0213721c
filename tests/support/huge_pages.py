"""Whether shared memory is in huge pages, as the kernel tells it."""

import ctypes
import mmap
import os
import re
from functools import cache
from pathlib import Path

import pytest

from shmcoll.engine.memory import pages

HUGE = pages.HUGE
_LIBC = ctypes.CDLL(None)


def huge_bytes(address: int) -> int:
    """Return how much of the mapping that contains an address is mapped by huge pages."""
    for mapping in re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text(), flags=re.MULTILINE)[1:]:
        first, end = (int(word, 16) for word in mapping.split(maxsplit=1)[0].split("-"))
        if first <= address < end:
            return int(re.search(r"^ShmemPmdMapped: +(\d+) kB", mapping, re.MULTILINE)[1]) << 10  # type: ignore[index]
    raise AssertionError(f"nothing is mapped at {address:#x}")


def need_huge_pages() -> None:
    """Skip a test where the kernel makes no huge pages of shared memory."""
    if not _makes_huge_pages():
        pytest.skip("this kernel makes no huge pages of shared memory on demand")


@cache
def _makes_huge_pages() -> bool:
    fd = os.memfd_create("test")
    try:
        os.ftruncate(fd, 2 * HUGE)
        with mmap.mmap(fd, 2 * HUGE) as memory:
            memory[:: mmap.PAGESIZE] = bytes(2 * HUGE // mmap.PAGESIZE)
            view = ctypes.c_char.from_buffer(memory)
            begin = ctypes.addressof(view)
            given = (
                begin % HUGE or _LIBC.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(HUGE), pages.MADV_COLLAPSE) == 0
            )
            del view
            return bool(given)
    finally:
        os.close(fd)
