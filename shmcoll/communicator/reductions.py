"""The methods that reduce: element by element, over the arrays of all ranks. The routines are in `collectives/`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from shmcoll.communicator.native_call import IN_ELEMENTS, IS_ROOT, NativeCalls, joined, native_call, native_entry
from shmcoll.runtime.work import Work

if TYPE_CHECKING:
    from shmcoll.communicator.types import Array, ArrayLike, Counts, Operator, Out

_LIKE_X = "empty(shape, x.dtype) if out is None and type(x) is ndarray and (shape := x.shape) else out"
_NAMED = "REDUCTIONS.get(op, 0) if type(op) is str and algorithm is None else 0"
_RUNNING = "REDUCTIONS.get(op, 0) if type(op) is str and op != 'avg' and algorithm is None else 0"


class Reductions(NativeCalls):
    """The methods of every group that reduce arrays."""

    @overload
    def all_reduce(
        self,
        x: ArrayLike,
        op: Operator = "sum",
        *,
        out: Out | None = None,
        algorithm: str | None = None,
        async_op: Literal[False] = False,
    ) -> Array: ...
    @overload
    def all_reduce(
        self,
        x: ArrayLike,
        op: Operator = ...,
        *,
        out: Out | None = ...,
        algorithm: str | None = ...,
        async_op: Literal[True],
    ) -> Work[Array]: ...
    @native_call("x, result, reduction, 0, 0, 0", result=_LIKE_X, reduction=_NAMED)
    def all_reduce(self, *args: Any, **kwargs: Any) -> Any:
        """Reduce the arrays of all ranks element by element, and return the result on every rank.

        The result has the same bits on every rank and in every run.

        Args:
            x: array of any shape; shape and dtype are equal on all ranks.
            op: the operator, the same on all ranks. One of the names below; a function that means the same (`np.add`,
                `np.multiply`, `np.minimum`, `np.maximum`, `np.bitwise_and`, `np.logical_and`, `operator.add`, `sum`,
                `min`, `max`, `np.mean`, ...); `shmcoll.premul_sum(factor)`; or `shmcoll.op(function)`.
            out: array of x's shape and dtype for the result. It may share memory with `x`; `out=x` works in place.
            algorithm: "flat", "ring" or "cells"; by default chosen by the length.
            async_op: return a `Work` at once.

        Returns:
            Array of x's shape and dtype: `out`, if given. A numpy scalar for a number or a 0-d array.

        Raises:
            TypeError: the dtype has no such operator.
            ValueError: the name of the operator or algorithm is unknown, or the ring is asked for with an operator that
                is not commutative.

        The operators by name:

        * sum, prod: integers wrap. float16 and bfloat16 are summed in float32 and rounded once. For bool they are "or"
          and "and".
        * min, max: NaN if any rank has one. Complex numbers are compared by their real parts first. Of zeros with
          different signs, the result is that of the first rank in the order of reduction.
        * avg: the sum divided by the number of ranks. Not for integers or bool.
        * band, bor, bxor: bitwise; for integers and bool.
        * land, lor, lxor: 1 or 0 in x's dtype. An element is true when it is not 0, so NaN is true.
        * argmin, argmax: for pairs of value and index, see `shmcoll.pair_dtype`. As numpy's functions do, they choose
          the lowest index of equal values, or of NaN. Structured arrays of two other fields, a real value and an int32
          or int64 index, are converted, and the result is converted back.

        Every byte of a bool except 0 is true.

        Example:
            >>> comm.all_reduce([1.0, 2.0]) / comm.size  # every rank has the same list
            array([1., 2.])
        """

    @overload
    def reduce(
        self,
        x: ArrayLike,
        root: int = 0,
        op: Operator = "sum",
        *,
        out: Out | None = None,
        algorithm: str | None = None,
        async_op: Literal[False] = False,
    ) -> Array | None: ...
    @overload
    def reduce(
        self,
        x: ArrayLike,
        root: int = ...,
        op: Operator = ...,
        *,
        out: Out | None = ...,
        algorithm: str | None = ...,
        async_op: Literal[True],
    ) -> Work[Array | None]: ...
    @native_call(
        "x, result, reduction, root, 0, 0",
        result=f"({_LIKE_X}) if {IS_ROOT} else None",
        reduction=_NAMED,
    )
    def reduce(self, *args: Any, **kwargs: Any) -> Any:
        """Reduce the arrays of all ranks element by element, and return the result on rank `root`.

        The bits are those of `all_reduce`.

        Args:
            x: array of any shape; shape and dtype are equal on all ranks.
            root: the rank that gets the result.
            op: see `all_reduce`.
            out: on the root, array of x's shape and dtype for the result; it may share memory with `x`, and
                `out=x` works in place. Ignored on the other ranks.
            algorithm: "flat", "ring" or "cells"; by default chosen by the length.
            async_op: return a `Work` at once.

        Returns:
            On the root, array of x's shape and dtype; None on the other ranks.

        Raises:
            TypeError: as for `all_reduce`.
            ValueError: as for `all_reduce`, or there is no rank `root`.
        """

    @overload
    def reduce_scatter(
        self,
        x: ArrayLike,
        op: Operator = "sum",
        *,
        out: Out | None = None,
        algorithm: str | None = None,
        async_op: Literal[False] = False,
    ) -> Array: ...
    @overload
    def reduce_scatter(
        self,
        x: ArrayLike,
        op: Operator = ...,
        *,
        out: Out | None = ...,
        algorithm: str | None = ...,
        async_op: Literal[True],
    ) -> Work[Array]: ...
    @native_call(
        "x, result, reduction, 0, 0, 0",
        result=joined("len(x) // self._size"),
        reduction=_NAMED,
    )
    def reduce_scatter(self, *args: Any, **kwargs: Any) -> Any:
        """Reduce block r of the arrays of all ranks element by element, and return it on rank r.

        The bits are the same in every run. Block r is reduced in the order r + 1, r + 2, ..., around to r.

        Args:
            x: array of shape (n * k, ...) for n ranks, cut along axis 0 into n blocks; shape and dtype are equal on all
                ranks. Or, on all ranks, a list of n arrays of equal shape and dtype, which are used in place.
            op: see `all_reduce`.
            out: array for the result. It may share memory with `x`; if it is this rank's own block of `x`, nothing is
                copied for that.
            algorithm: "flat", "ring" or "cells"; by default chosen by the length.
            async_op: return a `Work` at once.

        Returns:
            Array of shape (k, ...), or of the shape of one array of the list: `out`, if given.

        Raises:
            TypeError: as for `all_reduce`.
            ValueError: as for `all_reduce`, or axis 0 is not divisible by the number of ranks.

        Example:
            >>> comm.reduce_scatter(np.arange(3 * comm.size)) // comm.size - 3 * comm.rank
            array([0, 1, 2])
        """

    @overload
    def reduce_scatter_v(
        self,
        x: ArrayLike,
        counts: Counts,
        op: Operator = "sum",
        *,
        out: Out | None = None,
        axis: int | None = None,
        async_op: Literal[False] = False,
    ) -> Array: ...
    @overload
    def reduce_scatter_v(
        self,
        x: ArrayLike,
        counts: Counts,
        op: Operator = ...,
        *,
        out: Out | None = ...,
        axis: int | None = ...,
        async_op: Literal[True],
    ) -> Work[Array]: ...
    @native_call(
        "x, result, reduction, 0, unit, 0, None, counts",
        unit=IN_ELEMENTS,
        entry=native_entry("reduce_scatter"),
        result="block_of(x, counts, self._rank) if out is None and type(x) is ndarray else out",
        reduction="REDUCTIONS.get(op, 0) if type(op) is str else 0",
    )
    def reduce_scatter_v(self, *args: Any, **kwargs: Any) -> Any:
        """Reduce blocks of different lengths, as `reduce_scatter` does for equal ones.

        Block r of the flattened `x` has `counts[r]` elements; with `axis=0`, `counts[r]` rows of `x`.

        Args:
            x: array; its size and dtype are equal on all ranks.
            counts: n integers for n ranks, the same on all ranks; their sum is the size of `x`, or the number of its
                rows with `axis=0`.
            op: see `all_reduce`.
            out: array of any shape with `counts[rank]` elements for the result; with `axis=0`, of the result's shape.
                It may share memory with `x`; if it is this rank's own block of `x`, nothing is copied for that.
            axis: 0 to count rows, None to count elements; the same on all ranks.
            async_op: return a `Work` at once.

        Returns:
            Array of shape (counts[rank],), or (counts[rank], ...) with `axis=0`: `out`, if given.

        Raises:
            TypeError: as for `all_reduce`.
            ValueError: as for `all_reduce`, the counts do not add up to the size of `x`, or `axis` is neither 0
                nor None.
            CollectiveMismatch: the counts differ between ranks.
        """

    @overload
    def scan(
        self,
        x: ArrayLike,
        op: Operator = "sum",
        *,
        out: Out | None = None,
        algorithm: str | None = None,
        async_op: Literal[False] = False,
    ) -> Array: ...
    @overload
    def scan(
        self,
        x: ArrayLike,
        op: Operator = ...,
        *,
        out: Out | None = ...,
        algorithm: str | None = ...,
        async_op: Literal[True],
    ) -> Work[Array]: ...
    @native_call("x, result, reduction, 0, 0, 0", result=_LIKE_X, reduction=_RUNNING)
    def scan(self, *args: Any, **kwargs: Any) -> Any:
        """Reduce the arrays of ranks 0, 1, ..., r element by element, and return the result on rank r.

        Args:
            x: array of any shape; shape and dtype are equal on all ranks.
            op: see `all_reduce`. "avg" has no running form.
            out: array of x's shape and dtype for the result. It may share memory with `x`; `out=x` works in place.
            algorithm: "flat" or "chain"; by default chosen by the length.
            async_op: return a `Work` at once.

        Returns:
            Array of x's shape and dtype: `out`, if given. A numpy scalar for a number or a 0-d array.

        Raises:
            TypeError: as for `all_reduce`.
            ValueError: as for `all_reduce`, or the operator is "avg".
        """

    @overload
    def exscan(
        self,
        x: ArrayLike,
        op: Operator = "sum",
        *,
        out: Out | None = None,
        algorithm: str | None = None,
        async_op: Literal[False] = False,
    ) -> Array | None: ...
    @overload
    def exscan(
        self,
        x: ArrayLike,
        op: Operator = ...,
        *,
        out: Out | None = ...,
        algorithm: str | None = ...,
        async_op: Literal[True],
    ) -> Work[Array | None]: ...
    @native_call("x, result, reduction, 0, 0, 0", result=f"({_LIKE_X}) if self._rank else None", reduction=_RUNNING)
    def exscan(self, *args: Any, **kwargs: Any) -> Any:
        """Reduce the arrays of ranks 0, 1, ..., r - 1 element by element, and return the result on rank r.

        It does the same as `scan`, without the rank's own array.

        Args:
            x: array of any shape; shape and dtype are equal on all ranks.
            op: see `all_reduce`. "avg" has no running form.
            out: array of x's shape and dtype for the result. It may share memory with `x`; `out=x` works in place.
                Ignored on rank 0.
            algorithm: "flat" or "chain"; by default chosen by the length.
            async_op: return a `Work` at once.

        Returns:
            Array of x's shape and dtype; None on rank 0.

        Raises:
            TypeError: as for `scan`.
            ValueError: as for `scan`.
        """
