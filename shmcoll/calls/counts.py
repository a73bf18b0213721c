"""What the calls with counts share: a rank's table, and the call in one or two phases. See
`engine/protocol/count_tables.py`.

Most calls do not come here: the native entry reads their counts itself (`engine/native/entry_counts.py`), and only
`second_phase` runs.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.arrays import deliver, exact, is_in_place, product, run_in_phases
from shmcoll.calls.foreign_dtypes import as_dtype, move_and_spell, spell
from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.kernels.dtypes import BY_CODE, BY_NUMPY
from shmcoll.engine.kernels.element_marks import FOREIGN, MARK_SHIFT, ROWS, element_mark
from shmcoll.engine.layout import LARGEST_COUNT
from shmcoll.engine.protocol.count_tables import BOTH, COUNTS, DATA
from shmcoll.runtime.dispatcher import Dispatcher


class CountTable:
    """The counts that this rank publishes to the others, and afterwards those that it has received. At first it sends
    nothing.

    The user counts elements, or rows if `axis` is 0. The routine counts elements of a known dtype, or bytes of any
    other. unit: the number of these in one unit of the user. If a row or an element has no bytes, the routine moves one
    byte for each, so that the counts are sent all the same.
    """

    def __init__(self, size: int, check: tuple[str, int], axis: Any = None):
        self.words = np.full(layout.table_words(size), -1, np.int64)
        self.rows = self.words[: layout.TABLE_SIZES * size].reshape(layout.TABLE_SIZES, size)
        self.rows[[layout.SEND_COUNTS, layout.SEND_DISPLS]] = 0
        self._ends = self.words[layout.TABLE_SIZES * size :]
        self._ends[layout.SOURCE_SIZE] = 0
        self._check = check
        self._axis = axis
        self._unit = 1
        self._is_hollow = False
        self.elements: tuple[np.dtype, tuple[int, ...] | None] | None = None  # dtype and row, once they are known

    @property
    def received(self) -> np.ndarray:
        return self.rows[layout.RECV_COUNTS] // self._unit

    @property
    def mark(self) -> int:
        """The facts that must be equal on all ranks that have an array, as far as the routine does not see them."""
        return element_mark(*self.elements) if self.elements else ROWS if self._axis is not None else 0

    def like(self, array: np.ndarray, name: str) -> None:
        """Note dtype and rows of x or of `out`. Raises an error if it has no rows and rows are counted."""
        row = given.as_row_shape(self._axis, array, name, *self._check)
        self.elements = array.dtype, row
        known = BY_NUMPY.get(array.dtype)
        unit = product(row or ()) * (1 if known else array.itemsize)
        self._is_hollow, self._unit = unit == 0, unit or 1
        code = BY_NUMPY[np.dtype(np.uint8)].code if known is None or self._is_hollow else known.code
        self._ends[layout.ELEMENT_TYPE] = code | self.mark << MARK_SHIFT
        self._ends[layout.COUNT_UNIT] = self._unit

    def seen(self, array: np.ndarray) -> np.ndarray:
        """Return the array as the routine sees it."""
        if not self._is_hollow:
            return exact(array)
        return np.zeros(array.size if self._axis is None else array.shape[0], np.uint8)

    def source(self, array: np.ndarray) -> int:
        """Note that this rank sends from this array, and return its length as the routine counts."""
        self.like(array, "x")
        size = self._ends[layout.SOURCE_SIZE] = self.seen(array).size
        return int(size)

    def target(self, out: Any, dtype: Any) -> None:
        """Note that this rank receives into `out`, of any shape. Raise `TypeError` or `ValueError` if it cannot."""
        given.as_output(out, out.shape if isinstance(out, np.ndarray) else (), dtype, *self._check)
        if self.elements is None:
            given.check_movable(out, "out", *self._check)
            self.like(out, "out")
        row = self.elements[1] if self.elements else None
        if row is not None and out.shape[1:] != row:
            operation, rank = self._check
            raise ValueError(f"{operation} on rank {rank}: out has shape {out.shape}, a row of the result has {row}")
        self._ends[layout.RESULT_SIZE] = self.seen(out).size

    def put(self, row: int, values: Any, name: str) -> None:
        """Write a row as the user passes it."""
        counts = given.as_counts(values, self.rows.shape[1], name, *self._check)
        if (counts > LARGEST_COUNT // self._unit).any():
            operation, rank = self._check
            raise ValueError(f"{operation} on rank {rank}: {name} has an entry out of range: {counts.tolist()}")
        self.rows[row] = counts * self._unit

    def send(self, array: np.ndarray, counts: Any, displs: Any) -> None:
        """Note the blocks to send: counts, and displacements. Without these, the blocks are the whole array, packed."""
        size = self.source(array)
        self.put(layout.SEND_COUNTS, counts, "send_counts")
        if displs is None:
            blocks = self.rows[layout.SEND_COUNTS]
            if blocks.sum() < size:  # more than the array has: all ranks find that together
                given.check_packed(blocks // self._unit, array, self._axis is not None, "send_counts", *self._check)
            self.rows[layout.SEND_DISPLS] = np.cumsum(blocks) - blocks
        else:
            self.put(layout.SEND_DISPLS, displs, "send_displs")

    def expect(self, counts: Any, displs: Any, room: Any = None) -> None:
        """Note the counts that this rank expects and where the blocks go, as far as the user passes these."""
        for row, values, name in (
            (layout.RECV_COUNTS, counts, "recv_counts"),
            (layout.RECV_DISPLS, displs, "recv_displs"),
            (layout.RECV_ROOM, room, "recv_room"),
        ):
            if values is not None:
                self.put(row, values, name)

    def new_result(self) -> np.ndarray:
        """Return a result just large enough for what is received, with gaps of zeros, as the routine writes it."""
        counts = self.rows[layout.RECV_COUNTS]
        ends = self.rows[layout.RECV_DISPLS] + counts
        code = int(self._ends[layout.ELEMENT_TYPE]) & ((1 << MARK_SHIFT) - 1)
        return np.zeros(int(ends[counts > 0].max(initial=0)), BY_CODE[code].numpy)

    @property
    def mark_received(self) -> int:
        """The mark of what arrives, once it is known."""
        return int(self._ends[layout.ELEMENT_TYPE]) >> MARK_SHIFT

    def finished(self, got: np.ndarray, elements: tuple[np.dtype, tuple[int, ...] | None]) -> np.ndarray:
        """Return a new result in the dtype and the rows that the user counts."""
        dtype, row = elements
        if self.elements is None:
            self.like(np.empty((0, *row) if row is not None else 0, dtype), "x")
        shape = (got.size // self._unit, *(row or ()))
        if self._is_hollow:
            return np.zeros(shape, dtype)
        return as_dtype(got, dtype, shape)


def exchange(
    dispatcher: Dispatcher,
    operation: str,
    table: CountTable,
    source: np.ndarray | None,
    out: Any,
    root: int = 0,
    *,
    gets: bool = True,
) -> Any:
    """Run the routine. Return `out`, or a new array, which is allocated when the counts are known; None on a rank that
    gets nothing."""
    x = None if source is None else table.seen(source)
    address = table.words.ctypes.data
    tells = operation == "scatter_v"  # it has ranks that know neither dtype nor row
    second = table.mark & ROWS if tells else table.mark
    result: np.ndarray | None = None
    target: np.ndarray | None = None

    def move() -> int:
        nonlocal result, target
        if not gets:
            dispatcher.run(operation, x, None, 0, root, second, 0, BOTH, address)
        elif out is not None:
            target = out if is_in_place(out) else np.require(out, requirements=["C", "A"])
            dispatcher.run(operation, x, table.seen(target), 0, root, second, 0, BOTH, address)
        else:
            routine = dispatcher.routine(operation)
            made: list[np.ndarray] = []

            def opening() -> int:
                return routine(x, None, 0, root, second, 0, COUNTS, address)

            def moving() -> int:
                made.append(table.new_result())
                return routine(x, made[0], 0, root, second, 0, DATA, address)

            run_in_phases(dispatcher, operation, opening, c.COUNTS_KNOWN, moving)
            result = made[0]
        return table.mark_received if tells else 0

    own = table.elements if tells and table.mark else None
    elements = move_and_spell(dispatcher, operation, root, move, own) or table.elements
    if target is not None:
        return deliver(target, out)
    if result is None:
        return None
    return result if elements is None else table.finished(result, elements)


def second_phase(dispatcher: Dispatcher, routine: Callable[..., int], x: Any, root: int = 0) -> tuple[int, Any]:
    """Move the blocks after a native call without `out` has returned COUNTS_KNOWN. Return the status, and a result that
    is just large enough, with gaps of zeros. On an exception the caller calls `left`."""
    ends = dispatcher.own_ends
    kind = ends[layout.ELEMENT_TYPE]
    mark = kind >> MARK_SHIFT
    result = np.zeros(ends[layout.RESULT_SIZE], BY_CODE[kind & ((1 << MARK_SHIFT) - 1)].numpy)
    status = routine(x, result, 0, root, 0, 0, DATA, dispatcher.own_table)
    if status == c.OK and mark & FOREIGN:  # in scatter_v, where this rank has no array
        dtype, _ = spell(dispatcher, root, None)
        count = result.size // dtype.itemsize if dtype.itemsize else result.size
        result = np.zeros(count, dtype) if dtype.itemsize == 0 else as_dtype(result, dtype, (count,))
    return status, result
