"""The methods that move blocks of different lengths between all ranks. Receive counts are found by the operation. The
routines are in `collectives/`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from shmcoll.communicator.native_call import IN_ELEMENTS, IS_ROOT, NativeCalls, native_call
from shmcoll.runtime.work import Work

if TYPE_CHECKING:
    from shmcoll.communicator.types import Array, ArrayLike, Counts, Out


class CountedMoves(NativeCalls):
    """The methods of every group for blocks of different lengths."""

    @overload
    def all_to_all_v(
        self,
        x: ArrayLike,
        send_counts: Counts,
        send_displs: Counts | None = None,
        *,
        recv_counts: Counts | None = None,
        recv_displs: Counts | None = None,
        recv_room: Counts | None = None,
        out: Out | None = None,
        axis: int | None = None,
        async_op: Literal[False] = False,
    ) -> tuple[Array, Array]: ...
    @overload
    def all_to_all_v(
        self,
        x: ArrayLike,
        send_counts: Counts,
        send_displs: Counts | None = ...,
        *,
        recv_counts: Counts | None = ...,
        recv_displs: Counts | None = ...,
        recv_room: Counts | None = ...,
        out: Out | None = ...,
        axis: int | None = ...,
        async_op: Literal[True],
    ) -> Work[tuple[Array, Array]]: ...
    @native_call(
        "x, out, 0, 0, unit, 0, received, send_counts, send_displs, recv_counts, recv_displs, recv_room",
        result="out",
        unit=IN_ELEMENTS,
        received="empty(self._size, int64)",
        second="second_phase(self._dispatcher, entry, x)",
        answer="result, received",
    )
    def all_to_all_v(self, *args: Any, **kwargs: Any) -> Any:
        """Send a block of any length to every rank.

        Rank i gets `send_counts[i]` elements of the flattened `x`, from `send_displs[i]` on; with `axis=0`,
        `send_counts[i]` rows of `x`. There is one count and one displacement for each rank.

        Args:
            x: array of any shape, which may differ between ranks, of any dtype of fixed size, which is equal on all
                ranks. With `axis=0`, shapes may differ in the number of rows only.
            send_counts: how many elements go to each rank.
            send_displs: where each block begins in `x`. By default the blocks follow each other, and together are all
                of `x`.
            recv_counts: how many elements are expected from each rank; checked, if given.
            recv_displs: where the block of each rank is written in the flattened `out`. By default one after the other.
            recv_room: how many elements each rank may send at most.
            out: array of any shape for the result; what is between the blocks stays as it is. With `axis=0`, its rows
                have the shape of those of `x`. It may share memory with `x`.
            axis: 0 to count rows, None to count elements; the same on all ranks.
            async_op: return a `Work` at once.

        Returns:
            (result, receive counts). The result is `out`, if given; else a 1-D array just large enough, or of
            shape (rows, ...) with `axis=0`, with zeros between the blocks. The receive counts are an int64 array of
            shape (n,), in rows with `axis=0`.

        Raises:
            ValueError: on this rank, there are no displacements and the counts add up to less than `x` has, or `axis`
                is neither 0 nor None. On every rank, before a byte moves, a block of some rank is not within its source
                or its result, exceeds its room, differs from the expected count, or overlaps another block in a result.
                The group stays usable.

        Example:
            >>> result, counts = comm.all_to_all_v(np.full(comm.size, comm.rank), [1] * comm.size)
            >>> result.tolist() == list(range(comm.size)) and counts.tolist() == [1] * comm.size
            True
            >>> rows, counts = comm.all_to_all_v(np.ones((comm.size, 3)), [1] * comm.size, axis=0)
            >>> rows.shape == (comm.size, 3)
            True
        """

    @overload
    def gather_v(
        self,
        x: ArrayLike,
        root: int = 0,
        *,
        recv_counts: Counts | None = None,
        recv_displs: Counts | None = None,
        out: Out | None = None,
        axis: int | None = None,
        async_op: Literal[False] = False,
    ) -> tuple[Array, Array] | tuple[None, None]: ...
    @overload
    def gather_v(
        self,
        x: ArrayLike,
        root: int = ...,
        *,
        recv_counts: Counts | None = ...,
        recv_displs: Counts | None = ...,
        out: Out | None = ...,
        axis: int | None = ...,
        async_op: Literal[True],
    ) -> Work[tuple[Array, Array] | tuple[None, None]]: ...
    @native_call(
        "x, result, 0, root, unit, 0, received, None, None, recv_counts, recv_displs, None",
        is_root=IS_ROOT,
        result="out if is_root else None",
        unit=IN_ELEMENTS,
        received="empty(self._size, int64) if is_root else None",
        second="second_phase(self._dispatcher, entry, x, root)",
        answer="result, received",
    )
    def gather_v(self, *args: Any, **kwargs: Any) -> Any:
        """Collect arrays of different lengths on rank `root`.

        The flattened array of rank i is written at `recv_displs[i]` of the flattened result; with `axis=0`, its rows
        from row `recv_displs[i]` on. There is one count and one displacement for each rank. `recv_counts`,
        `recv_displs` and `out` are ignored on all ranks except the root.

        Args:
            x: array of any shape, which may differ between ranks, of any dtype of fixed size, which is equal on all
                ranks. With `axis=0`, shapes may differ in the number of rows only.
            root: the rank that gets the result.
            recv_counts: how many elements are expected from each rank; checked, if given.
            recv_displs: where each array is written. By default one after the other.
            out: array of any shape for the result; what is between the arrays stays as it is. With `axis=0`, its rows
                have the shape of those of `x`. It may share memory with `x`.
            axis: 0 to count rows, None to count elements; the same on all ranks.
            async_op: return a `Work` at once.

        Returns:
            On the root, (result, receive counts); (None, None) on the other ranks. The result is `out`, if given; else
            a 1-D array just large enough, or of shape (rows, ...) with `axis=0`, with zeros between the arrays. The
            receive counts are an int64 array of shape (n,), in rows with `axis=0`.

        Raises:
            ValueError: on every rank, before a byte moves, an array is not within the result, does not have the
                expected count, or overlaps another in the result. The group stays usable.
        """

    @overload
    def all_gather_v(
        self,
        x: ArrayLike,
        *,
        recv_counts: Counts | None = None,
        recv_displs: Counts | None = None,
        out: Out | None = None,
        axis: int | None = None,
        async_op: Literal[False] = False,
    ) -> tuple[Array, Array]: ...
    @overload
    def all_gather_v(
        self,
        x: ArrayLike,
        *,
        recv_counts: Counts | None = ...,
        recv_displs: Counts | None = ...,
        out: Out | None = ...,
        axis: int | None = ...,
        async_op: Literal[True],
    ) -> Work[tuple[Array, Array]]: ...
    @native_call(
        "x, out, 0, 0, unit, 0, received, None, None, recv_counts, recv_displs, None",
        result="out",
        unit=IN_ELEMENTS,
        received="empty(self._size, int64)",
        second="second_phase(self._dispatcher, entry, x)",
        answer="result, received",
    )
    def all_gather_v(self, *args: Any, **kwargs: Any) -> Any:
        """Collect arrays of different lengths on every rank.

        It works as `gather_v` with every rank as a root: each rank may pass its own `recv_counts`, `recv_displs` and
        `out`.

        Args:
            x: array of any shape, which may differ between ranks, of any dtype of fixed size, which is equal on all
                ranks. With `axis=0`, shapes may differ in the number of rows only.
            recv_counts: how many elements are expected from each rank; checked, if given.
            recv_displs: where each array is written in the flattened result. By default one after the other.
            out: array of any shape for the result; what is between the arrays stays as it is. With `axis=0`, its rows
                have the shape of those of `x`. It may share memory with `x`.
            axis: 0 to count rows, None to count elements; the same on all ranks.
            async_op: return a `Work` at once.

        Returns:
            (result, receive counts), as `gather_v` returns them on the root.

        Raises:
            ValueError: on every rank, before a byte moves, an array is not within the result of some rank, does not
                have the count that this rank expects, or overlaps another in its result. The group stays usable.

        Example:
            >>> result, counts = comm.all_gather_v(np.full(comm.rank, comm.rank))  # rank r sends r elements
            >>> counts.tolist() == list(range(comm.size))
            True
            >>> rows, _ = comm.all_gather_v(np.zeros((comm.rank, 3)), axis=0)  # rank r sends r rows
            >>> rows.shape == (sum(range(comm.size)), 3)
            True
        """

    @overload
    def scatter_v(
        self,
        x: ArrayLike | None,
        root: int = 0,
        *,
        send_counts: Counts | None = None,
        send_displs: Counts | None = None,
        out: Out | None = None,
        axis: int | None = None,
        async_op: Literal[False] = False,
    ) -> Array: ...
    @overload
    def scatter_v(
        self,
        x: ArrayLike | None,
        root: int = ...,
        *,
        send_counts: Counts | None = ...,
        send_displs: Counts | None = ...,
        out: Out | None = ...,
        axis: int | None = ...,
        async_op: Literal[True],
    ) -> Work[Array]: ...
    @native_call(
        "source, out, 0, root, unit, 0, None, counts, displs, None, None, None",
        result="out",
        is_root=IS_ROOT,
        source="x if is_root else None",
        unit=IN_ELEMENTS,
        counts="send_counts if is_root else None",
        displs="send_displs if is_root else None",
        second="second_phase(self._dispatcher, entry, source, root)",
    )
    def scatter_v(self, *args: Any, **kwargs: Any) -> Any:
        """Send a block of any length from rank `root` to every rank.

        Rank i gets `send_counts[i]` elements of the flattened `x` of the root, from `send_displs[i]` on; with `axis=0`,
        `send_counts[i]` rows of `x`. There is one count and one displacement for each rank. The other ranks need to
        know neither count nor dtype. `x`, `send_counts` and `send_displs` are ignored on all ranks except the root.

        Args:
            x: on the root, array of any shape, of any dtype of fixed size.
            root: the rank that sends.
            send_counts: on the root, how many elements go to each rank.
            send_displs: on the root, where each block begins in `x`; blocks may overlap and leave out elements. By
                default the blocks follow each other, and together are all of `x`.
            out: array of any shape with exactly as many elements as this rank gets; with `axis=0`, of shape (rows,
                ...). On the root it may share memory with `x`.
            axis: 0 to count rows, None to count elements; the same on all ranks.
            async_op: return a `Work` at once.

        Returns:
            1-D array of the elements for this rank, or array of shape (rows, ...) with `axis=0`; `out`, if given.

        Raises:
            TypeError: on the root, `out` has another dtype than `x`.
            ValueError: on the root, there are no displacements and the counts add up to less than `x` has. On every
                rank, before a byte moves, a block is not within `x`, or the `out` of a rank does not have the size of
                its block, or of another rank not the dtype. The group stays usable.

        Example:
            >>> x = np.arange(2.0 * comm.size).reshape(comm.size, 2) if comm.rank == 0 else None
            >>> comm.scatter_v(x, send_counts=[1] * comm.size, axis=0) - 2 * comm.rank
            array([[0., 1.]])
        """
