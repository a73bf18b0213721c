"""What a user calls: argument checks, choice of routine, and what becomes of its status.

Each method first tries the native entry with the arguments as they are; it answers PREPARE when they are not exact,
contiguous arrays or something is wrong with them. Only then does Python look at them closely.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shmcoll import arguments as given
from shmcoll.collectives import ROUTINES
from shmcoll.collectives.all_to_all_v import BOTH, COUNTS, DATA
from shmcoll.dtypes import BY_NUMPY, REDUCTION_NAMES, REDUCTIONS
from shmcoll.engine import compile as code
from shmcoll.engine import context as c
from shmcoll.engine import entry, layout, records
from shmcoll.engine.arena import Arena
from shmcoll.engine.layout import WORD
from shmcoll.engine.wait import MOST_POLLS
from shmcoll.verdicts import Verdicts
from shmcoll.work import NOBODY, Work, Worker

_SLICE_NS = 20_000_000
_empty_like = np.empty_like
_ndarray = np.ndarray


class Communicator:
    """A group of ranks that call collectives together. Made by `shmcoll.init()`.

    Every method is a collective: all ranks call it, in the same order, with the same shape, dtype and arguments where
    not said otherwise. Arrays may be of any layout; results are new C-contiguous numpy arrays unless `out` is given,
    which is then written and returned. With `async_op=True` a method returns a `Work` at once.

    Errors of every method: `TypeError`, `ValueError`, `IndexError` for this rank's own mistake, before anything is
    published; `CollectiveMismatch`, `RankFailed`, `CollectiveTimeout` end the group, and every later call on it raises
    the cause again.
    """

    def __init__(self, arena: Arena, rank: int, launcher: str):
        self.rank = rank
        self.size = arena.ranks
        self.ranks = list(range(arena.ranks))
        self.name = "world"
        self.launcher = launcher
        self._arena = arena
        self._words = entry.new_context()
        self._scratch = np.empty(c.SCRATCH_BYTES + 64, np.uint8)
        self._pollfds = np.zeros(self.size, np.int64)
        self._fill_context()
        self._verdicts = Verdicts(arena, arena.world, self._words, rank)
        self._worker = Worker(self._words)
        routines = {
            routine.__name__: entry.make_callable(routine.__name__, *code.load_routine(routine), self._words)
            for routine in ROUTINES
        }
        self._barrier = routines["barrier"]
        self._all_reduce = routines["all_reduce"]
        self._all_to_all = routines["all_to_all"]
        self._gather = routines["gather"]
        self._all_to_all_v = routines["all_to_all_v"]
        self._pid = os.getpid()
        os.register_at_fork(after_in_child=self._close_in_child)

    def _fill_context(self) -> None:
        arena, size = self._arena, self.size
        base, group = arena.address, arena.address + arena.world
        # The creator's view: a rank that is bound to one core sees that one alone
        crowded = size > arena.load(layout.JOB_CORES)
        for offset, value in (
            (c.GROUP, group),
            (c.MAILBOXES, group + layout.MAILBOXES),
            (c.STRIDE, layout.mailbox_bytes(size)),
            (c.CELLS, group + layout.cells_offset(size)),
            (c.RECORDS, base + layout.record_offset(size, 0, layout.BY_RANK)),
            (c.RECORDS_LAUNCHER, base + layout.record_offset(size, 0, layout.BY_LAUNCHER)),
            (c.PIDFDS, self._pollfds.ctypes.data),
            (c.RANK, self.rank),
            (c.SIZE, size),
            (c.POLLS, 0 if crowded else MOST_POLLS),
            (c.YIELDS, 4),
            (c.SLEEP, _SLICE_NS),
            (c.TIMEOUT, arena.load(layout.JOB_TIMEOUT)),
            (c.CELL_BYTES, arena.load(layout.JOB_CELL_BYTES)),
            (c.FLAT_BYTES, min(arena.load(layout.JOB_FLAT_BYTES), arena.load(layout.JOB_CELL_BYTES))),
            (c.SLICE_BYTES, arena.load(layout.JOB_SLICE_BYTES)),
            (c.SCRATCH, layout.align(self._scratch.ctypes.data, 64)),
        ):
            self._words[offset // WORD] = value

    def _close_in_child(self) -> None:
        """A process forked by this rank is not the rank: the native entry shall not let it in."""
        self._words[c.OWNER // WORD] = NOBODY
        self._arena.abandon()

    def __repr__(self) -> str:
        return f"<shmcoll.Communicator {self.name}: rank {self.rank} of {self.size}>"

    @property
    def timeout(self) -> float:
        """Limit of one wait, in seconds."""
        return float(self._words[c.TIMEOUT // WORD]) / 1e9

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        if not 0 < seconds <= 1e9:
            raise ValueError(f"timeout must be a positive number of seconds, got {seconds!r}")
        self._words[c.TIMEOUT // WORD] = int(seconds * 1e9)

    def publish_statistics(self) -> None:
        """For the launcher's report: what this rank has moved and slept, as it leaves."""
        mailbox = self._arena.world + layout.MAILBOXES + self.rank * layout.mailbox_bytes(self.size)
        self._arena.store(mailbox + layout.STATISTICS_MOVED, int(self._words[c.MOVED // WORD]))
        self._arena.store(mailbox + layout.STATISTICS_SLEPT, int(self._words[c.SLEPT // WORD]))
        self._arena.store(mailbox + layout.STATISTICS_LEFT, 1)

    def abort(self, text: str) -> None:
        """End the group: every rank's pending and later calls raise `RankFailed` quoting `text`."""
        records.write(self._arena, self.rank, layout.BY_RANK, records.FAILED, records.ABORTED, 1, f"aborted: {text}")
        records.abort(self._arena, self._arena.world)
        self._words[c.ACTIVE // WORD] = c.ENDED

    # --- collectives --------------------------------------------------------------------------------------------------

    def barrier(self, *, async_op: bool = False) -> Any:
        """Return when every rank has called it."""
        if async_op:
            return self._worker.submit(self.barrier)
        try:
            status = self._barrier()
        except BaseException:
            self._verdicts.interrupted("barrier")
            raise
        if status:
            self._run("barrier", self._barrier, status=status)
        return None

    def all_reduce(self, x: Any, op: str = "sum", *, out: Any = None, async_op: bool = False) -> Any:
        """The element-wise reduction of all ranks' `x`, on every rank.

        x: array of any shape, equal on all ranks. op: sum, prod, min, max, avg. The result has x's shape and dtype:
        integer sums wrap; float16 and bfloat16 are summed in float32 and rounded once; bool sum is or, prod is and;
        complex min and max compare real parts first. `out=x` works in place. The same bits on every rank and run.
        Raises `TypeError` for avg of integers or bool.
        """
        if async_op:
            return self._worker.submit(lambda: self.all_reduce(x, op, out=out))
        if out is None and type(x) is _ndarray:
            result = _empty_like(x)
        else:
            result = out
        reduction = REDUCTIONS.get(op, 0) if type(op) is str else 0
        try:
            status = self._all_reduce(x, result, reduction, 0, 0)
        except BaseException:
            self._verdicts.interrupted("all_reduce")
            raise
        if status:
            return self._all_reduce_slowly(x, op, out, status)
        return result

    def _all_reduce_slowly(self, x: Any, op: str, out: Any, status: int) -> np.ndarray:
        if status not in (c.PREPARE, c.BUSY):
            raise self._verdicts.error("all_reduce", status)
        with self._verdicts.checking("all_reduce") as check:
            array = given.as_array(x, *check)
            dtype = BY_NUMPY[array.dtype]
            reduction = given.as_reduction(op, dtype, *check)
            if out is not None:
                given.as_output(out, array.shape, array.dtype, *check)
                if isinstance(x, np.ndarray):
                    given.check_overlap(x, out, *check)
        self._words[entry.kernel_slot(dtype.code, reduction)] = code.load_kernel(dtype, REDUCTION_NAMES[reduction])
        target = out if out is not None and given.is_plain(out) else np.empty(array.shape, array.dtype)
        self._run("all_reduce", self._all_reduce, _exact(array), target, reduction, 0, 0)
        return _deliver(target, out)

    def all_to_all(
        self, x: Any, split_axis: int = 0, concat_axis: int = 0, *, out: Any = None, async_op: bool = False
    ) -> Any:
        """Exchange blocks: block i of `x` along `split_axis` goes to rank i; the blocks received are put one after the
        other along `concat_axis`, in rank order.

        x: array of at least one dimension, equal shape on all ranks; `x.shape[split_axis]` divisible by the number of
        ranks (else `ValueError`). The result has shape x.shape with split_axis divided and concat_axis multiplied by
        it. Axes may be negative; out of range is `IndexError`.
        """
        if async_op:
            return self._worker.submit(lambda: self.all_to_all(x, split_axis, concat_axis, out=out))
        with self._verdicts.checking("all_to_all") as check:
            array = given.as_array(x, *check)
            split = given.as_axis(split_axis, "split_axis", array.ndim, *check)
            concat = given.as_axis(concat_axis, "concat_axis", array.ndim, *check)
            if array.shape[split] % self.size:
                raise ValueError(
                    f"all_to_all on rank {self.rank}: axis {split} of length {array.shape[split]} cannot be split "
                    f"among {self.size} ranks; shape {array.shape}"
                )
            block = list(array.shape)
            block[split] //= self.size
            shape = list(block)
            shape[concat] *= self.size
            if out is not None:
                given.as_output(out, tuple(shape), array.dtype, *check)
                if isinstance(x, np.ndarray) and given.overlap(x, out):
                    given.check_overlap(x, out, *check)
                    array = array.copy()
        target = out if out is not None and given.is_plain(out) else np.empty(shape, array.dtype)
        item = array.itemsize
        run, target_run = _product(block[split:]) * item, _product(block[concat:]) * item
        self._run(
            "all_to_all",
            self._all_to_all,
            _exact(array),
            target,
            0,
            split,
            concat,
            _product(block) * item,
            run,
            run * self.size if _product(block[:split]) > 1 else run,
            target_run,
            target_run * self.size if _product(block[:concat]) > 1 else target_run,
        )
        return _deliver(target, out)

    def gather(self, x: Any, root: int = 0, *, out: Any = None, async_op: bool = False) -> Any:
        """The arrays of all ranks on rank `root`, concatenated along axis 0 in rank order; None on the others.

        x: array, equal shape on all ranks; a 0-d array counts as shape (1,). out, on the root: an array of the
        result's shape, or a list of n arrays of x's shape and dtype, which are written and returned.
        """
        if async_op:
            return self._worker.submit(lambda: self.gather(x, root, out=out))
        with self._verdicts.checking("gather") as check:
            array = given.as_array(x, *check)
            root = given.as_root(root, self.size, *check)
            targets: list[np.ndarray] | None = None
            whole = (self.size * array.shape[0], *array.shape[1:]) if array.ndim else (self.size,)
            if self.rank == root and isinstance(out, (list, tuple)):
                targets = self._gather_list(out, array, check)
            elif self.rank == root and out is not None:
                given.as_output(out, whole, array.dtype, *check)
                if given.overlap(array, out):
                    array = array.copy()
        if self.rank != root:
            self._run("gather", self._gather, _exact(array), None, 0, root, 0, 0)
            return None
        if targets is not None:
            places = [t if given.is_plain(t) else np.empty(t.shape, t.dtype) for t in targets]
            table = np.array([p.ctypes.data for p in places], np.int64)
            self._run("gather", self._gather, _exact(array), None, 0, root, 0, table.ctypes.data)
            for place, one in zip(places, targets, strict=True):
                _deliver(place, one)
            return out
        target = out if out is not None and given.is_plain(out) else np.empty(whole, array.dtype)
        self._run("gather", self._gather, _exact(array), target, 0, root, 0, 0)
        return _deliver(target, out)

    def _gather_list(self, out: Sequence[Any], array: np.ndarray, check: tuple[str, int]) -> list[np.ndarray]:
        operation, rank = check
        if len(out) != self.size:
            raise ValueError(f"{operation} on rank {rank}: out is a list of {len(out)} arrays for {self.size} ranks")
        targets = [given.as_output(o, array.shape, array.dtype, operation, rank) for o in out]
        for i, one in enumerate(targets):
            if any(given.overlap(one, other) for other in targets[:i]):
                raise ValueError(f"{operation} on rank {rank}: array {i} of out overlaps one before it")
            if given.overlap(one, array) and not (i == rank and given.same_memory(one, array)):
                raise ValueError(f"{operation} on rank {rank}: array {i} of out overlaps x")
        return targets

    def all_to_all_v(
        self,
        x: Any,
        send_counts: Any,
        send_displs: Any = None,
        *,
        recv_counts: Any = None,
        recv_displs: Any = None,
        recv_room: Any = None,
        out: Any = None,
        async_op: bool = False,
    ) -> Any:
        """Send `send_counts[i]` elements of the flattened `x` from `send_displs[i]` on to rank i; returns
        (result, receive counts).

        Counts and displacements are in elements, one a rank; displacements default to packed, one block after the
        other. What comes from rank i is written at `recv_displs[i]` of the flattened `out`; what lies between stays as
        it is. Without `out` the result is 1-D, just large enough, gaps zero. Receive counts are found by the operation;
        `recv_counts` given are checked, `recv_room[i]` limits what rank i may send. Shapes may differ between ranks.

        Raises `ValueError` on every rank, before a byte moves, when a block lies outside its source or result, exceeds
        its room, differs from the expected count, or overlaps another in a result. The group stays usable.
        """
        if async_op:
            return self._worker.submit(
                lambda: self.all_to_all_v(
                    x, send_counts, send_displs, recv_counts=recv_counts, recv_displs=recv_displs,
                    recv_room=recv_room, out=out,
                )
            )  # fmt: skip
        size = self.size
        with self._verdicts.checking("all_to_all_v") as check:
            array = given.as_array(x, *check)
            table = np.full(layout.TABLE_ROWS * max(size, 2), -1, np.int64)
            rows = table[: layout.TABLE_SIZES * size].reshape(layout.TABLE_SIZES, size)
            sizes = table[layout.TABLE_SIZES * size :]
            rows[layout.SEND_COUNTS] = given.as_counts(send_counts, size, "send_counts", *check)
            if send_displs is None:
                rows[layout.SEND_DISPLS] = np.cumsum(rows[layout.SEND_COUNTS]) - rows[layout.SEND_COUNTS]
            for row, values, name in (
                (layout.SEND_DISPLS, send_displs, "send_displs"),
                (layout.RECV_COUNTS, recv_counts, "recv_counts"),
                (layout.RECV_DISPLS, recv_displs, "recv_displs"),
                (layout.RECV_ROOM, recv_room, "recv_room"),
            ):
                if values is not None:
                    rows[row] = given.as_counts(values, size, name, *check)
            sizes[0] = array.size
            if out is not None:
                shape = out.shape if isinstance(out, np.ndarray) else ()
                given.as_output(out, shape, array.dtype, *check)
                if given.overlap(array, out):
                    array = array.copy()
                sizes[1] = out.size
        target = out if out is None or given.is_plain(out) else _exact(np.require(out, requirements=["C", "A"]))
        source, address = _exact(array), table.ctypes.data

        def in_two_phases() -> int:
            nonlocal target
            try:
                status = self._all_to_all_v(source, None, 0, 0, 0, COUNTS, address)
                if status != c.HALFWAY:
                    return status
                ends = rows[layout.RECV_DISPLS] + rows[layout.RECV_COUNTS]
                target = np.zeros(int(ends[rows[layout.RECV_COUNTS] > 0].max(initial=0)), source.dtype)
                return self._all_to_all_v(source, target, 0, 0, 0, DATA, address)
            except BaseException:  # no memory, a signal handler: peers wait for this rank's part in vain
                self._words[c.ACTIVE // WORD] = c.ENDED
                raise

        if target is None:
            self._run("all_to_all_v", in_two_phases)
        else:
            self._run("all_to_all_v", self._all_to_all_v, source, target, 0, 0, 0, BOTH, address)
        return _deliver(target, out), rows[layout.RECV_COUNTS].copy()

    # --- calling ------------------------------------------------------------------------------------------------------

    def _run(self, operation: str, routine: Callable[..., int], *arguments: Any, status: int = c.BUSY) -> None:
        """Call a routine until it is let in; anything but OK becomes an exception."""
        try:
            if status == c.BUSY:
                status = routine(*arguments)
                if status == c.BUSY:
                    status = self._run_in_turn(operation, routine, arguments)
        except _NotNow:
            raise
        except BaseException:
            self._verdicts.interrupted(operation)
            raise
        if status != c.OK:
            raise self._verdicts.error(operation, status)

    def _run_in_turn(self, operation: str, routine: Callable[..., int], arguments: tuple) -> int:
        """Another thread is inside, or asynchronous work is pending: queue behind it."""
        if os.getpid() != self._pid:
            raise _NotNow(
                f"{operation}: this process was forked by rank {self.rank} and is no rank itself; "
                f"call collectives in the rank"
            )
        if self._words[c.ACTIVE // WORD] == c.ENDED:
            return c.ABORTED
        if self._words[c.ACTIVE // WORD] == threading.get_ident():
            raise _NotNow(f"{operation} on rank {self.rank}: called by a signal handler during another collective")

        def patiently() -> int:
            while (status := routine(*arguments)) == c.BUSY:
                if self._words[c.ACTIVE // WORD] == c.ENDED:
                    return c.ABORTED
                time.sleep(1e-4)
            return status

        return patiently() if self._worker.is_me() else self._worker.submit(patiently).wait()


class _NotNow(RuntimeError):
    """A call from where no collective can be called. Nothing has happened; the group goes on."""


def _exact(array: np.ndarray) -> np.ndarray:
    """The array without its subclass, which the native entry does not read."""
    return array if type(array) is np.ndarray else array.view(np.ndarray)


def _deliver(target: np.ndarray, out: Any) -> Any:
    """Hand the result over: into `out` when the routine had to write elsewhere."""
    if out is None or out is target:
        return target
    out[...] = target.reshape(out.shape)
    return out


def _product(extents: Sequence[int]) -> int:
    product = 1
    for extent in extents:
        product *= extent
    return product


__all__ = ["Communicator", "Work"]
