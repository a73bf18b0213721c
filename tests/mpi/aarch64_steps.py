"""Executes the few instructions of AArch64 that the library's code has, on any machine."""

import struct
from collections.abc import Callable

from tests.mpi.elf import Elf

_64 = (1 << 64) - 1
SP, LINK = 31, 30
RETURN = 0xF000  # where the code returns to

#: a function outside: it gets the first two registers, and returns the first
Outside = Callable[[int, int], int]


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


class Processor:
    """registers: x0 to x30 and sp. words: pointers in memory, by address. outside: functions, by address.

    Registers that a function may change are changed by each call of one outside.
    """

    def __init__(self, image: Elf, words: dict[int, int], outside: dict[int, Outside]):
        self.image, self.words, self.outside = image, words, outside
        self.registers = [0x1000 + i for i in range(31)] + [1 << 20]
        self.registers[LINK] = RETURN
        self.stack: dict[int, int] = {}

    def run(self, at: int) -> int:
        """Run from an address. Returns where the code goes that is neither its own nor a call: RETURN, for instance."""
        while at not in self.outside and at != RETURN:
            at = self._step(at)
        return at

    def _go(self, target: int) -> int:
        """Return where the code goes on: behind a call of a function outside, unless that returns to the caller."""
        r = self.registers
        if target not in self.outside or r[LINK] == RETURN:
            return target
        assert r[SP] % 16 == 0
        r[0] = self.outside[target](r[0], r[1])
        r[1:19] = [0xDEAD] * 18
        return r[LINK]

    def _step(self, at: int) -> int:
        r, word = self.registers, self.image.word(at, "<I")
        near = at + 4 * _signed(word >> 5 & 0x7FFFF, 19)
        first, second, base = word & 31, word >> 10 & 31, word >> 5 & 31
        if word & 0xFE400000 in (0xA8000000, 0xA8400000):  # stp, ldp
            offset, mode = 8 * _signed(word >> 15 & 0x7F, 7), word >> 23 & 3
            place = r[base] + (0 if mode == 1 else offset)
            assert base == SP and mode and r[SP] % 16 == 0
            for number, there in ((first, place), (second, place + 8)):
                if word & 1 << 22:
                    r[number] = self.stack[there]
                else:
                    assert there >= r[SP] + (offset if mode == 3 else 0)
                    self.stack[there] = r[number]
            r[SP] += offset if mode in (1, 3) else 0
        elif word & 0xFF8003E0 == 0xF90003E0:  # str, ldr x, [sp, #]
            place = r[SP] + 8 * (word >> 10 & 0xFFF)
            if word & 1 << 22:
                r[first] = self.stack[place]
            else:
                self.stack[place] = r[first]
        elif word & 0xFFE0FC00 == 0xF8607800:  # ldr x, [x, x, lsl #3]
            r[first] = self.words[r[base] + 8 * r[word >> 16 & 31]]
        elif word & 0xFFE00000 == 0x52800000:  # mov w, #
            r[first] = word >> 5 & 0xFFFF
        elif word & 0x7FE0FFE0 == 0x2A0003E0:  # mov, w or x
            r[first] = r[word >> 16 & 31] & (_64 if word >> 31 else 0xFFFFFFFF)
        elif word & 0x9F000000 == 0x10000000:  # adr
            r[first] = at + _signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
        elif word & 0xFF000000 == 0x58000000:  # ldr x, literal
            r[first] = self.words[near]
        elif word & 0x7E000000 == 0x34000000:  # cbz, cbnz
            value = r[first] & (_64 if word >> 31 else 0xFFFFFFFF)
            return near if (value == 0) != bool(word & 1 << 24) else at + 4
        elif word & 0x7C000000 == 0x14000000:  # b, bl
            if word >> 31:
                r[LINK] = at + 4
            return at + 4 * _signed(word & 0x3FFFFFF, 26)
        elif word == 0xD63F0200:  # blr x16
            r[LINK] = at + 4
            return self._go(r[16])
        elif word == 0xD61F0200:  # br x16
            return self._go(r[16])
        elif word == 0xD65F03C0:  # ret
            return r[LINK]
        else:
            raise NotImplementedError(struct.pack("<I", word).hex())
        return at + 4
