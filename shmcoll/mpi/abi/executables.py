"""What an executable says about the libraries that it needs, read from its ELF header."""

import mmap
import struct
from pathlib import Path
from typing import NamedTuple

from shmcoll.engine.system.text import exact_text

_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRTAB, _RPATH = 1, 5, 15


class Needs(NamedTuple):
    """The names of libraries, and whether the executable looks for them in folders of its own before LD_LIBRARY_PATH
    (RPATH)."""

    names: list[str]
    has_own_folders: bool


def needs(path: Path) -> Needs:
    """Return what an executable needs. A script, or anything else that is no ELF file for 64 bits, needs nothing."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _needs(data)
    except (OSError, ValueError, struct.error):
        return Needs([], False)


def _needs(data: mmap.mmap) -> Needs:
    if data[:6] != b"\x7fELF\x02\x01":  # 64 bits, little-endian
        return Needs([], False)
    start, (size, count) = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<HH", data, 54)
    segments = [struct.unpack_from("<IIQQQQ", data, start + i * size) for i in range(count)]
    loaded = [(offset, address, length) for kind, _, offset, address, _, length in segments if kind == _LOAD]
    dynamic = [(offset, length) for kind, _, offset, _, _, length in segments if kind == _DYNAMIC]
    entries = [one for offset, length in dynamic for one in struct.iter_unpack("<QQ", data[offset : offset + length])]
    strings = next((value for tag, value in entries if tag == _STRTAB), 0)
    at = next((strings - a + offset for offset, a, length in loaded if a <= strings < a + length), 0)
    texts = [data[at + value : data.find(b"\0", at + value)] for tag, value in entries if tag == _NEEDED and at]
    return Needs([exact_text(text) for text in texts], any(tag == _RPATH for tag, _ in entries))
