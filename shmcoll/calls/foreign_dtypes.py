"""How a rank learns a dtype that routines do not know, or the shape of a row (see `engine/kernels/element_marks.py`).

broadcast, scatter and scatter_v have ranks without an array. Of a foreign dtype they get bytes, and of rows they get
elements. After such a call all ranks know that the mark is not 0: a rank with an array by its own dtype, any other rank
by the mark that the routine has returned. Then the root broadcasts dtype and shape of a row in words. If an exception
comes out between the two operations, the group ends: the peers wait for the second one.
"""

import ast
from collections.abc import Callable
from typing import Any

import numpy as np

from shmcoll.calls.arrays import exact, run_in_phases
from shmcoll.collectives.scatter import BOTH, DATA, OPEN
from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.kernels.dtypes import BY_CODE
from shmcoll.engine.kernels.element_marks import MARK_SHIFT, dtype_in_words, spelled
from shmcoll.engine.layout import WORD
from shmcoll.engine.system.text import to_bytes, to_text
from shmcoll.runtime.dispatcher import Dispatcher

Elements = tuple[np.dtype, tuple[int, ...] | None]  # dtype, and shape of a row if rows are counted


def move_and_spell(
    dispatcher: Dispatcher, operation: str, root: int, move: Callable[[], int], own: Elements | None = None
) -> Elements | None:
    """Make a call; if the mark is not 0, broadcast dtype and shape of a row from `root`. Return these, None for mark 0,
    and in a plan, which makes no call.

    move: makes the call and returns the mark. own: what this rank knows of the elements, None for nothing.
    """
    if dispatcher.only_records:
        move()
        return None
    if own is not None:
        dispatcher.routine("broadcast")  # before anything moves

    def both() -> Elements | None:
        has_moved = False
        try:
            mark = move()
            has_moved = True
            return spell(dispatcher, root, own) if mark else None
        except BaseException:
            if has_moved and dispatcher.words[c.ACTIVE // WORD] != c.ENDED:
                dispatcher.left(operation)
            raise

    elements: Elements | None = dispatcher.worker.alone(operation, both)
    return elements


def spell(dispatcher: Dispatcher, root: int, own: Elements | None) -> Elements:
    """Make the second operation: broadcast dtype and row, and return them."""
    if dispatcher.rank == root:
        assert own is not None
        words = np.frombuffer(to_bytes(repr((spelled(own[0]), own[1]))), np.uint8)
        dispatcher.run("broadcast", words, None, 0, root, 0, 0, BOTH, 0, 0)
        return own
    words, _ = _in_two_phases(dispatcher, "broadcast", root)
    dtype, row = ast.literal_eval(to_text(words.tobytes()))
    return dtype_in_words(dtype), row


def receive_array(dispatcher: Dispatcher, operation: str, root: int) -> np.ndarray:
    """Make a call of broadcast or scatter without an array, and return a new one."""
    got = np.empty(0)

    def move() -> int:
        nonlocal got
        got, mark = _in_two_phases(dispatcher, operation, root)
        return mark

    elements = move_and_spell(dispatcher, operation, root, move)
    return got if elements is None else as_dtype(got, elements[0], got.shape[:-1])


def as_dtype(got: np.ndarray, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Return what a routine has written into `got`, which is contiguous, as an array of a dtype and shape."""
    return np.empty(shape, dtype) if got.size == 0 else got.reshape(-1).view(dtype).reshape(shape)


def second_of_shape(dispatcher: Dispatcher, routine: Callable[..., int], root: int) -> tuple[int, Any]:
    """Get the array after a native call without one has returned SHAPE_KNOWN, and has written to `dispatcher.told`.
    Return the status, and the array. On an exception the caller calls `left`."""
    got, mark = _new_array(dispatcher.told)
    status = routine(None, exact(got), 0, root, 0, 0, DATA, 0, 0)
    if status == c.OK and mark:
        got = as_dtype(got, spell(dispatcher, root, None)[0], got.shape[:-1])
    return status, got if got.ndim else got[()]


def _new_array(told: np.ndarray) -> tuple[np.ndarray, int]:
    """Return an array of the dtype and shape that a routine has told, and the mark of its elements."""
    kind, dimensions = told.item(0), told.item(1)
    dtype = BY_CODE[kind & ((1 << MARK_SHIFT) - 1)].numpy
    return np.empty(told[2 : 2 + dimensions].tolist(), dtype), kind >> MARK_SHIFT


def _in_two_phases(dispatcher: Dispatcher, operation: str, root: int) -> tuple[np.ndarray, int]:
    """Return a new array, whose shape is known after the opening, and the mark of its elements."""
    routine: Any = dispatcher.routine(operation)
    told = np.zeros(2 + layout.MOST_DIMENSIONS, np.int64)
    target, mark = np.empty(0), 0

    def opening() -> int:
        return routine(None, None, 0, root, 0, 0, OPEN, 0, told.ctypes.data)

    def moving() -> int:
        nonlocal target, mark
        target, mark = _new_array(told)
        return routine(None, exact(target), 0, root, 0, 0, DATA, 0, 0)

    run_in_phases(dispatcher, operation, opening, c.SHAPE_KNOWN, moving)
    return target, mark
