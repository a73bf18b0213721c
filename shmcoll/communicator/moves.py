"""The methods that move blocks of equal lengths between all ranks. The routines are in `collectives/`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from shmcoll.communicator.native_call import IS_ROOT, NativeCalls, joined, native_call, native_entry
from shmcoll.runtime.work import Work

if TYPE_CHECKING:
    from shmcoll.communicator.types import Array, ArrayLike, Out, Outs, Pairs

_WHOLE = joined("self._size * len(x)")
_PART = joined("len(x) // self._size")


class Moves(NativeCalls):
    """The methods of every group that move blocks of equal lengths, and the barrier."""

    @overload
    def barrier(self, *, async_op: Literal[False] = False) -> None: ...
    @overload
    def barrier(self, *, async_op: Literal[True]) -> Work[None]: ...
    @native_call("", answer="None")
    def barrier(self, *args: Any, **kwargs: Any) -> Any:
        """Wait until every rank has called it.

        Args:
            async_op: return a `Work` at once, which is done when every rank has called it.
        """

    @overload
    def broadcast(
        self, x: ArrayLike | Out | None, root: int = 0, *, shared: bool = False, async_op: Literal[False] = False
    ) -> Array: ...
    @overload
    def broadcast(
        self, x: ArrayLike | Out | None, root: int = ..., *, shared: bool = ..., async_op: Literal[True]
    ) -> Work[Array]: ...
    @native_call(
        "x, x, 0, root, 0, 0",
        entry=f"({native_entry('broadcast')}) if x is not None else self._opening('broadcast', root)",
        second="second_of_shape(self._dispatcher, entry, root)",
        answer="x if x is not None else result",
    )
    def broadcast(self, *args: Any, **kwargs: Any) -> Any:
        """Copy the array of rank `root` to all ranks.

        A rank other than the root passes an array, which is written, or None to get a new one. Each rank decides for
        itself. With `shared=True` its x is ignored.

        Args:
            x: on the root, anything that can be made an array, of any dtype of fixed size. On the other ranks, an array
                of the same shape and dtype, or what another method takes as `out`; or None, or a number, which is
                ignored.
            root: the rank whose array is copied.
            shared: return a read-only array in shared memory: one for all ranks, not one for each. See `all_gather`.
            async_op: return a `Work` at once.

        Returns:
            `x`, if it has memory. Otherwise, the array made from `x` on the root, and a new array on another rank. A
            numpy scalar in place of a new 0-d array.

        Raises:
            TypeError: on a rank other than the root, `x` cannot be written.
            ValueError: there is no rank `root`.

        Example:
            >>> comm.broadcast(np.arange(3.0) if comm.rank == 0 else None)
            array([0., 1., 2.])
        """

    @overload
    def all_gather(
        self, x: ArrayLike, *, out: Outs | None = None, shared: bool = False, async_op: Literal[False] = False
    ) -> Array: ...
    @overload
    def all_gather(
        self, x: ArrayLike, *, out: Outs | None = ..., shared: bool = ..., async_op: Literal[True]
    ) -> Work[Array]: ...
    @native_call("x, result, 0, 0, 0, 0", result=_WHOLE)
    def all_gather(self, *args: Any, **kwargs: Any) -> Any:
        """Concatenate the arrays of all ranks along axis 0, in rank order, and return the result on every rank.

        Args:
            x: array of shape (k, ...), of any dtype of fixed size; shape and dtype are equal on all ranks. A 0-d array
                counts as shape (1,).
            out: array of shape (n * k, ...) for n ranks, or a list of n arrays of x's shape and dtype. It may share
                memory with `x`; if `x` is this rank's own part of `out`, nothing is copied for that.
            shared: return a read-only array in shared memory. All ranks get the same memory: there is one result, and
                not one for each rank. It is freed when all ranks have deleted their arrays.
            async_op: return a `Work` at once.

        Returns:
            Array of shape (n * k, ...): `out`, if given, also if it is a list.

        Raises:
            TypeError: `out` has another dtype.
            ValueError: `out` has another shape. With `shared=True`, on every rank, shapes or dtypes differ; or `out` is
                given.
            ArenaError: with `shared=True`, on every rank, rank 0 finds too little shared memory. No byte has moved.

        Example:
            >>> comm.all_gather([comm.rank]).tolist() == list(range(comm.size))
            True
        """

    @overload
    def gather(
        self,
        x: ArrayLike,
        root: int = 0,
        *,
        out: Outs | None = None,
        shared: bool = False,
        async_op: Literal[False] = False,
    ) -> Array | None: ...
    @overload
    def gather(
        self, x: ArrayLike, root: int = ..., *, out: Outs | None = ..., shared: bool = ..., async_op: Literal[True]
    ) -> Work[Array | None]: ...
    @native_call("x, result, 0, root, 0, 0", result=f"{_WHOLE} if {IS_ROOT} else None")
    def gather(self, *args: Any, **kwargs: Any) -> Any:
        """Concatenate the arrays of all ranks along axis 0, in rank order, and return the result on rank `root`.

        Args:
            x: array of shape (k, ...), of any dtype of fixed size; shape and dtype are equal on all ranks. A 0-d array
                counts as shape (1,).
            root: the rank that gets the result.
            out: on the root, array of shape (n * k, ...) for n ranks, or a list of n arrays of x's shape and dtype.
                It may share memory with `x`; if `x` is the root's own part of `out`, nothing is copied for that.
                Ignored on the other ranks.
            shared: return the result in shared memory, into which each rank writes its own part. It is read-only.
            async_op: return a `Work` at once.

        Returns:
            On the root, array of shape (n * k, ...): `out`, if given, also if it is a list. None on the other ranks.

        Raises:
            TypeError: `out` has another dtype.
            ValueError: `out` has another shape, or there is no rank `root`.
        """

    @overload
    def scatter(
        self,
        x: ArrayLike | None,
        root: int = 0,
        *,
        out: Out | None = None,
        shared: bool = False,
        async_op: Literal[False] = False,
    ) -> Array: ...
    @overload
    def scatter(
        self,
        x: ArrayLike | None,
        root: int = ...,
        *,
        out: Out | None = ...,
        shared: bool = ...,
        async_op: Literal[True],
    ) -> Work[Array]: ...
    @native_call(
        "source, result, 0, root, 0, 0",
        is_root=IS_ROOT,
        source="x if is_root else out",
        result=f"{_PART} if is_root else out",
        entry=f"({native_entry('scatter')}) if source is not None else self._opening('scatter', root)",
        second="second_of_shape(self._dispatcher, entry, root)",
    )
    def scatter(self, *args: Any, **kwargs: Any) -> Any:
        """Cut the array of rank `root` along axis 0 into equal parts, and return part r on rank r.

        The other ranks need not know the shape or the dtype.

        Args:
            x: on the root, array of shape (n * k, ...) for n ranks, or a list of n arrays of equal shape and dtype,
                which are used in place. Ignored on the other ranks.
            root: the rank whose array is cut.
            out: array of the part's shape and dtype for the result; any rank may pass one. On the root it may share
                memory with `x`; if it is the root's own part of `x`, nothing is copied for that.
            shared: return a read-only part of one copy of `x` in shared memory, which is freed when all ranks have
                deleted their parts.
            async_op: return a `Work` at once.

        Returns:
            Array of shape (k, ...), or of the shape of one array of the list: `out`, if given.

        Raises:
            TypeError: on the root, `out` has another dtype than `x`.
            ValueError: on the root, axis 0 is not divisible by n, or `out` does not have the shape of its part. On
                every rank, before a byte moves, the `out` of another rank does not have the shape and dtype of its
                part; on that rank alone, if the parts of all but the root have at most 384 bytes together. The group
                stays usable.
        """

    @overload
    def all_to_all(
        self,
        x: ArrayLike,
        split_axis: int = 0,
        concat_axis: int = 0,
        *,
        out: Outs | None = None,
        async_op: Literal[False] = False,
    ) -> Array: ...
    @overload
    def all_to_all(
        self,
        x: ArrayLike,
        split_axis: int = ...,
        concat_axis: int = ...,
        *,
        out: Outs | None = ...,
        async_op: Literal[True],
    ) -> Work[Array]: ...
    @native_call(
        "x, result, 0, split_axis, concat_axis, 0",
        result="empty_like(x) if out is None and type(x) is ndarray and split_axis is concat_axis else out",
    )
    def all_to_all(self, *args: Any, **kwargs: Any) -> Any:
        """Send block i of `x` to rank i, and concatenate the blocks received, in rank order.

        Args:
            x: array of at least one dimension; shape and dtype are equal on all ranks. Or a list of n arrays of equal
                shape and dtype for n ranks, which are used in place.
            split_axis: the axis along which `x` is cut into n equal blocks. May be negative.
            concat_axis: the axis along which the blocks received are put together. May be negative.
            out: array of the result's shape and dtype, or a list of n arrays, one for each block received. It may share
                memory with `x`; `out=x` works in place if the axes are equal.
            async_op: return a `Work` at once.

        Returns:
            Array of x's shape with `split_axis` divided and `concat_axis` multiplied by n: `out`, if given, also if it
            is a list.

        Raises:
            IndexError: an axis does not exist.
            ValueError: `split_axis` is not divisible by n, or one of `x` and `out` is a list and the axes are not 0.

        A rank may pass a list where another passes an array.

        Example:
            >>> sent = np.full(comm.size, comm.rank)
            >>> comm.all_to_all(sent).tolist() == list(range(comm.size))
            True
        """

    @overload
    def collective_permute(
        self, x: ArrayLike, pairs: Pairs, *, out: Out | None = None, async_op: Literal[False] = False
    ) -> Array: ...
    @overload
    def collective_permute(
        self, x: ArrayLike, pairs: Pairs, *, out: Out | None = ..., async_op: Literal[True]
    ) -> Work[Array]: ...
    @native_call(
        "x, result, *route",
        result="empty(shape, x.dtype) if out is None and type(x) is ndarray and (shape := x.shape) else out",
        both="routed(pairs, self._size, self._rank)",
        pairs="both[0]",
        route="both[1]",
        entry=f"({native_entry('collective_permute')}) if route else unrouted",
    )
    def collective_permute(self, *args: Any, **kwargs: Any) -> Any:
        """Send the array of each source to its target, as XLA's CollectivePermute and `jax.lax.ppermute` do.

        Args:
            x: array of any shape; shape and dtype are equal on all ranks.
            pairs: pairs (source, target) of ranks, in any order, the same on all ranks. A rank is at most once a source
                and at most once a target; source and target may be the same rank.
            out: array of x's shape and dtype for the result. It may share memory with `x`; `out=x` works in place.
            async_op: return a `Work` at once.

        Returns:
            Array of x's shape and dtype: the array of the rank that sends to this one, or zeros if no rank does.

        Raises:
            TypeError: `pairs` is not a sequence of pairs of integers.
            ValueError: a rank does not exist, or is the source or the target of two pairs.

        Example:
            >>> ring = [(i, (i + 1) % comm.size) for i in range(comm.size)]  # shift by one rank
            >>> int(comm.collective_permute([comm.rank], ring)[0]) == (comm.rank - 1) % comm.size
            True
        """
