"""Write the shared library `libmpi.so.12`: every function of MPI jumps through a table that the process fills.

It takes neither a compiler nor a linker, so a machine without them can have it, and it is the same file for every
Python. The functions of MPI, each under its two names (`MPI_X` and `PMPI_X`), are jumps through slots of the table
(`machine.py`). A slot begins with code that calls the resolver with the number of the slot. The resolver is a function
of Python, which makes the function of MPI when it is called for the first time; before that, it is code that lets
Python fill the table. The image has three segments, in this order:

    read only       the ELF header, and what the dynamic linker reads: symbols, their names, hash table, relocations;
                    texts
    executable      the code
    writable        the dynamic section, the variables of the ABI, the resolver, pointers to functions of others, the
                    table

Each segment begins on a page of PAGE bytes. Everything is addressed relative to the program counter. Only pointers
contain addresses, for which there are relocations. Functions of CPython are weak symbols: a program without Python has
none, unless the image names a libpython that it needs (`Host`).

Source: the System V ABI, chapter 5, and its supplements for x86-64 and AArch64.
"""

import hashlib
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from shmcoll.engine.system.text import exact_bytes, to_bytes
from shmcoll.mpi.abi import facts
from shmcoll.mpi.abi.aarch64 import Arm
from shmcoll.mpi.abi.machine import CALLED, STUB, Machine
from shmcoll.mpi.abi.x86_64 import X86

SONAME = "libmpi.so.12"
PAGE = 64 << 10  # the largest page of either architecture

#: of a table in this order alone: a library of another version of shmcoll has none
TABLE = f"shmcoll_mpi_table_{hashlib.sha256(to_bytes(repr(facts.NAMES))).hexdigest()[:8]}"
RESOLVER = "shmcoll_mpi_resolver"
SUCCEED, STORE_1 = "shmcoll_mpi_succeed", "shmcoll_mpi_store_1"

_VARIABLES = (
    *("MPI_UNWEIGHTED", "MPI_WEIGHTS_EMPTY"),
    *("MPI_F_STATUS_IGNORE", "MPI_F_STATUSES_IGNORE", "MPI_F08_STATUS_IGNORE", "MPI_F08_STATUSES_IGNORE"),
)
_FIXED = {SUCCEED: "succeed", STORE_1: "store_1", "MPIR_Dup_fn": "copy_attribute"}  # MPI_COMM_DUP_FN in the header
_MACHINES: dict[str, Machine] = {"x86_64": X86(), "aarch64": Arm()}
_WORD = 8
_SYMBOL, _RELOCATION, _DYNAMIC, _SEGMENT, _HEADER = 24, 24, 16, 56, 64  # bytes of an entry
_PART = 128  # bytes, at most, of a part of the code that is not a stub
_BUCKETS = 1024
_NULL_SYMBOL = bytes(_SYMBOL)
_FUNCTION, _OBJECT, _WEAK = 0x12, 0x11, 0x22  # symbols of that type: global ones, and a weak one of a function

_IMPORT = """
try: __import__("shmcoll.mpi")
except ImportError as e: raise SystemExit(f"{__import__('sys').executable} cannot import shmcoll.mpi: {e}")
"""
_FAILURE = "this program for MPI got no Python; start it with shmrun --mpi"


@dataclass(frozen=True)
class Host:
    """What begins an interpreter in a program that has none.

    library: the path of libpython. home: where Python's own files are. code: what runs first, Python.
    """

    library: str
    home: str
    code: str


def image(names: Sequence[str] = facts.NAMES, machine: str = os.uname().machine, host: Host | None = None) -> bytes:
    """Return the bytes of the library.

    Args:
        names: the functions, in the order of their slots.
        machine: the architecture, `x86_64` or `aarch64`.
        host: for programs that are not Python.

    Raises:
        NotImplementedError: there is no code for this architecture.
    """
    if machine not in _MACHINES:
        raise NotImplementedError(f"programs for MPI run on {' and '.join(_MACHINES)}, and this machine is a {machine}")
    return _Image(names, _MACHINES[machine], host).whole()


