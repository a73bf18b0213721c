"""Ranks as a graph, and the collectives of neighbours in it.

A graph has a communicator of its own, so its messages never match those of the user. When the graph is made, all ranks
compare the edges that they have named. So each edge has a sender and a receiver.

Protocol: each call sends one message along each edge out of the rank, and receives one along each edge into it. Short
blocks are sent first, which needs no receiver. With a long block, or asynchronously, it is one batch: all receives are
posted before the first send. The tag of a message is the number of its edge among those from the same rank to the same
rank, and the kind of the call. Messages of one edge and one kind arrive in the order of the calls, so calls that
overlap in time do not mix, however far ahead a neighbour is. A rank waits only for its sources, each of which sends
without waiting for this rank to receive. The receiver finds a block of another size or dtype than expected, and a
source that sends nothing because it has made another kind of call. Both end the graph's group for all ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.arrays import cut, deliver, is_in_place, whole_shape
from shmcoll.calls.joined import Joined
from shmcoll.calls.recv import leave
from shmcoll.calls.send import as_sent
from shmcoll.communicator.batch import Recv, Send
from shmcoll.communicator.graph_links import Links, disagreement
from shmcoll.diagnostics.other_threads import GRAPH_CALLS
from shmcoll.engine.messages.ring_buffers import PART_BYTES
from shmcoll.engine.system.handlers import is_of_handler
from shmcoll.engine.system.text import shown
from shmcoll.errors import Cancelled, CollectiveMismatch
from shmcoll.runtime.posted_receives import PostedReceive
from shmcoll.runtime.process_bound import ProcessBound
from shmcoll.runtime.work import Work

if TYPE_CHECKING:
    from shmcoll.communicator import Communicator
    from shmcoll.communicator.objects import Parts
    from shmcoll.communicator.types import Array, ArrayLike, Counts, Out


class Graph(ProcessBound):
    """The ranks of a communicator as a graph. `comm.graph` and `Grid.graph` make it.

    Its methods are collectives of all ranks of the graph, but a rank waits for its neighbours only. Blocks are in the
    order of `sources` and `destinations`. At the end of a `with` block the graph is closed.

    Errors of every method: `CollectiveMismatch` if a neighbour's block has another size or dtype than this rank
    expects; it ends the graph's group. `CollectiveTimeout` if a neighbour makes another call, or none.

    Example:
        >>> rank, n = comm.rank, comm.size
        >>> with comm.graph([(rank - 1) % n, (rank + 1) % n]) as ring:  # the same ranks are sources and destinations
        ...     around = ring.all_gather(np.array([rank]))
        >>> around.tolist() == [(rank - 1) % n, (rank + 1) % n]
        True
    """

    _title, _instead = "the graph of a communicator", "call comm.graph in the function that uses it"

    def __init__(self, comm: Communicator, incoming: Links, outgoing: Links):
        self._comm, self._incoming, self._outgoing = comm, incoming, outgoing

    def __repr__(self) -> str:
        name = self._comm._dispatcher.failures.name
        return f"<shmcoll.Graph: rank {name} receives from {list(self.sources)}, sends to {list(self.destinations)}>"

    @property
    def comm(self) -> Communicator:
        """The graph's own communicator. Its `timeout` is that of the graph."""
        return self._comm

    @property
    def sources(self) -> tuple[int | None, ...]:
        """The ranks that this rank receives from."""
        return tuple(self._incoming.ranks)

    @property
    def destinations(self) -> tuple[int | None, ...]:
        """The ranks that this rank sends to."""
        return tuple(self._outgoing.ranks)

    @overload
    def all_gather(self, x: ArrayLike, *, out: Out | None = ..., async_op: Literal[False] = ...) -> Array: ...
    @overload
    def all_gather(self, x: ArrayLike, *, out: Out | None = ..., async_op: Literal[True]) -> Work[Array]: ...
    def all_gather(self, x: ArrayLike, *, out: Out | None = None, async_op: bool = False) -> Any:
        """Send an array to all destinations, and concatenate those of all sources along axis 0.

        Args:
            x: array of shape (k, ...); shape and dtype are equal on neighbours. A 0-d array counts as shape (1,).
            out: array of shape (s * k, ...) for s sources.
            async_op: return a `Work` at once.

        Returns:
            Array of shape (s * k, ...): `out`, if given. The block of a source that is None stays as it is in `out`;
            without `out` it is zeros.
        """
        with self._comm._dispatcher.checking("graph.all_gather") as check:
            array = as_sent(x, *check)
            shape = array.shape or (1,)
            view = given.as_memory(out)
            if view is not None:
                given.as_output(view, whole_shape(shape, len(self.sources)), array.dtype, *check)
        blocks = [array] * len(self.destinations)
        return self._move_equal("all_gather", array, blocks, shape, out, view, async_op)

    @overload
    def all_to_all(self, x: ArrayLike, *, out: Out | None = ..., async_op: Literal[False] = ...) -> Array: ...
    @overload
    def all_to_all(self, x: ArrayLike, *, out: Out | None = ..., async_op: Literal[True]) -> Work[Array]: ...
    def all_to_all(self, x: ArrayLike, *, out: Out | None = None, async_op: bool = False) -> Any:
        """Send a block to each destination, and concatenate the blocks of all sources along axis 0.

        Args:
            x: array of shape (d * k, ...) for d destinations; block i goes to destination i. The shape and dtype of a
                block are equal on neighbours.
            out: array of shape (s * k, ...) for s sources. A rank that has sources and no destinations needs it.
            async_op: return a `Work` at once.

        Returns:
            The result, as from `all_gather`.

        Raises:
            ValueError: axis 0 of `x` is not a multiple of the number of destinations, or `out` is missing.
        """
        outgoing, incoming = len(self.destinations), len(self.sources)
        with self._comm._dispatcher.checking("graph.all_to_all") as check:
            array = as_sent(x, *check)
            view = given.as_memory(out)
            shape = _block_shape(array, outgoing, incoming, view, *check)
            if view is not None:
                given.as_output(view, whole_shape(shape, incoming), array.dtype, *check)
        return self._move_equal(
            "all_to_all", array, cut(array, outgoing) if outgoing else [], shape, out, view, async_op
        )

    @overload
    def all_gather_v(self, x: ArrayLike, *, async_op: Literal[False] = ...) -> tuple[Array, Array]: ...
    @overload
    def all_gather_v(self, x: ArrayLike, *, async_op: Literal[True]) -> Work[tuple[Array, Array]]: ...
    def all_gather_v(self, x: ArrayLike, *, async_op: bool = False) -> Any:
        """Send an array to all destinations, and collect those of all sources, of any lengths.

        Args:
            x: array of any shape, which may differ between ranks; the dtype is equal on neighbours.
            async_op: return a `Work` at once.

        Returns:
            (result, receive counts): the flattened arrays of all sources, one after the other, and the number of
            elements of each, 0 for a source that is None.
        """
        with self._comm._dispatcher.checking("graph.all_gather_v") as check:
            array = as_sent(x, *check)
        return self._move_counted("all_gather_v", array, [array] * len(self.destinations), async_op)

    @overload
    def all_to_all_v(
        self, x: ArrayLike, send_counts: Counts, *, async_op: Literal[False] = ...
    ) -> tuple[Array, Array]: ...
    @overload
    def all_to_all_v(
        self, x: ArrayLike, send_counts: Counts, *, async_op: Literal[True]
    ) -> Work[tuple[Array, Array]]: ...
    def all_to_all_v(self, x: ArrayLike, send_counts: Counts, *, async_op: bool = False) -> Any:
        """Send a block of any length to each destination, and collect the blocks of all sources.

        Args:
            x: array of any shape; the dtype is equal on neighbours.
            send_counts: how many elements of the flattened `x` go to each destination, one after the other. Together
                they are all of `x`.
            async_op: return a `Work` at once.

        Returns:
            The result and the receive counts, as from `all_gather_v`.

        Raises:
            TypeError: the counts are not integers.
            ValueError: there is not one count for each destination, or they do not add up to the size of `x`.
        """
        with self._comm._dispatcher.checking("graph.all_to_all_v") as check:
            array = as_sent(x, *check)
            counts = _as_counts(send_counts, len(self.destinations), array.size, *check)
        ends = np.cumsum(counts).tolist()
        blocks = [array.reshape(-1)[end - n : end] for n, end in zip(counts, ends, strict=True)]
        return self._move_counted("all_to_all_v", array, blocks, async_op)

    def close(self) -> None:
        """Close the graph's own communicator; see `Communicator.close`. Not a collective."""
        self._comm.close()

    def __enter__(self) -> Self:
        self._comm.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- how ----------------------------------------------------------------------------------------------------------

    def _move_equal(
        self,
        kind: str,
        array: np.ndarray,
        blocks: list[np.ndarray],
        shape: tuple[int, ...],
        out: Any,
        view: np.ndarray | None,
        later: bool,
    ) -> Any:
        """Receive blocks of one shape side by side: in `view`, which shows the memory of `out`, or in a new array."""
        incoming, name = len(self.sources), self._comm._dispatcher.group.name
        if view is None:
            place = np.zeros(whole_shape(shape, incoming), array.dtype)
        elif is_in_place(view) and not given.overlap(array, view):
            place = view
        else:
            place = np.array(view, order="C", subok=False)

        def finish(received: list[np.ndarray | None]) -> Any:
            for source, block in zip(self.sources, received, strict=True):
                if source is not None and block is not None and block.size != place.size // incoming:
                    raise ValueError(
                        f"rank {name(source)} has sent {block.size} elements in place of {place.size // incoming}"
                    )
            result = deliver(place, view)
            return out if result is view and view is not None else result

        targets = cut(place, incoming) if incoming else []
        return self._move(kind, blocks, targets, finish, later)

    def _move_counted(self, kind: str, array: np.ndarray, blocks: list[np.ndarray], later: bool) -> Any:
        name = self._comm._dispatcher.group.name

        def finish(received: list[np.ndarray | None]) -> Any:
            parts = [array[:0].reshape(-1) if block is None else block.reshape(-1) for block in received]
            for source, part in zip(self.sources, parts, strict=True):
                if source is not None and part.dtype != array.dtype:
                    raise TypeError(f"rank {name(source)} has sent {part.dtype} in place of {array.dtype}")
            counts = np.array([part.size for part in parts], np.int64)
            return np.concatenate(parts) if parts else np.empty(0, array.dtype), counts

        return self._move(kind, blocks, [None] * len(self.sources), finish, later)

    def _move(
        self,
        kind: str,
        blocks: Sequence[np.ndarray],
        targets: Sequence[np.ndarray | None],
        finish: Callable[[list[np.ndarray | None]], Any],
        later: bool,
    ) -> Any:
        """Send a block along each edge out of this rank, and receive one along each edge into it."""
        number, comm = GRAPH_CALLS.index(kind), self._comm
        receives = [
            Recv(target, source, edge * len(GRAPH_CALLS) + number)
            for target, source, edge in zip(targets, *self._incoming, strict=True)
            if source is not None
        ]
        sends = [
            Send(block, destination, edge * len(GRAPH_CALLS) + number)
            for block, destination, edge in zip(blocks, *self._outgoing, strict=True)
            if destination is not None
        ]

        def finish_all(results: list[Any]) -> Any:
            arrays = iter(results)
            return finish([None if source is None else next(arrays)[0] for source in self.sources])

        def begin() -> tuple[list[Work[Any]], Work[Any]]:
            works = comm.batch([*receives, *sends])
            return works, _NeighbourWork(comm, f"graph.{kind}", works, finish_all)

        def make() -> Any:
            if all(one.x.nbytes <= PART_BYTES for one in sends):  # type: ignore[union-attr]
                with _ending(comm, f"graph.{kind}"):
                    for send in sends:
                        comm.send(*send)
                    return finish_all([comm.recv(*receive) for receive in receives])
            works, work = begin()
            try:
                return work.wait()
            except BaseException:  # after an interrupt nothing may be written into the result
                for one in works:
                    if isinstance(one, PostedReceive) and not one.done():
                        leave(comm._dispatcher, one, "recv")
                raise

        made = comm._dispatcher.worker.alone(f"graph.{kind}", begin if later else make)
        return made[1] if later else made


class _NeighbourWork(Joined):
    """The handle of a neighbour collective."""

    def __init__(self, comm: Communicator, operation: str, works: list[Work[Any]], finish: Callable[[list[Any]], Any]):
        self._comm, self._operation = comm, operation
        super().__init__(comm._dispatcher, works, finish)

    def _outcome(self) -> Any:
        with _ending(self._comm, self._operation):
            return super()._outcome()


@contextmanager
def _ending(comm: Communicator, operation: str) -> Iterator[None]:
    """End the group after an error that has not ended it. A message that does not fit stays, and a message without
    memory is missing. Both would be mixed up with the messages of the next call."""
    try:
        yield
    except Cancelled:
        raise
    except Exception as error:
        is_misfit = isinstance(error, (TypeError, ValueError)) and not is_of_handler(error)
        text = f"{operation}: a neighbour's block is not as expected: {error}" if is_misfit else f"{operation}: {error}"
        if not comm._dispatcher.group.has_ended():
            comm.abort(text)
        if not is_misfit:
            raise
        raise CollectiveMismatch(f"{text} (on rank {comm._dispatcher.failures.name})") from error


def make(comm: Communicator, incoming: Links, outgoing: Links) -> Graph:
    """Return the graph of these edges, after all ranks have compared theirs."""

    def meet(parts: Parts) -> tuple[str, Graph | None]:
        told = parts.all_gather_object((incoming, outgoing))
        if text := disagreement(told, comm._dispatcher.group.names):
            return text, None
        own = comm.dup()
        try:
            own.timeout = comm.timeout
            return "", Graph(own, incoming, outgoing)
        except BaseException:  # from a signal handler: other ranks may wait in it for this one
            own.close()
            raise

    text, graph = comm._compose("graph", meet)
    if graph is None:
        raise ValueError(f"graph: {text}")
    return graph


def _block_shape(
    array: np.ndarray, outgoing: int, incoming: int, out: Any, operation: str, rank: int
) -> tuple[int, ...]:
    """Return the shape of one block, by what is sent, or else by `out`."""
    by, name, number = array, "x", outgoing
    if not outgoing and incoming:
        if not isinstance(out, np.ndarray):
            raise ValueError(f"{operation} on rank {rank}: this rank has no destinations, so pass out")
        by, name, number = out, "out", incoming
    if not by.ndim or (by.shape[0] % number if number else by.size):
        raise ValueError(
            f"{operation} on rank {rank}: axis 0 of {name}, of shape {by.shape}, must be {number} blocks of one length"
        )
    return (by.shape[0] // number if number else 0, *by.shape[1:])


def _as_counts(counts: Any, destinations: int, size: int, operation: str, rank: int) -> list[int]:
    if isinstance(counts, str) or not isinstance(counts, Iterable):
        raise TypeError(f"{operation} on rank {rank}: send_counts must be a sequence of integers, got {shown(counts)}")
    listed = [given.as_index(count, "send_counts", operation, rank) for count in counts]
    if len(listed) != destinations or min(listed, default=0) < 0 or sum(listed) != size:
        raise ValueError(
            f"{operation} on rank {rank}: send_counts {listed} must be {destinations} counts, one for each "
            f"destination, that add up to the {size} elements of x"
        )
    return listed
