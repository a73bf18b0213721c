"""What the calls with counts share: a rank's table, and the call in one or two phases. See
`engine/protocol/count_tables.py`.

Most calls do not pass here: the native entry reads their counts itself (`engine/native/entry_counts.py`), and only
`second_phase` runs.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.arrays import deliver, exact, run_in_phases
from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.kernels.dtypes import BY_CODE, dtype_of
from shmcoll.engine.layout import WORD
from shmcoll.engine.native.entry import OWN_TABLE
from shmcoll.engine.protocol.count_tables import BOTH, COUNTS, DATA

if TYPE_CHECKING:
    from shmcoll.runtime.dispatcher import Dispatcher


class CountTable:
    """What this rank publishes to the others, and afterwards what it has received. At first it sends nothing."""

    def __init__(self, size: int, check: tuple[str, int]):
        self.words = np.full(layout.table_words(size), -1, np.int64)
        self.rows = self.words[: layout.TABLE_SIZES * size].reshape(layout.TABLE_SIZES, size)
        self.rows[[layout.SEND_COUNTS, layout.SEND_DISPLS]] = 0
        self._ends = self.words[layout.TABLE_SIZES * size :]
        self._ends[layout.SOURCE_SIZE] = 0
        self._check = check

    @property
    def received(self) -> np.ndarray:
        return self.rows[layout.RECV_COUNTS].copy()

    @property
    def dtype(self) -> np.dtype:
        return BY_CODE[int(self._ends[layout.ELEMENT_TYPE])].numpy

    def source(self, array: np.ndarray) -> None:
        """Note that this rank sends from this array."""
        self._ends[layout.SOURCE_SIZE] = array.size
        self._ends[layout.ELEMENT_TYPE] = dtype_of(array, *self._check).code

    def target(self, out: Any, dtype: Any) -> None:
        """Note that this rank receives into `out`, of any shape. Raise `TypeError` or `ValueError` if it cannot."""
        given.as_output(out, out.shape if isinstance(out, np.ndarray) else (), dtype, *self._check)
        self._ends[layout.RESULT_SIZE] = out.size
        self._ends[layout.ELEMENT_TYPE] = dtype_of(out, *self._check).code

    def put(self, row: int, values: Any, name: str) -> None:
        """Write a row as the user passes it."""
        self.rows[row] = given.as_counts(values, self.rows.shape[1], name, *self._check)

    def send(self, array: np.ndarray, counts: Any, displs: Any) -> None:
        """Note the blocks to send: counts, and displacements. Without these, the blocks are the whole array, packed."""
        self.source(array)
        self.put(layout.SEND_COUNTS, counts, "send_counts")
        if displs is None:
            blocks = self.rows[layout.SEND_COUNTS]
            if blocks.sum() < array.size:  # more than there is: all ranks find that together
                given.check_packed(blocks, array, "send_counts", *self._check)
            self.rows[layout.SEND_DISPLS] = np.cumsum(blocks) - blocks
        else:
            self.put(layout.SEND_DISPLS, displs, "send_displs")

    def expect(self, counts: Any, displs: Any, room: Any = None) -> None:
        """Note what this rank expects and where it goes, as far as the user passes it."""
        for row, values, name in (
            (layout.RECV_COUNTS, counts, "recv_counts"),
            (layout.RECV_DISPLS, displs, "recv_displs"),
            (layout.RECV_ROOM, room, "recv_room"),
        ):
            if values is not None:
                self.put(row, values, name)

    def new_result(self) -> np.ndarray:
        """Return a result just large enough for what is received, with gaps of zeros."""
        counts = self.rows[layout.RECV_COUNTS]
        ends = self.rows[layout.RECV_DISPLS] + counts
        return np.zeros(int(ends[counts > 0].max(initial=0)), self.dtype)


def apart_from(array: np.ndarray, out: Any) -> np.ndarray:
    """Return `array`, or a copy of it if it shares memory with `out`."""
    return array.copy() if given.overlap(array, out) else array


def send_only(dispatcher: "Dispatcher", operation: str, table: CountTable, source: np.ndarray, root: int) -> None:
    """Run the routine on a rank that gets nothing."""
    dispatcher.run(operation, exact(source), None, 0, root, 0, 0, BOTH, table.words.ctypes.data)


def exchange(
    dispatcher: "Dispatcher", operation: str, table: CountTable, source: np.ndarray | None, out: Any, root: int = 0
) -> Any:
    """Run the routine. Return `out`, or a new array, which is allocated when the counts are known."""
    source = None if source is None else exact(source)
    address = table.words.ctypes.data
    if out is not None:
        target = out if given.is_plain(out) else exact(np.require(out, requirements=["C", "A"]))
        dispatcher.run(operation, source, target, 0, root, 0, 0, BOTH, address)
        return deliver(target, out)
    routine = dispatcher.routine(operation)
    result: np.ndarray | None = None

    def opening() -> int:
        return routine(source, None, 0, root, 0, 0, COUNTS, address)

    def moving() -> int:
        nonlocal result
        result = table.new_result()
        return routine(source, result, 0, root, 0, 0, DATA, address)

    run_in_phases(dispatcher, operation, opening, c.COUNTS_KNOWN, moving)
    return result


def second_phase(dispatcher: "Dispatcher", routine: Callable[..., int], x: Any, root: int = 0) -> tuple[int, Any]:
    """Move the blocks after a native call without `out` has returned COUNTS_KNOWN. Return the status, and a result that
    is just large enough, with gaps of zeros. On an exception the caller calls `left`."""
    words = dispatcher.words
    ends = OWN_TABLE // WORD + layout.TABLE_SIZES * dispatcher.size
    dtype = BY_CODE[words.item(ends + layout.ELEMENT_TYPE)].numpy
    result = np.zeros(words.item(ends + layout.RESULT_SIZE), dtype)
    return routine(x, result, 0, root, 0, 0, DATA, dispatcher.own_table), result
