"""The table by which native functions find what handles name. See `engine/native/mpi_table.py`.

A handle is in it from `add` to `remove` of its kind (`handles.py`), if its object has a row for native code.
"""

import os
from typing import Any

import numpy as np

from shmcoll.engine.layout import WORD
from shmcoll.engine.native import mpi_table as t

WORDS = np.zeros(t.TABLE_WORDS, np.int64)
COMMS: dict[int, Any] = {}  # by the address of a context: the communicator, and the native one that it is of
_KEYS = [t.KEY // WORD, t.KEY_2 // WORD]
_FIRST = {"MPI_Request": t.FIRST_REQUEST, "MPI_Message": t.FIRST_MESSAGE}
_SECTIONS = {"MPI_Comm": t.COMMS, "MPI_Datatype": t.TYPES, "MPI_Op": t.OPERATORS, "MPI_Win": t.WINS}


def put(kind: str, handle: int, obj: Any) -> None:
    """Put the row of an object into the table, if it has one and the place is free."""
    values = obj.native_row() if kind in _SECTIONS else None
    if not values:
        return
    place = _row(kind, handle)
    if place[0] in (0, handle):
        place[1:] = 0
        place[1 : 1 + len(values)] = values
        place[0] = handle
        if kind == "MPI_Comm":
            COMMS[values[0]], COMMS[values[1]] = (obj, obj.native), (obj, obj.messages)


def drop(kind: str, handle: int) -> None:
    """Take a handle out of the table."""
    if kind in _FIRST and 0 <= (i := handle - _FIRST[kind]) < t.MOST_SLOTS:
        slot(i)[0] = t.FREE
    if kind not in _SECTIONS:
        return
    place = _row(kind, handle)
    if place[0] == handle:
        place[0] = 0
        if kind == "MPI_Comm":
            for word in (t.CONTEXT, t.MESSAGES):
                COMMS.pop(int(place[word // WORD]), None)


def slot(i: int) -> np.ndarray:
    """Return the words of a slot."""
    at = t.SLOTS // WORD + i * t.SLOT_WORDS
    return WORDS[at : at + t.SLOT_WORDS]


def note_attribute(handle: int, key: int, value: int) -> None:
    """Let native code know an attribute of a communicator."""
    place = _row("MPI_Comm", handle)
    if place[0] == handle:
        place[_KEYS[1] : _KEYS[1] + 2] = place[_KEYS[0] : _KEYS[0] + 2]
        place[_KEYS[0] : _KEYS[0] + 2] = key, value


def forget_attributes() -> None:
    """Let native code know no attribute any more, because one has changed."""
    rows = WORDS[t.COMMS // WORD :][: t.ROWS * t.ROW_WORDS].reshape(t.ROWS, t.ROW_WORDS)
    rows[:, _KEYS] = 0


def _forget_calls() -> None:
    """Forget all that calls are made of, in a process that a rank has forked: Python refuses them there."""
    for section in (t.COMMS, t.WINS):
        WORDS[section // WORD :][: t.ROWS * t.ROW_WORDS] = 0


os.register_at_fork(after_in_child=_forget_calls)


def _row(kind: str, handle: int) -> np.ndarray:
    at = (_SECTIONS[kind] + t.row(handle)) // WORD
    return WORDS[at : at + t.ROW_WORDS]
