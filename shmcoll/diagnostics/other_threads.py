"""Which collective another thread of this rank makes on the same communicator, in words.

The context says which thread, and which call by a code (`engine/native/entering.py`): that of an operation, or of a
composite call. The line of that call is found in the stack of the thread, as long as it is still there.
"""

import sys
import threading
from types import FrameType

import numpy as np

from shmcoll.collectives import OPERATION_NAMES
from shmcoll.diagnostics.call_site import at_site, in_frame, short_path
from shmcoll.engine import context as c
from shmcoll.engine.layout import COMPOSITE_NAMES, WORD
from shmcoll.engine.native.tables import CALL_BITS, COMPOSITE
from shmcoll.engine.system.green_threads import check_threads
from shmcoll.engine.system.tracebacks import is_ours
from shmcoll.errors import CallNotAllowed

GRAPH_CALLS = ("all_gather", "all_gather_v", "all_to_all", "all_to_all_v")

_GRAPH = 192  # codes of calls of neighbours are from here on
#: the lower bits of COLLECTIVE and MET
CODES = {name: code for code, name in enumerate(OPERATION_NAMES)}
CODES |= {name: COMPOSITE + code for code, name in enumerate(COMPOSITE_NAMES[1:], 1)}
CODES |= {f"graph.{name}": _GRAPH + i for i, name in enumerate(GRAPH_CALLS)}
_NAMES = {code: name for name, code in CODES.items()} | {0: "a collective"}


def error(words: np.ndarray, operation: str, name: object, cure: str = "comm.dup()") -> CallNotAllowed:
    """Return the error for a call that was answered with NOT_ALONE, on the rank of this name. cure: the call that makes
    another communicator of the same ranks."""
    check_threads(operation)
    thread, code = divmod(words.item(c.MET // WORD), 1 << CALL_BITS)
    return CallNotAllowed(
        f"{operation}{at_site()} on rank {name}: {_thread(thread)} is in {_NAMES[code]} of the same communicator"
        f"{_site(words, thread)}. The threads of another rank may call in the other order, and the results would be "
        f"exchanged. Give each thread a communicator of its own: call {cure} once for each of them, on all ranks in "
        f"the same order",
        operation=operation,
    )


def _thread(thread: int) -> str:
    known = threading._active.get(thread)  # type: ignore[attr-defined]  # without its lock: in a handler it may be held
    return f"thread {known.name!r}" if known else "a thread that Python has not started"


def _site(words: np.ndarray, thread: int) -> str:
    """Return the line of the other thread, if its call has not ended meanwhile."""

    def call() -> tuple[int, ...] | None:
        is_inside = thread in (abs(words.item(c.ACTIVE // WORD)), words.item(c.COLLECTIVE // WORD) >> CALL_BITS)
        return (words.item(c.SEQUENCE // WORD),) if is_inside else None

    before, frame = call(), sys._current_frames().get(thread)
    site = in_frame(_of_call(frame))
    return f", called at {short_path(site[0])}:{site[1]}" if site and before is not None and call() == before else ""


def _of_call(frame: FrameType | None) -> FrameType | None:
    """Return the innermost of our frames: above it there may be those of a handler of signals, or of the garbage
    collector's callbacks. A call of compiled code has none."""
    ours = frame
    while ours is not None and not is_ours(ours.f_code.co_filename):
        ours = ours.f_back
    return ours or frame
