"""Write the shared library `libmpi.so.12`: every function of MPI jumps through a table that the process fills.

It takes neither a compiler nor a linker, so a machine without them can have it, and it is the same file for every
Python. The functions of MPI, each under its two names (`MPI_X` and `PMPI_X`), are jumps through slots of the table. A
slot begins as `unset`, which returns MPI_ERR_UNSUPPORTED_OPERATION. The image has three segments, in this order:

    read only       the ELF header, and what the dynamic linker reads: symbols, their names, hash table, relocations
    executable      the jumps, and a few functions that need no table (`_Code`)
    writable        the dynamic section, the variables of the ABI, and the table

Each segment begins on a page of PAGE bytes. Everything is addressed relative to the program counter. Only the table
and the variables contain addresses, for which there are relocations.

Source: the System V ABI, chapter 5, and its supplements for x86-64 and AArch64.
"""

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from shmcoll.engine.system.text import to_bytes
from shmcoll.mpi.abi import facts

SONAME = "libmpi.so.12"
PAGE = 64 << 10  # the largest page of either architecture
TABLE = "shmcoll_mpi_table"

_VARIABLES = ("MPI_UNWEIGHTED", "MPI_WEIGHTS_EMPTY", "MPI_F_STATUS_IGNORE", "MPI_F_STATUSES_IGNORE")
_WORD = 8
_SYMBOL, _RELOCATION, _DYNAMIC, _SEGMENT, _HEADER = 24, 24, 16, 56, 64  # bytes of an entry
_STUB = 16  # bytes of a jump
_BUCKETS = 1024
_NULL_SYMBOL = bytes(_SYMBOL)
_FUNCTION, _OBJECT = 0x12, 0x11  # global symbols of that type


@dataclass(frozen=True)
class _Code:
    """The code of one architecture.

    number: of the architecture, in ELF. relative: the type of a relocation that adds the address of the library.
    fixed: the functions that need no table, by name: `unset`, one that succeeds, and one that stores 1 and succeeds.
    """

    number: int
    relative: int
    fixed: dict[str, bytes]

    def jump(self, at: int, slot: int) -> bytes:
        """Return the code at an address that jumps to where the slot at another address points."""
        raise NotImplementedError


class _X86(_Code):
    def jump(self, at: int, slot: int) -> bytes:
        return b"\xf3\x0f\x1e\xfa\xff\x25" + struct.pack("<i", slot - (at + 10))  # endbr64; jmp *slot(%rip)


class _Arm(_Code):
    def jump(self, at: int, slot: int) -> bytes:
        pages = (slot >> 12) - (at + 4 >> 12)
        adrp = 0x90000010 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5
        load = 0xF9400210 | (slot & 0xFFF) // _WORD << 10
        return struct.pack("<4I", 0xD503245F, adrp, load, 0xD61F0200)  # bti c; adrp x16; ldr x16, [x16, #]; br x16


_UNSUPPORTED = facts.CONSTANTS["MPI_ERR_UNSUPPORTED_OPERATION"]
_MACHINES = {
    "x86_64": _X86(
        62,
        8,
        {
            "unset": b"\xb8" + struct.pack("<I", _UNSUPPORTED) + b"\xc3",  # mov $44, %eax; ret
            "shmcoll_mpi_succeed": b"\x31\xc0\xc3",  # xor %eax, %eax; ret
            "shmcoll_mpi_store_1": b"\xc7\x07\x01\x00\x00\x00\x31\xc0\xc3",  # movl $1, (%rdi); xor %eax, %eax; ret
        },
    ),
    "aarch64": _Arm(
        183,
        1027,
        {
            "unset": struct.pack("<2I", 0x52800000 | _UNSUPPORTED << 5, 0xD65F03C0),  # mov w0, #44; ret
            "shmcoll_mpi_succeed": struct.pack("<2I", 0x52800000, 0xD65F03C0),  # mov w0, #0; ret
            # mov w1, #1; str w1, [x0]; mov w0, #0; ret
            "shmcoll_mpi_store_1": struct.pack("<4I", 0x52800021, 0xB9000001, 0x52800000, 0xD65F03C0),
        },
    ),
}


def image(names: Sequence[str] = facts.NAMES, machine: str = os.uname().machine) -> bytes:
    """Return the bytes of the library.

    Args:
        names: the functions, in the order of their slots.
        machine: the architecture, `x86_64` or `aarch64`.

    Raises:
        NotImplementedError: there is no code for this architecture.
    """
    if machine not in _MACHINES:
        raise NotImplementedError(f"programs for MPI run on {' and '.join(_MACHINES)}, and this machine is a {machine}")
    return _Image(names, _MACHINES[machine]).whole()