class _Image:
    """Where everything is, by offset in the file, which is the address when it is loaded."""

    def __init__(self, names: Sequence[str], machine: Machine, host: Host | None):
        self._machine, self._names = machine, names
        self._strings = bytearray(b"\0")
        self._needed = [self._string(host.library)] if host else []
        self._soname = self._string(SONAME)
        exported = [*_FIXED, *_VARIABLES, RESOLVER, TABLE]
        symbols = [*(kind + name for name in names for kind in ("", "P")), *exported, *CALLED]
        self._places = {text: self._string(text) for text in symbols}
        home = f"PYTHONHOME={host.home}" if host else ""
        texts = {"home": home, "beginning": host.code if host else "", "text": _IMPORT, "failure": _FAILURE}
        self._texts = {name: exact_bytes(text) + b"\0" for name, text in texts.items()}

        self._symbols_at = _HEADER + 5 * _SEGMENT
        self._strings_at = self._symbols_at + (1 + len(symbols)) * _SYMBOL
        self._hash_at = _up(self._strings_at + len(self._strings), _WORD)
        self._relocations_at = _up(self._hash_at + 4 * (2 + _BUCKETS + 1 + len(symbols)), _WORD)
        self._relative = len(names) + len(_VARIABLES) + 1
        at = self._texts_at = self._relocations_at + (self._relative + len(CALLED)) * _RELOCATION
        self._at: dict[str, int] = {}  # what code refers to
        for name, text in self._texts.items():
            self._at[name] = at
            at += len(text)
        self._read_end = at

        self._code_at = _up(self._read_end, PAGE)
        self._at |= {part: self._code_at + i * _PART for i, part in enumerate(machine.parts)}
        self._jumps_at = self._code_at + len(machine.parts) * _PART
        self._later_at = self._jumps_at + len(names) * STUB
        self._code_end = self._later_at + len(names) * STUB

        self._dynamic_at = _up(self._code_end, PAGE)
        self._variables_at = self._dynamic_at + (len(self._needed) + 11) * _DYNAMIC
        words = self._variables_at + 2 * len(_VARIABLES) * _WORD  # each with the word that it points to
        self._at |= {name: words + i * _WORD for i, name in enumerate(("resolver", *CALLED))}
        self._table_at = words + (1 + len(CALLED)) * _WORD
        self._at["table"] = self._table_at
        self._end = self._table_at + len(names) * _WORD

    def whole(self) -> bytes:
        symbols = self._symbols()
        parts = {
            0: self._header() + self._segments(),
            self._symbols_at: _NULL_SYMBOL + b"".join(symbols.values()),
            self._strings_at: bytes(self._strings),
            self._hash_at: _hash_table(list(symbols)),
            self._relocations_at: self._relocations(list(symbols)),
            self._texts_at: b"".join(self._texts.values()),
            self._dynamic_at: self._dynamic(),
        }
        parts |= {self._at[part]: self._machine.write(part, self._at[part], self._at) for part in self._machine.parts}
        for i in range(len(self._names)):
            jump, later = self._jumps_at + i * STUB, self._later_at + i * STUB
            parts[jump] = self._machine.jump(jump, self._table_at + i * _WORD)
            parts[later] = self._machine.later(later, i, self._at["resolve"])
        data = bytearray(self._end)
        for at, part in parts.items():
            data[at : at + len(part)] = part
        return bytes(data)

    def _string(self, text: str) -> int:
        at = len(self._strings)
        self._strings += exact_bytes(text) + b"\0"
        return at

    def _symbols(self) -> dict[str, bytes]:
        made = {}
        for i, name in enumerate(self._names):
            for kind in ("", "P"):
                made[kind + name] = self._symbol(kind + name, _FUNCTION, self._jumps_at + i * STUB, STUB)
        made |= {name: self._symbol(name, _FUNCTION, self._at[part], _PART) for name, part in _FIXED.items()}
        for i, name in enumerate(_VARIABLES):
            made[name] = self._symbol(name, _OBJECT, self._variables_at + i * _WORD, _WORD)
        made[RESOLVER] = self._symbol(RESOLVER, _OBJECT, self._at["resolver"], _WORD)
        made[TABLE] = self._symbol(TABLE, _OBJECT, self._table_at, len(self._names) * _WORD)
        return made | {name: self._symbol(name, _WEAK, 0, 0) for name in CALLED}

    def _symbol(self, name: str, kind: int, at: int, length: int) -> bytes:
        return struct.pack("<IBBHQQ", self._places[name], kind, 0, 1 if at else 0, at, length)

    def _relocations(self, symbols: list[str]) -> bytes:
        targets = {self._table_at + i * _WORD: self._later_at + i * STUB for i in range(len(self._names))}
        words = self._variables_at + len(_VARIABLES) * _WORD
        targets |= {self._variables_at + i * _WORD: words + i * _WORD for i in range(len(_VARIABLES))}
        targets[self._at["resolver"]] = self._at["boot"]
        relative = [struct.pack("<QQq", at, self._machine.relative, target) for at, target in targets.items()]
        numbers = {name: 1 + symbols.index(name) for name in CALLED}
        others = [struct.pack("<QIIq", self._at[name], self._machine.symbol, numbers[name], 0) for name in CALLED]
        return b"".join(relative + others)

    def _dynamic(self) -> bytes:
        entries = [  # in the names of elf.h, DT_ before each
            *((1, needed) for needed in self._needed),  # NEEDED
            (14, self._soname),  # SONAME
            (4, self._hash_at),  # HASH
            (5, self._strings_at),  # STRTAB
            (6, self._symbols_at),  # SYMTAB
            (10, len(self._strings)),  # STRSZ
            (11, _SYMBOL),  # SYMENT
            (7, self._relocations_at),  # RELA
            (8, (self._relative + len(CALLED)) * _RELOCATION),  # RELASZ
            (9, _RELOCATION),  # RELAENT
            (0x6FFFFFF9, self._relative),  # RELACOUNT
            (0, 0),  # NULL
        ]
        return b"".join(struct.pack("<QQ", *entry) for entry in entries)

    def _header(self) -> bytes:
        identity = b"\x7fELF\x02\x01\x01" + bytes(9)  # 64 bits, little-endian
        fields = 3, self._machine.number, 1, 0, _HEADER, 0, 0, _HEADER, _SEGMENT, 5, 64, 0, 0  # a shared object
        return identity + struct.pack("<HHIQQQIHHHHHH", *fields)

    def _segments(self) -> bytes:
        load, dynamic, stack, readable, executable, writable = 1, 2, 0x6474E551, 4, 1, 2
        segments = [
            (load, readable, 0, self._read_end, PAGE),
            (load, readable | executable, self._code_at, self._code_end - self._code_at, PAGE),
            (load, readable | writable, self._dynamic_at, self._end - self._dynamic_at, PAGE),
            (dynamic, readable | writable, self._dynamic_at, self._variables_at - self._dynamic_at, _WORD),
            (stack, readable | writable, 0, 0, 2 * _WORD),  # without this, stacks of the process become executable
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
