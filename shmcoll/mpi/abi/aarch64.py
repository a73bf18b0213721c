"""The machine code of the library for AArch64 (`machine.py` says what the parts do)."""

import struct

from shmcoll.mpi.abi.machine import Machine, Places


class _ArmCode(bytearray):
    """Instructions, one after the other, from an address on."""

    def __init__(self, at: int):
        self._at = at

    def put(self, *words: int) -> None:
        self += struct.pack(f"<{len(words)}I", *words)

    def put_to(self, word: int, target: int) -> None:
        """Write a branch, a load of a word, or an `adr`, which holds the distance of its target."""
        distance = target - (self._at + len(self))
        if word & 0x9F000000 == _ADR:
            self.put(word | (distance & 3) << 29 | (distance >> 2 & 0x7FFFF) << 5)
        elif word & 0x7C000000 == _BRANCH:
            self.put(word | distance >> 2 & 0x3FFFFFF)
        else:
            self.put(word | (distance >> 2 & 0x7FFFF) << 5)

    def call(self, function: int) -> None:
        """Call what the word at an address points to."""
        self.put_to(_LOAD, function)
        self.put(0xD63F0200)  # blr x16


_ADR, _BRANCH, _LINK, _LOAD = 0x10000000, 0x14000000, 0x94000000, 0x58000010  # adr x0; b; bl; ldr x16, literal
_ZERO, _NOT_ZERO = 0xB4000010, 0x35000000  # cbz x16; cbnz w0
_RET, _TO_X16 = 0xD65F03C0, 0xD61F0200  # ret; br x16


class Arm(Machine):
    number, relative, symbol = 183, 1027, 1025

    def jump(self, at: int, slot: int) -> bytes:
        code = _ArmCode(at)
        code.put_to(_LOAD, slot)
        code.put(_TO_X16)
        return bytes(code)

    def later(self, at: int, number: int, resolve: int) -> bytes:
        code = _ArmCode(at)
        code.put(0x52800011 | number << 5)  # mov w17, #number
        code.put_to(_BRANCH, resolve)
        return bytes(code)

    def succeed(self, at: int, _places: Places) -> bytes:
        code = _ArmCode(at)
        code.put(0x52800000, _RET)  # mov w0, #0
        return bytes(code)

    def store_1(self, at: int, _places: Places) -> bytes:
        code = _ArmCode(at)
        code.put(0x52800021, 0xB9000001, 0x52800000, _RET)  # mov w1, #1; str w1, [x0]; mov w0, #0
        return bytes(code)

    def copy_attribute(self, at: int, _places: Places) -> bytes:
        code = _ArmCode(at)
        code.put(0xF9000083, 0x52800021, 0xB90000A1, 0x52800000, _RET)  # str x3, [x4]; str w1, [x5]; mov w0, #0
        return bytes(code)

    def resolve(self, at: int, places: Places) -> bytes:
        code = _ArmCode(at)
        code.put(0xA9BA7BFD)  # stp x29, x30, [sp, #-96]!
        code.put(0xA90107E0, 0xA9020FE2, 0xA90317E4, 0xA9041FE6)  # stp x0 to x7 behind them
        code.put(0xF9002BF1, 0x2A1103E0)  # str x17, [sp, #80]; mov w0, w17
        code.call(places["resolver"])
        code.put(0xF9402BF1)  # ldr x17, [sp, #80]
        code.put_to(_ADR | 16, places["table"])
        code.put(0xF8717A10)  # ldr x16, [x16, x17, lsl #3]
        code.put(0xA94107E0, 0xA9420FE2, 0xA94317E4, 0xA9441FE6, 0xA8C67BFD)  # ldp them
        code.put(_TO_X16)
        return bytes(code)

    def fail(self, at: int, places: Places) -> bytes:
        code = _ArmCode(at)
        code.put(0x52800020)  # mov w0, #1
        code.put_to(_ADR | 1, places["failure"])  # adr x1
        code.call(places["errx"])
        return bytes(code)

    def start(self, at: int, places: Places) -> bytes:
        code = _ArmCode(at)
        code.put(0xA9BF7BFD)  # stp x29, x30, [sp, #-16]!
        code.put_to(_ADR, places["home"])
        code.call(places["putenv"])
        code.put(0x52800000)  # mov w0, #0
        code.call(places["Py_InitializeEx"])
        code.put_to(_ADR, places["beginning"])
        code.call(places["PyRun_SimpleString"])
        code.call(places["PyEval_SaveThread"])
        code.put(0xA8C17BFD, _RET)  # ldp x29, x30, [sp], #16
        return bytes(code)

    def boot(self, at: int, places: Places) -> bytes:
        code = _ArmCode(at)
        code.put(0xA9BE7BFD, 0xA90153F3, 0x2A0003F3)  # stp x29, x30, [sp, #-32]!; stp x19, x20, [sp, #16]; mov w19, w0
        code.put_to(_LOAD, places["Py_IsInitialized"])
        code.put_to(_ZERO, places["fail"])
        code.put(0xD63F0200, _NOT_ZERO | 2 << 5)  # blr x16; cbnz w0, behind the next
        code.put_to(_LINK, places["start"])
        code.call(places["PyGILState_Ensure"])
        code.put(0x2A0003F4)  # mov w20, w0
        code.put_to(_ADR, places["text"])
        code.call(places["PyRun_SimpleString"])
        code.put_to(_NOT_ZERO, places["fail"])
        code.put(0x2A1403E0)  # mov w0, w20
        code.call(places["PyGILState_Release"])
        code.put(0x2A1303E0, 0xA94153F3, 0xA8C27BFD)  # mov w0, w19; ldp them
        code.put_to(_LOAD, places["resolver"])
        code.put(_TO_X16)
        return bytes(code)