class _Image:
    """Where everything is, by offset in the file, which is the address when it is loaded."""

    def __init__(self, names: Sequence[str], code: _Code):
        self._code, self._names = code, names
        self._strings = bytearray(b"\0")
        self._soname = self._string(SONAME)
        exported = [name for name in code.fixed if name != "unset"]
        symbols = 1 + 2 * len(names) + len(exported) + len(_VARIABLES) + 1
        texts = [*(kind + name for name in names for kind in ("", "P")), *exported, *_VARIABLES, TABLE]
        self._places = {text: self._string(text) for text in texts}

        self._symbols_at = _HEADER + 4 * _SEGMENT
        self._strings_at = self._symbols_at + symbols * _SYMBOL
        self._hash_at = _up(self._strings_at + len(self._strings), _WORD)
        self._relocations_at = _up(self._hash_at + 4 * (2 + _BUCKETS + symbols), _WORD)
        self._read_end = self._relocations_at + (len(names) + len(_VARIABLES)) * _RELOCATION

        self._code_at = _up(self._read_end, PAGE)
        self._fixed_at = {name: self._code_at + i * _STUB for i, name in enumerate(code.fixed)}
        self._jumps_at = self._code_at + len(code.fixed) * _STUB
        self._code_end = self._jumps_at + len(names) * _STUB

        self._dynamic_at = _up(self._code_end, PAGE)
        self._variables_at = self._dynamic_at + 11 * _DYNAMIC
        self._table_at = self._variables_at + 2 * len(_VARIABLES) * _WORD  # each with the word that it points to
        self._end = self._table_at + len(names) * _WORD

    def whole(self) -> bytes:
        symbols = self._symbols()
        parts = {
            0: self._header() + self._segments(),
            self._symbols_at: _NULL_SYMBOL + b"".join(symbols.values()),
            self._strings_at: bytes(self._strings),
            self._hash_at: _hash_table(list(symbols)),
            self._relocations_at: self._relocations(),
            self._dynamic_at: self._dynamic(),
        }
        parts |= {self._fixed_at[name]: text for name, text in self._code.fixed.items()}
        for i in range(len(self._names)):
            at = self._jumps_at + i * _STUB
            parts[at] = self._code.jump(at, self._table_at + i * _WORD)
        data = bytearray(self._end)
        for at, part in parts.items():
            data[at : at + len(part)] = part
        return bytes(data)

    def _string(self, text: str) -> int:
        at = len(self._strings)
        self._strings += to_bytes(text) + b"\0"
        return at

    def _symbols(self) -> dict[str, bytes]:
        made = {}
        for i, name in enumerate(self._names):
            for kind in ("", "P"):
                made[kind + name] = self._symbol(kind + name, _FUNCTION, self._jumps_at + i * _STUB, _STUB)
        for name, at in self._fixed_at.items():
            if name in self._places:
                made[name] = self._symbol(name, _FUNCTION, at, _STUB)
        for i, name in enumerate(_VARIABLES):
            made[name] = self._symbol(name, _OBJECT, self._variables_at + i * _WORD, _WORD)
        made[TABLE] = self._symbol(TABLE, _OBJECT, self._table_at, len(self._names) * _WORD)
        return made

    def _symbol(self, name: str, kind: int, at: int, length: int) -> bytes:
        return struct.pack("<IBBHQQ", self._places[name], kind, 0, 1, at, length)

    def _relocations(self) -> bytes:
        unset = self._fixed_at["unset"]
        targets = {self._table_at + i * _WORD: unset for i in range(len(self._names))}
        words = self._variables_at + len(_VARIABLES) * _WORD
        targets |= {self._variables_at + i * _WORD: words + i * _WORD for i in range(len(_VARIABLES))}
        return b"".join(struct.pack("<QQq", at, self._code.relative, target) for at, target in targets.items())

    def _dynamic(self) -> bytes:
        length = self._read_end - self._relocations_at
        entries = [  # in the names of elf.h, DT_ before each
            (14, self._soname),  # SONAME
            (4, self._hash_at),  # HASH
            (5, self._strings_at),  # STRTAB
            (6, self._symbols_at),  # SYMTAB
            (10, len(self._strings)),  # STRSZ
            (11, _SYMBOL),  # SYMENT
            (7, self._relocations_at),  # RELA
            (8, length),  # RELASZ
            (9, _RELOCATION),  # RELAENT
            (0x6FFFFFF9, length // _RELOCATION),  # RELACOUNT
            (0, 0),  # NULL
        ]
        return b"".join(struct.pack("<QQ", *entry) for entry in entries)

    def _header(self) -> bytes:
        identity = b"\x7fELF\x02\x01\x01" + bytes(9)  # 64 bits, little-endian
        fields = 3, self._code.number, 1, 0, _HEADER, 0, 0, _HEADER, _SEGMENT, 4, 64, 0, 0  # a shared object
        return identity + struct.pack("<HHIQQQIHHHHHH", *fields)

    def _segments(self) -> bytes:
        load, dynamic, readable, executable, writable = 1, 2, 4, 1, 2
        segments = [
            (load, readable, 0, self._read_end, PAGE),
            (load, readable | executable, self._code_at, self._code_end - self._code_at, PAGE),
            (load, readable | writable, self._dynamic_at, self._end - self._dynamic_at, PAGE),
            (dynamic, readable | writable, self._dynamic_at, 11 * _DYNAMIC, _WORD),
        ]
        return b"".join(
            struct.pack("<IIQQQQQQ", kind, flags, at, at, at, length, length, alignment)
            for kind, flags, at, length, alignment in segments
        )


def _hash_table(names: list[str]) -> bytes:
    """Return the hash table of symbols; their numbers begin at 1."""
    buckets, chain = [0] * _BUCKETS, [0] * (len(names) + 1)
    for i, name in enumerate(names, 1):
        bucket = _hash(name) % _BUCKETS
        chain[i] = buckets[bucket]
        buckets[bucket] = i
    return struct.pack(f"<{2 + len(buckets) + len(chain)}I", len(buckets), len(chain), *buckets, *chain)


def _hash(name: str) -> int:
    value = 0
    for byte in to_bytes(name):
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high
    return value


def _up(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment
