"""A reader of shared objects for 64 bits, little-endian, by what the dynamic linker itself reads."""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

LOAD, DYNAMIC, STACK = 1, 2, 0x6474E551
READABLE, EXECUTABLE, WRITABLE = 4, 1, 2
NEEDED, HASH, STRTAB, SYMTAB, RELA, RELASZ, SONAME, RELACOUNT = 1, 4, 5, 6, 7, 8, 14, 0x6FFFFFF9
GNU_HASH, JMPREL, PLTRELSZ = 0x6FFFFEF5, 23, 2


class Segment(NamedTuple):
    kind: int
    flags: int
    offset: int
    address: int
    length: int
    memory: int
    alignment: int


@dataclass(frozen=True)
class Symbol:
    name: str
    is_weak: bool
    is_defined: bool
    address: int
    length: int


class Elf:
    """A shared object."""

    def __init__(self, data: bytes):
        self.data = data
        assert data[:6] == b"\x7fELF\x02\x01"
        self.kind, self.machine = struct.unpack_from("<HH", data, 16)
        start, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
        fields = (struct.unpack_from("<IIQQQQQQ", data, start + i * size) for i in range(count))
        self.segments = [Segment(one[0], one[1], one[2], one[3], *one[5:]) for one in fields]
        dynamic = next(one for one in self.segments if one.kind == DYNAMIC)
        entries = struct.iter_unpack("<QQ", data[dynamic.offset : dynamic.offset + dynamic.length])
        self.entries = []
        for tag, value in entries:
            if not tag:
                break
            self.entries.append((tag, value))
        self.tags = dict(self.entries)

    @classmethod
    def of(cls, path: Path) -> "Elf":
        return cls(path.read_bytes())

    def offset(self, address: int) -> int:
        """Return where in the file an address is."""
        one = next(
            one for one in self.segments if one.kind == LOAD and one.address <= address < one.address + one.length
        )
        return address - one.address + one.offset

    def text(self, address: int) -> str:
        start = self.offset(address)
        return self.data[start : self.data.index(b"\0", start)].decode()

    def word(self, address: int, form: str = "<Q") -> int:
        return int(struct.unpack_from(form, self.data, self.offset(address))[0])

    def name(self, tag: int) -> str:
        """Return the text of an entry of the dynamic section."""
        return self.text(self.tags[STRTAB] + self.tags[tag])

    def symbol(self, number: int) -> Symbol:
        at = self.offset(self.tags[SYMTAB]) + 24 * number
        name, info, _, section, address, length = struct.unpack_from("<IBBHQQ", self.data, at)
        return Symbol(self.text(self.tags[STRTAB] + name), info >> 4 == 2, section != 0, address, length)

    def symbols(self) -> list[Symbol]:
        """Return all symbols: those before the names of the symbols, which linkers write behind them."""
        count = (self.tags[STRTAB] - self.tags[SYMTAB]) // 24
        return [self.symbol(i) for i in range(1, count)]

    def find(self, name: str) -> Symbol | None:
        """Look a symbol up as the dynamic linker does, in the hash table of System V."""
        table = self.offset(self.tags[HASH])
        buckets, _ = struct.unpack_from("<II", self.data, table)
        key = 0
        for byte in name.encode():
            key = (key << 4) + byte
            key = (key ^ (key & 0xF0000000) >> 24) & 0x0FFFFFFF
        words = struct.unpack_from(f"<{buckets}I", self.data, table + 8)
        number = words[key % buckets]
        while number:
            if self.symbol(number).name == name:
                return self.symbol(number)
            number = struct.unpack_from("<I", self.data, table + 8 + 4 * (buckets + number))[0]
        return None

    def relocations(self) -> list[tuple[int, int, int, int]]:
        """Return address, type, number of the symbol, and addend of each."""
        start = self.offset(self.tags[RELA])
        found = struct.iter_unpack("<QIIq", self.data[start : start + self.tags[RELASZ]])
        return [(at, kind, number, addend) for at, kind, number, addend in found]
