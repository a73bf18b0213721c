"""Placing an object file in memory, without LLVM: to import llvmlite takes half as long as to import numpy.

An object of ours is simple. It has the large code model, so each reference is a full address (`compile.py`), and its
only undefined symbols are functions of libc and CPython. Placing it means: copy its sections into one mapping, write
the addresses where the relocations say, and protect the mapping. Sections of data stay writable, all others become
executable. Objects that have anything else, and those of aarch64, are left to LLVM.

The unwinder learns of the frames, as from LLVM: a thread that ends inside a call unwinds them.
"""

import ctypes
import mmap
import os
import platform
import struct
from functools import cache
from typing import NamedTuple

from shmcoll.engine.system.text import to_text

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p

_SYMBOLS, _RELOCATIONS, _EMPTY = 2, 4, 8  # types of sections
_WRITABLE, _IN_MEMORY = 1, 2  # their flags
_UNDEFINED, _RESERVED = 0, 0xFF00  # indexes of sections
_ABSOLUTE, _RELATIVE = 1, 24  # types of relocations: R_X86_64_64, R_X86_64_PC64
_FAILED = (1 << 64) - 1  # what mmap returns then
_WORD_BYTES = 8


class _Section(NamedTuple):
    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


def place(data: bytes, symbols: tuple[str, ...]) -> tuple[int, ...] | None:
    """Place an object file for as long as the process lives. Returns the addresses of its symbols; None if that is a
    task for LLVM. Raises `ImportError` if one of them, or a function that the object calls, is missing."""
    if platform.machine() != "x86_64":
        return None
    shape = struct.unpack_from("<Q10xHHH", data, 40)  # offset of the headers, their size, their number, names
    sections = [_Section._make(struct.unpack_from("<IIQQQQIIQQ", data, shape[0] + i * 64)) for i in range(shape[2])]
    relocations = [
        (section.info, *one)
        for section in sections
        if section.type == _RELOCATIONS and sections[section.info].flags & _IN_MEMORY
        for one in struct.iter_unpack("<QIIq", data[section.offset : section.offset + section.size])
    ]
    if any(kind not in (_ABSOLUTE, _RELATIVE) for _, _, kind, _, _ in relocations):
        return None
    places = _mapped(data, sections)
    known: dict[str, int] = {}
    addresses = []
    table = next(section for section in sections if section.type == _SYMBOLS)
    for name, _, _, where, value, _ in struct.iter_unpack("<IBBHQQ", data[table.offset : table.offset + table.size]):
        text = _name(data, sections[table.link], name)
        if where >= _RESERVED:
            addresses.append(value)
        elif where != _UNDEFINED:
            addresses.append(places.get(where, 0) + value)
            known[text] = addresses[-1]
        else:
            addresses.append(_address_of(text) if text else 0)
    for section, offset, kind, symbol, addend in relocations:
        at = places[section] + offset
        base = at if kind == _RELATIVE else 0
        ctypes.c_uint64.from_address(at).value = addresses[symbol] + addend - base
    _protect(places, sections)
    for number, at in places.items():
        if _name(data, sections[shape[3]], sections[number].name) == ".eh_frame" and (unwinder := _unwinder()):
            unwinder["__register_frame"](ctypes.c_void_p(at))
    if missing := [symbol for symbol in symbols if symbol not in known]:
        raise ImportError(f"compiled code has no {', '.join(missing)}")
    return tuple(known[symbol] for symbol in symbols)


def _mapped(data: bytes, sections: list[_Section]) -> dict[int, int]:
    """Copy the sections that are in memory into a new mapping, those of data behind the others and on pages of their
    own. Returns their addresses. Whatever is behind a section is 0: the unwinder's ends there."""
    places, end = {}, 0
    numbers = [i for i, section in enumerate(sections) if section.flags & _IN_MEMORY]
    for is_data in (0, _WRITABLE):
        end = -(-end // mmap.PAGESIZE) * mmap.PAGESIZE
        for i in numbers:
            if sections[i].flags & _WRITABLE == is_data:
                places[i] = -(-end // (sections[i].alignment or 1)) * (sections[i].alignment or 1)
                end = places[i] + sections[i].size + _WORD_BYTES
    access = mmap.PROT_READ | mmap.PROT_WRITE
    base = _LIBC.mmap(None, ctypes.c_size_t(end), access, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, ctypes.c_long(0))
    if base == _FAILED:
        raise MemoryError(f"no memory for {end} bytes of compiled code: {os.strerror(ctypes.get_errno())}")
    for i, place in places.items():
        places[i] = base + place
        if sections[i].type != _EMPTY:
            part = data[sections[i].offset : sections[i].offset + sections[i].size]
            ctypes.memmove(base + place, part, len(part))
    return places


def _protect(places: dict[int, int], sections: list[_Section]) -> None:
    """Make the pages of code executable, and not writable any more."""
    ends = [place + sections[i].size + _WORD_BYTES for i, place in places.items() if not sections[i].flags & _WRITABLE]
    begin = min(places.values()) // mmap.PAGESIZE * mmap.PAGESIZE
    length = ctypes.c_size_t(max(ends) - begin)
    if _LIBC.mprotect(ctypes.c_void_p(begin), length, mmap.PROT_READ | mmap.PROT_EXEC):
        raise ImportError(f"compiled code may not be executed: {os.strerror(ctypes.get_errno())}")


@cache
def _unwinder() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("libgcc_s.so.1")
    except OSError:  # then nobody unwinds
        return None


def _name(data: bytes, strings: _Section, offset: int) -> str:
    begin = strings.offset + offset
    return to_text(data[begin : data.index(0, begin)])


def _address_of(function: str) -> int:
    """Return where a function of libc or of CPython is."""
    try:
        return ctypes.cast(getattr(_LIBC, function), ctypes.c_void_p).value or 0
    except AttributeError:
        raise ImportError(f"compiled code needs {function}, which this process does not have") from None
