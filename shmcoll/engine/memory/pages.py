"""The memory behind a mapping of a file: committed, cleared, given back. It works by address, without a descriptor.

A program may close our descriptors, and other files may get their numbers (`engine/system/descriptors.py`). Then we
would change those files. No check helps against another thread that closes a descriptor between the check and the use.
A mapping is ours until we unmap it.

    give       MADV_POPULATE_WRITE (Linux 5.14). If there is no memory it fails with EFAULT, where a store would be a
               SIGBUS. Older kernels do not know it. There a system call stores a few bytes into each page, and fails
               with EFAULT if there is no memory for a page
    clear      MADV_REMOVE gives the pages back, and pages that are not there read as zero. Some kernels do not have it,
               and no kernel does it for locked memory (mlockall): then zeros are stored, and the pages stay

Memory begins and ends where the caller says, whatever the size of the system's pages.

Huge pages. A processor finds 2 MiB of shared memory by one entry of its address cache if one page holds them and the
mapping begins at a multiple of 2 MiB, as the file does. Linux gives shared memory no such pages by itself (the file
`transparent_hugepage/shmem_enabled` says `never`), but it makes them on demand: MADV_COLLAPSE (Linux 6.1) replaces
pages of which at least one is there by a huge one, without the rights of an administrator. So `give` commits one page
of each 2 MiB that it fills, and has them collapsed. Then it commits what is missing, which is all of it where the
kernel has no huge pages left, does not know the advice, or was told `deny`. The kernel first asks every core to give
up pages that it has set aside: 2 to 20 ms for 8 MiB, and 1 ms without huge pages. So a single huge page, and memory
that may hardly be used, is better off without them.
"""

import ctypes
import errno
import mmap
from functools import cache

from shmcoll.engine import layout

HUGE = 2 << 20  # of x86-64, and of aarch64 with pages of 4 KiB; where they are longer, the kernel refuses the advice
MADV_POPULATE_WRITE, MADV_COLLAPSE = 23, 25

_LIBC = ctypes.CDLL(None, use_errno=True)
_MADV_REMOVE = 9
_PAGE = mmap.PAGESIZE


def give(address: int, length: int, *, huge: bool = True) -> bool:
    """Commit memory that holds nothing yet. Returns False if there is too little. huge: whether huge pages are worth
    their time."""
    first, end = address & -_PAGE, address + length
    if huge:
        _give_huge(address, end)
    while not _advise(first, _up(end), MADV_POPULATE_WRITE):
        error = ctypes.get_errno()
        if error in (errno.EFAULT, errno.ENOMEM):
            return False
        if error != errno.EINTR:  # the kernel does not know it
            return all(_touch(max(page, address)) for page in range(first, end, _PAGE))
    return True


@cache
def function_to_commit() -> int:
    """Return the address of madvise, for code that commits pages of `layout.PAGE` bytes by it; 0 if it cannot do
    that here."""
    can = _PAGE == layout.PAGE and advice_to_commit()
    return (ctypes.cast(_LIBC.madvise, ctypes.c_void_p).value or 0) if can else 0


@cache
def advice_to_commit() -> int:
    """Return the advice by which madvise commits memory; 0 if the kernel does not know it."""
    with mmap.mmap(-1, _PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as page:
        try:
            page.madvise(MADV_POPULATE_WRITE)
        except OSError:
            return 0
    return MADV_POPULATE_WRITE


def clear(address: int, length: int) -> None:
    """Clear committed memory, and give back as much of it as possible."""
    begin, end = _up(address), (address + length) & -_PAGE
    if begin >= end or not _advise(begin, end, _MADV_REMOVE):
        begin = end = address + length
    ctypes.memset(address, 0, begin - address)
    ctypes.memset(end, 0, address + length - end)


def drop(address: int, length: int) -> None:
    """Give the whole pages of a range back, if the kernel takes them."""
    begin, end = _up(address), (address + length) & -_PAGE
    if begin < end:
        _advise(begin, end, _MADV_REMOVE)


def _give_huge(begin: int, end: int) -> None:
    """Commit the whole huge pages of a range, if the kernel makes them."""
    begin, end = (begin + HUGE - 1) & -HUGE, end & -HUGE
    if end - begin > HUGE and all(_advise(page, page + _PAGE, MADV_POPULATE_WRITE) for page in range(begin, end, HUGE)):
        _advise(begin, end, MADV_COLLAPSE)


def _touch(address: int) -> bool:
    """Have the kernel store to the page of this address. The call fails if there is no memory for it."""
    place = ctypes.c_void_p(address)
    if _LIBC.getresuid(place, place, place):
        return False
    ctypes.c_int32.from_address(address).value = 0
    return True


def _advise(begin: int, end: int, advice: int) -> bool:
    return not _LIBC.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), advice)


def _up(address: int) -> int:
    return (address + _PAGE - 1) & -_PAGE
