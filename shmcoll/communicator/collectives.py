"""The collectives as methods of a communicator.

A method first tries the native entry with the arguments as they are, where that can check them; it answers NEEDS_PYTHON
when they are not exact, contiguous arrays or something is wrong with them. Only then does Python look at them closely,
in `calls/`. The routines are in `collectives/`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from shmcoll import calls
from shmcoll.calls import buffer_check
from shmcoll.calls.collective_permute import route_of
from shmcoll.calls.counts import second_phase
from shmcoll.engine import context as c
from shmcoll.engine.kernels.dtypes import REDUCTIONS
from shmcoll.runtime.async_worker import Work
from shmcoll.runtime.dispatcher import Dispatcher

_empty = np.empty
_empty_like = np.empty_like
_ndarray = np.ndarray
_int64 = np.dtype(np.int64)
_HALFWAY = c.HALFWAY


class _Native:
    """The native entry of a collective, an attribute of the communicator, loaded when first looked up."""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, comm: "Collectives", _owner: type) -> Callable[..., int]:
        entry = comm.__dict__[self._name] = comm._dispatcher.routine(self._name.removeprefix("_"))
        return entry


class Collectives:
    """What every communicator can do: `Communicator` says the rest."""

    rank: int
    size: int
    _dispatcher: Dispatcher

    _barrier = _Native()
    _all_reduce = _Native()
    _all_to_all = _Native()
    _gather = _Native()
    _broadcast = _Native()
    _all_gather = _Native()
    _scatter = _Native()
    _reduce = _Native()
    _reduce_scatter = _Native()
    _scan = _Native()
    _exscan = _Native()
    _collective_permute = _Native()
    _all_to_all_v = _Native()
    _gather_v = _Native()
    _scatter_v = _Native()
    _all_gather_v = _Native()

    def barrier(self, *, async_op: bool = False) -> Any:
        """Return when every rank has called it."""
        if async_op:
            return self._submit(calls.barrier)
        try:
            status = self._barrier()
        except BaseException:
            self._dispatcher.left("barrier")
            raise
        if status:
            self._again("barrier", status, calls.barrier)
        return None

    def all_reduce(
        self, x: Any, op: Any = "sum", *, out: Any = None, algorithm: str | None = None, async_op: bool = False
    ) -> Any:
        """The element-wise reduction of all ranks' `x`, on every rank.

        x: array of any shape, equal on all ranks. The result has x's shape and dtype; `out=x` works in place. The same
        bits on every rank and in every run. algorithm: flat, ring, cells.

        op, of which all ranks give the same:

        * sum, prod: integers wrap; float16 and bfloat16 are summed in float32 and rounded once; of bool: or, and.
        * min, max: NaN if any rank has one; complex numbers are compared by real parts first; of zeros of different
          sign, that of the first rank in the order of reduction.
        * avg: the sum divided by the number of ranks; not of integers or bool.
        * band, bor, bxor: of integers and bool.
        * land, lor, lxor: 1 or 0 in x's dtype; an element is true when it is not 0, so NaN is.
        * argmin, argmax: of pairs of value and index, see `shmcoll.pair_dtype`: as numpy's functions find them in the
          order of indices, so the lowest index of equal values, or of NaN. Structured arrays of two other fields, a
          real value and an int32 or int64 index, are converted and back.
        * `shmcoll.premul_sum(factor)`: the sum of every rank's x times its own factor.
        * `shmcoll.op(function)`: a function of two values.

        Functions that are one of these may stand for its name: `np.add`, `np.multiply`, `np.minimum`, `np.maximum`,
        `np.bitwise_and`, `np.logical_and` and so on, `operator.add`, `sum`, `min`, `max`, `np.mean`. Every byte of a
        bool but 0 is true.

        Raises `TypeError` for a dtype that has no such op, `ValueError` for an unknown name and for the ring with an
        operator that is not commutative.
        """
        if async_op:
            return self._submit(calls.all_reduce, x, op, out, algorithm)
        if out is None and type(x) is _ndarray:
            result = _empty_like(x)
        else:
            result = out
        reduction = REDUCTIONS.get(op, 0) if type(op) is str and algorithm is None else 0
        try:
            status = self._all_reduce(x, result, reduction, 0, 0, 0)
        except BaseException:
            self._dispatcher.left("all_reduce")
            raise
        if status:
            return self._again("all_reduce", status, calls.all_reduce, x, op, out, algorithm)
        return result

    def reduce(
        self,
        x: Any,
        root: int = 0,
        op: Any = "sum",
        *,
        out: Any = None,
        algorithm: str | None = None,
        async_op: bool = False,
    ) -> Any:
        """The element-wise reduction of all ranks' `x`, on rank `root`; None on the others.

        As `all_reduce`, with the same bits; `out` matters on the root alone, where `out=x` works in place.
        """
        if async_op:
            return self._submit(calls.reduce, x, root, op, out, algorithm)
        result = None
        if self.rank == root:
            result = _empty_like(x) if out is None and type(x) is _ndarray else out
        reduction = REDUCTIONS.get(op, 0) if type(op) is str and algorithm is None else 0
        try:
            status = self._reduce(x, result, reduction, root, 0, 0)
        except BaseException:
            self._dispatcher.left("reduce")
            raise
        if status:
            return self._again("reduce", status, calls.reduce, x, root, op, out, algorithm)
        return result

    def reduce_scatter(
        self, x: Any, op: Any = "sum", *, out: Any = None, algorithm: str | None = None, async_op: bool = False
    ) -> Any:
        """The element-wise reduction of all ranks' block r of `x`, on rank r.

        x: array of shape (n * k, ...), equal on all ranks, cut along axis 0 into n blocks: the result has shape
        (k, ...). Or, on all ranks, a list of n arrays of equal shape and dtype, which are used where they are: the
        result has the shape of one. op and bits: see `all_reduce`, but block r is reduced from rank r + 1 on, around to
        rank r. `out` may be this rank's own block of `x`. Raises `ValueError` where axis 0 cannot be divided.
        """
        if async_op:
            return self._submit(calls.reduce_scatter, x, op, out, algorithm)
        result = out
        if out is None and type(x) is _ndarray and x.ndim:
            result = _empty((x.shape[0] // self.size, *x.shape[1:]), x.dtype)
        reduction = REDUCTIONS.get(op, 0) if type(op) is str and algorithm is None else 0
        try:
            status = self._reduce_scatter(x, result, reduction, 0, 0, 0)
        except BaseException:
            self._dispatcher.left("reduce_scatter")
            raise
        if status:
            return self._again("reduce_scatter", status, calls.reduce_scatter, x, op, out, algorithm)
        return result

    def reduce_scatter_v(self, x: Any, counts: Any, op: Any = "sum", *, out: Any = None, async_op: bool = False) -> Any:
        """As `reduce_scatter`, for blocks of different lengths: block r of the flattened `x` has `counts[r]` elements.

        counts: n integers, the same on all ranks (else `CollectiveMismatch`), together as many as x has elements (else
        `ValueError`). The result is 1-D; `out` may have any shape of counts[rank] elements, and may be part of `x`.
        """
        if async_op:
            return self._submit(calls.reduce_scatter_v, x, counts, op, out)
        result = out
        if out is None and type(x) is _ndarray:
            try:
                result = _empty(counts[self.rank], x.dtype)
            except Exception:  # counts that are none: Python's way says what is wrong with them
                result = None
        reduction = REDUCTIONS.get(op, 0) if type(op) is str else 0
        try:
            status = self._reduce_scatter(x, result, reduction, 0, 0, 0, None, counts)
        except BaseException:
            self._dispatcher.left("reduce_scatter_v")
            raise
        if status:
            return self._again("reduce_scatter_v", status, calls.reduce_scatter_v, x, counts, op, out)
        return result

    def scan(
        self, x: Any, op: Any = "sum", *, out: Any = None, algorithm: str | None = None, async_op: bool = False
    ) -> Any:
        """The element-wise reduction of `x` of ranks 0, 1, ..., r, in that order, on rank r.

        op: see `all_reduce`, but for avg, which has no running form (`ValueError`). `out=x` works in place.
        algorithm: flat, chain.
        """
        if async_op:
            return self._submit(calls.scan, x, op, out, algorithm)
        result = _empty_like(x) if out is None and type(x) is _ndarray else out
        try:
            status = self._scan(x, result, _running(op, algorithm), 0, 0, 0)
        except BaseException:
            self._dispatcher.left("scan")
            raise
        if status:
            return self._again("scan", status, calls.scan, x, op, out, algorithm)
        return result

    def exscan(
        self, x: Any, op: Any = "sum", *, out: Any = None, algorithm: str | None = None, async_op: bool = False
    ) -> Any:
        """As `scan`, without the rank's own `x`: of ranks 0, 1, ..., r - 1. Rank 0 gets None, and its `out` is left as
        it is."""
        if async_op:
            return self._submit(calls.exscan, x, op, out, algorithm)
        result = None
        if self.rank:
            result = _empty_like(x) if out is None and type(x) is _ndarray else out
        try:
            status = self._exscan(x, result, _running(op, algorithm), 0, 0, 0)
        except BaseException:
            self._dispatcher.left("exscan")
            raise
        if status:
            return self._again("exscan", status, calls.exscan, x, op, out, algorithm)
        return result

    def all_to_all(
        self, x: Any, split_axis: int = 0, concat_axis: int = 0, *, out: Any = None, async_op: bool = False
    ) -> Any:
        """Exchange blocks: block i of `x` along `split_axis` goes to rank i; the blocks received are put one after the
        other along `concat_axis`, in rank order.

        x: array of at least one dimension, equal shape on all ranks; `x.shape[split_axis]` divisible by the number of
        ranks (else `ValueError`). The result has shape x.shape with split_axis divided and concat_axis multiplied by
        it. Axes may be negative; out of range is `IndexError`.

        x or out or both may be a list of n arrays of equal shape and dtype, block i to or from rank i, used in place;
        both axes must then be 0. What is a list on one rank may be an array on another. `out=x` works in place.
        """
        if async_op:
            return self._submit(calls.all_to_all, x, split_axis, concat_axis, out)
        if out is None and type(x) is _ndarray and split_axis == concat_axis:
            result = _empty_like(x)
        else:
            result = out
        try:
            status = self._all_to_all(x, result, 0, split_axis, concat_axis, 0)
        except BaseException:
            self._dispatcher.left("all_to_all")
            raise
        if status:
            return self._again("all_to_all", status, calls.all_to_all, x, split_axis, concat_axis, out)
        return result

    def gather(self, x: Any, root: int = 0, *, out: Any = None, async_op: bool = False) -> Any:
        """The arrays of all ranks on rank `root`, concatenated along axis 0 in rank order; None on the others.

        x: array, equal shape on all ranks; a 0-d array counts as shape (1,). out, on the root: an array of the
        result's shape, or a list of n arrays of x's shape and dtype, which are written and returned.
        """
        if async_op:
            return self._submit(calls.gather, x, root, out)
        result = out if self.rank == root else None
        try:
            status = self._gather(x, result, 0, root, 0, 0)
        except BaseException:
            self._dispatcher.left("gather")
            raise
        if status:
            return self._again("gather", status, calls.gather, x, root, out)
        return result

    def broadcast(self, x: Any, root: int = 0, *, async_op: bool = False) -> Any:
        """The array of rank `root`, on every rank: written into `x` where it is not the root; returns `x`.

        x: numpy array, equal shape and dtype on all ranks. On the root it is only read, and may be anything that can
        be made an array, which is then returned. Elsewhere `TypeError` when it is no numpy array or read-only.
        """
        if async_op:
            return self._submit(calls.broadcast, x, root)
        try:
            status = self._broadcast(x, x, 0, root, 0, 0)
        except BaseException:
            self._dispatcher.left("broadcast")
            raise
        if status:
            return self._again("broadcast", status, calls.broadcast, x, root)
        return x

    def all_gather(self, x: Any, *, out: Any = None, async_op: bool = False) -> Any:
        """The arrays of all ranks, concatenated along axis 0 in rank order, on every rank.

        x: array, equal shape on all ranks; a 0-d array counts as shape (1,). out: an array of the result's shape, or a
        list of n arrays of x's shape and dtype, which are written and returned. In place: x may be this rank's own
        part of `out`; any other overlap is `ValueError`.
        """
        if async_op:
            return self._submit(calls.all_gather, x, out)
        if out is None and type(x) is _ndarray and x.ndim:
            result = _empty((self.size * x.shape[0], *x.shape[1:]), x.dtype)
        else:
            result = out
        try:
            status = self._all_gather(x, result, 0, 0, 0, 0)
        except BaseException:
            self._dispatcher.left("all_gather")
            raise
        if status:
            return self._again("all_gather", status, calls.all_gather, x, out)
        return result

    def scatter(self, x: Any, root: int = 0, *, out: Any = None, async_op: bool = False) -> Any:
        """The part of the array of rank `root` that belongs to this rank: its axis 0 is cut evenly, in rank order.

        x, on the root: array whose axis 0 is divisible by the number n of ranks (else `ValueError`), or a list of n
        arrays of equal shape and dtype, one a rank, used in place. None on the others (else `TypeError`). The result
        has shape (x.shape[0] / n, ...), or that of one array of the list; other ranks need not know it. out: an array
        of that shape and dtype, given by any rank; on the root it may be its own part of x.

        Raises `ValueError` on every rank, before a byte moves, when `out` of a rank has not the shape and dtype of
        what the root sends. The group stays usable.
        """
        if async_op:
            return self._submit(calls.scatter, x, root, out)
        source, result = x, out
        if self.rank != root:
            source = out if x is None else None
        elif out is None and type(x) is _ndarray and x.ndim:
            result = _empty((x.shape[0] // self.size, *x.shape[1:]), x.dtype)
        try:
            status = self._scatter(source, result, 0, root, 0, 0)
        except BaseException:
            self._dispatcher.left("scatter")
            raise
        if status:
            return self._again("scatter", status, calls.scatter, x, root, out)
        return result

    def collective_permute(self, x: Any, pairs: Any, *, out: Any = None, async_op: bool = False) -> Any:
        """The array of the rank that sends to this one; zeros on a rank to which nobody sends. XLA's CollectivePermute,
        `jax.lax.ppermute`.

        x: array of any shape, equal on all ranks, like the result. pairs: a sequence of (source, target), in any order,
        the same on all ranks; each rank at most once a source and at most once a target (else `ValueError`), which may
        be the same rank. A shift round a ring: `[(i, (i + 1) % n) for i in range(n)]`. `out=x` works in place.
        """
        if async_op:
            return self._submit(calls.collective_permute, x, pairs, out)
        result = _empty_like(x) if out is None and type(x) is _ndarray else out
        try:
            pairs = tuple(pairs)
            route = route_of(pairs, self.size, self.rank, "collective_permute", self.rank)
        except (TypeError, ValueError):  # no pairs that can be looked up; the long way says what is wrong, if anything
            return calls.perform(calls.collective_permute, self._dispatcher, (x, pairs, out))
        try:
            status = self._collective_permute(x, result, *route)
        except BaseException:
            self._dispatcher.left("collective_permute")
            raise
        if status:
            return self._again("collective_permute", status, calls.collective_permute, x, pairs, out)
        return result

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

        Counts and displacements are in elements, one for each rank. Without displacements the blocks are packed, one
        after the other, and together must be all of x (`ValueError` here if they are less). What comes from rank i is
        written at `recv_displs[i]` of the flattened `out`; what lies between stays as it is. Without `out` the result
        is 1-D, just large enough, gaps zero. Receive counts are found by the operation; `recv_counts` given are
        checked, `recv_room[i]` limits what rank i may send. Shapes may differ between ranks.

        Raises `ValueError` on every rank, before a byte moves, when a block lies outside its source or result, exceeds
        its room, differs from the expected count, or overlaps another in a result. The group stays usable.
        """
        arguments = (x, send_counts, send_displs, recv_counts, recv_displs, recv_room, out)
        if async_op:
            return self._submit(calls.all_to_all_v, *arguments)
        result, received = out, _empty(self.size, _int64)
        entry = self._all_to_all_v
        try:
            status = entry(x, out, 0, 0, 0, 0, received, send_counts, send_displs, recv_counts, recv_displs, recv_room)
            if status == _HALFWAY:
                status, result = second_phase(self._dispatcher, entry, x)
        except BaseException:
            self._dispatcher.left("all_to_all_v")
            raise
        if status:
            return self._again("all_to_all_v", status, calls.all_to_all_v, *arguments)
        return result, received

    def gather_v(
        self,
        x: Any,
        root: int = 0,
        *,
        recv_counts: Any = None,
        recv_displs: Any = None,
        out: Any = None,
        async_op: bool = False,
    ) -> Any:
        """The arrays of all ranks, of any shapes, on rank `root`: (result, receive counts); (None, None) on the others.

        The flattened array of rank i is written at `recv_displs[i]` of the flattened `out`, counted in elements; by
        default one after the other. What lies between stays as it is. Without `out` the result is 1-D, just large
        enough, gaps zero. Receive counts are found by the operation; `recv_counts` given are checked. `recv_counts`,
        `recv_displs` and `out` are the root's; the others' are not looked at. The dtype is equal on all ranks.

        Raises `ValueError` on every rank, before a byte moves, when an array lies outside the result, has another count
        than expected, or overlaps another in the result. The group stays usable.
        """
        if async_op:
            return self._submit(calls.gather_v, x, root, recv_counts, recv_displs, out)
        result = received = None
        if self.rank == root:
            result, received = out, _empty(self.size, _int64)
        entry = self._gather_v
        try:
            status = entry(x, result, 0, root, 0, 0, received, None, None, recv_counts, recv_displs, None)
            if status == _HALFWAY:
                status, result = second_phase(self._dispatcher, entry, x, root)
        except BaseException:
            self._dispatcher.left("gather_v")
            raise
        if status:
            return self._again("gather_v", status, calls.gather_v, x, root, recv_counts, recv_displs, out)
        return result, received

    def scatter_v(
        self,
        x: Any,
        send_counts: Any,
        send_displs: Any = None,
        root: int = 0,
        *,
        out: Any = None,
        async_op: bool = False,
    ) -> Any:
        """Rank i gets `send_counts[i]` elements of the flattened `x` of rank `root`, from `send_displs[i]` on.

        Counts and displacements are in elements, one for each rank. Without displacements the blocks are packed, one
        after the other, and together must be all of x (`ValueError` on the root if they are less); with them, blocks
        may overlap and leave parts out. The others give None for x, counts and displacements (`TypeError` for anything
        else), and need to know neither count nor dtype. The result is 1-D, or `out`, of any shape with just so many
        elements.

        Raises `ValueError` on every rank, before a byte moves, when a block lies outside x, or an `out` has another
        size or dtype than what comes. The group stays usable.
        """
        if async_op:
            return self._submit(calls.scatter_v, x, send_counts, send_displs, root, out)
        result, entry = out, self._scatter_v
        try:
            status = entry(x, out, 0, root, 0, 0, None, send_counts, send_displs, None, None, None)
            if status == _HALFWAY:
                status, result = second_phase(self._dispatcher, entry, x, root)
        except BaseException:
            self._dispatcher.left("scatter_v")
            raise
        if status:
            return self._again("scatter_v", status, calls.scatter_v, x, send_counts, send_displs, root, out)
        return result

    def all_gather_v(
        self, x: Any, *, recv_counts: Any = None, recv_displs: Any = None, out: Any = None, async_op: bool = False
    ) -> Any:
        """The arrays of all ranks, of any shapes, on every rank: (result, receive counts).

        As `gather_v` for each rank: everyone may give its own displacements, expected counts and `out`. Raises
        `ValueError` on every rank, before a byte moves, when what one of them gives does not fit.
        """
        if async_op:
            return self._submit(calls.all_gather_v, x, recv_counts, recv_displs, out)
        result, received = out, _empty(self.size, _int64)
        entry = self._all_gather_v
        try:
            status = entry(x, out, 0, 0, 0, 0, received, None, None, recv_counts, recv_displs, None)
            if status == _HALFWAY:
                status, result = second_phase(self._dispatcher, entry, x)
        except BaseException:
            self._dispatcher.left("all_gather_v")
            raise
        if status:
            return self._again("all_gather_v", status, calls.all_gather_v, x, recv_counts, recv_displs, out)
        return result, received

    # --- calling ------------------------------------------------------------------------------------------------------

    def _submit(self, call: Callable[..., Any], *arguments: Any) -> Work:
        """Have the worker make a call."""

        def perform() -> Any:
            return calls.perform(call, self._dispatcher, arguments)

        if buffer_check.is_on():
            values = buffer_check.named_arguments(call, arguments)
            written = ("out", "x") if call is calls.broadcast and self.rank != values["root"] else ("out",)
            name = self._dispatcher.failures.name
            perform = buffer_check.around(perform, call.__name__, name, values, *written)
        return self._dispatcher.worker.submit(perform)

    def _again(self, operation: str, status: int, call: Callable[..., Any], *arguments: Any) -> Any:
        """After the native entry has not let a call in: the long way. After anything else: the error."""
        if status not in (c.NEEDS_PYTHON, c.BUSY):
            raise self._dispatcher.failures.error(operation, status)
        return calls.perform(call, self._dispatcher, arguments)


def _running(op: Any, algorithm: str | None) -> int:
    """The code of the operator of a scan, where the native entry can take it; 0 where it cannot."""
    return REDUCTIONS.get(op, 0) if type(op) is str and op != "avg" and algorithm is None else 0
