"""Where in the program a rank has made its last eager calls.

When a call fails, a rank finds its line on its own stack. But a rank may have left an eager call before another one
finds that the calls differ (`engine/protocol/sync.py`). So each rank notes such a call when it leaves it without having
met all others: in private memory, under the GIL. The table PLACES begins with OFFSETS, where native code finds the
innermost Python frame. Behind them is an entry for each operation, number s in entry s mod FLIGHT_ENTRIES:

    NUMBER   of the operation; 0: the entry has never been written
    CODES    of the innermost Python frames, FRAMES of them, since the innermost ones are often of this package or of a
             framework: the code object, to which the entry holds a reference, and the address of the frame's last
             instruction

Python's own way (PyEval_GetFrame) makes an object of each frame, which takes 0.11 us of the 0.41 of a call. So native
code reads the frames themselves, which are different in each version of Python. Where `frame_offsets` does not find
them as they are in a version that is known here, no lines are noted.

Cost: 10 to 20 ns.
"""

import ctypes
import sys
from functools import cache
from itertools import takewhile
from operator import itemgetter
from types import CodeType
from typing import Any

import numpy as np

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek, poke
from shmcoll.engine.layout import FLIGHT_ENTRIES, WORD
from shmcoll.engine.native import cpython as py
from shmcoll.engine.system.addresses import address_of

FRAMES = 12
IN_THREAD, IN_HOLDER, CODE, PREVIOUS, INSTRUCTION = (WORD * i for i in range(5))
OFFSETS = 5
NUMBER, CODES = 0, WORD
PLACE_WORDS = 1 + 2 * FRAMES
PLACE_BYTES = PLACE_WORDS * WORD

#: by version: where the state of a thread has what holds the frame, and that has the frame; -1: the state has the frame
#: itself. Then where the frame has its code object, the frame of its caller, and its last instruction
_KNOWN = {(3, 11): (56, 8, 32, 48, 56), (3, 12): (56, 0, 0, 8, 56), (3, 13): (72, -1, 0, 8, 56)}


def note_place(ctx, thread):
    """Note where this rank has made the call that ends. Call it under the GIL. thread: the state of this thread."""
    table, sequence = peek(ctx + c.PLACES), peek(ctx + c.SEQUENCE)
    if table == 0 or peek(ctx + c.CREDIT) == sequence:
        return
    place = table + OFFSETS * WORD + (sequence & (FLIGHT_ENTRIES - 1)) * PLACE_BYTES
    poke(place + NUMBER, sequence)
    frame = peek(thread + peek(table + IN_THREAD))
    if peek(table + IN_HOLDER) >= 0:
        frame = peek(frame + peek(table + IN_HOLDER))
    for i in range(FRAMES):
        entry = place + CODES + 2 * i * WORD
        code = peek(frame + peek(table + CODE)) if frame else 0
        if peek(entry) != code:
            py.keep(entry, code)
        if frame == 0:
            break
        poke(entry + WORD, peek(frame + peek(table + INSTRUCTION)))
        frame = peek(frame + peek(table + PREVIOUS))


class CallPlaces:
    """The table of a communicator, which writes its address into the context."""

    def __init__(self, words: np.ndarray) -> None:
        self._table = np.zeros(OFFSETS + FLIGHT_ENTRIES * PLACE_WORDS, np.int64)
        if offsets := frame_offsets():
            self._table[:OFFSETS] = offsets
            words[c.PLACES // WORD] = address_of(self._table)

    def of(self, sequence: int) -> list[tuple[str, int]]:
        """Return file and line of the innermost frames in operation `sequence`; none if they are not known."""
        first = OFFSETS + sequence % FLIGHT_ENTRIES * PLACE_WORDS
        number, *told = self._table[first : first + PLACE_WORDS].tolist()
        pairs = zip(told[::2], told[1::2], strict=True)
        known = takewhile(itemgetter(0), pairs) if number == sequence else ()
        return [line for one in known if (line := _line(*one))]


def _line(address: int, instruction: int) -> tuple[str, int] | None:
    """Return file and line of a frame; None if it is the interpreter's own, in which Python runs that C has called."""
    code: Any = ctypes.cast(address, ctypes.py_object).value
    if not isinstance(code, CodeType) or code.co_filename == code.co_name:
        return None
    offset = instruction - address - type(code).__basicsize__
    lines = (line for begin, end, line in code.co_lines() if begin <= offset < end)
    return code.co_filename, next(lines, None) or code.co_firstlineno


@cache
def frame_offsets() -> tuple[int, ...] | None:
    """Return OFFSETS for this interpreter; None if frames are not as in a version that is known here."""
    offsets = _KNOWN.get(sys.version_info[:2])
    if offsets is None or sys.implementation.name != "cpython" or not py.offsets_hold():
        return None
    in_thread, in_holder, code, previous, _ = offsets
    state = ctypes.PyDLL(None).PyThreadState_Get
    state.restype = ctypes.c_void_p

    def word(address: int) -> int:
        return ctypes.c_int64.from_address(address).value

    holder = state() + in_thread if in_holder < 0 else word(state() + in_thread) + in_holder
    frame = ctypes.c_int64.from_address(holder).value  # not by `word`, which has a frame of its own
    innermost = sys._getframe()
    wanted = [id(one.f_code) for one in (innermost, innermost.f_back) if one]
    return offsets if [word(frame + code), word(word(frame + previous) + code)] == wanted else None
