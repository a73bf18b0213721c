"""Operators that send to some ranks and receive from some: NeighborExchange, and NeighborExchangeV2 for halos.

All ranks of the group call them, also those that have no neighbours. Both make one all_to_all_v. So a length that is
not the expected one is an error on all ranks.
"""

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from shmcoll.communicator import Communicator
from shmcoll.mindspore import arrays
from shmcoll.mindspore.communication import GlobalComm, get_group_size
from shmcoll.mindspore.dtypes import as_numpy_dtype
from shmcoll.mindspore.ops import gradients
from shmcoll.mindspore.ops.checks import check_rank_ids
from shmcoll.mindspore.ops.primitive import Collective, Primitive

NO_RANK = -1
TOP, BOTTOM, LEFT, RIGHT, MIDDLE = "top", "bottom", "left", "right", "middle"
DIRECTIONS = (
    (TOP, MIDDLE), (TOP, RIGHT), (MIDDLE, RIGHT), (BOTTOM, RIGHT),
    (BOTTOM, MIDDLE), (BOTTOM, LEFT), (MIDDLE, LEFT), (TOP, LEFT),
)  # fmt: skip


class NeighborExchange(Primitive):
    """Send tensors to some ranks and receive from some: `NeighborExchange(send_rank_ids, ..., group)((input_x, ...))`.

    The call takes a tuple of tensors, one for each entry of `send_rank_ids`, and returns a tuple of new tensors, one
    for each entry of `recv_rank_ids`. All ranks of the group call it. Of several tensors between two ranks, the first
    that is sent is the first that is received.

    Args:
        send_rank_ids: the ranks in the group that the tensors go to.
        recv_rank_ids: the ranks in the group that tensors come from.
        recv_shapes: the shapes of the tensors received.
        send_shapes: the shapes of the tensors sent.
        recv_type: the type of all tensors.
        group: the name of a group.

    Raises:
        TypeError: by the call, the input is not a tuple of tensors of `recv_type`.
        ValueError: by the call, a tensor does not have its shape, or a rank does not exist. Or, on all ranks, a rank
            sends a tensor of another size than is expected from it.
        RuntimeError: by the call, there is no such group, or `communication.init` has not been called.
    """

    def __init__(
        self,
        send_rank_ids: Sequence[int],
        recv_rank_ids: Sequence[int],
        recv_shapes: Sequence[Sequence[int]],
        send_shapes: Sequence[Sequence[int]],
        recv_type: Any,
        group: str = GlobalComm.WORLD_COMM_GROUP,
    ):
        super().__init__(
            send_rank_ids=send_rank_ids,
            recv_rank_ids=recv_rank_ids,
            recv_shapes=recv_shapes,
            send_shapes=send_shapes,
            recv_type=recv_type,
            group=group,
        )
        self.send_rank_ids, self.recv_rank_ids = send_rank_ids, recv_rank_ids
        self.recv_shapes, self.send_shapes = recv_shapes, send_shapes
        self.recv_type = recv_type
        self.attrs.update(no_eliminate=True)

    def __call__(self, input_x: Any) -> tuple[Any, ...]:
        plain = self._as_arrays(input_x)
        if input_x and arrays.is_foreign(input_x[0]):
            return tuple(gradients.recorded(self, self._forward, tuple(input_x), ()))
        result = self._forward(*plain)
        return tuple(arrays.like(input_x[0], one) if input_x else arrays.new(one) for one in result)

    def _forward(self, *tensors: np.ndarray) -> tuple[np.ndarray, ...]:
        dtype = as_numpy_dtype(self.recv_type)
        shapes = [tuple(shape) for shape in self.send_shapes]
        if [x.shape for x in tensors] != shapes or len(shapes) != len(self.send_rank_ids):
            raise ValueError(
                f"For '{self.name}', the input must be {len(self.send_rank_ids)} tensors of shapes {shapes}, "
                f"but its shapes are {[x.shape for x in tensors]}."
            )
        for x in tensors:
            if x.dtype != dtype:
                raise TypeError(
                    f"For '{self.name}', the input must be of 'recv_type' {self.recv_type}, "
                    f"but got {arrays.dtype_of(x)}."
                )
        sources = zip(self.recv_rank_ids, map(tuple, self.recv_shapes), strict=True)
        return tuple(exchange(self.comm, zip(self.send_rank_ids, tensors, strict=True), sources, dtype))


class Halo(Collective):
    """The base of the exchange of halos and of its gradient: ranks and lengths by direction."""

    def __init__(
        self,
        send_rank_ids: Sequence[int],
        send_lens: Sequence[int],
        recv_rank_ids: Sequence[int],
        recv_lens: Sequence[int],
        data_format: str,
        group: str = GlobalComm.WORLD_COMM_GROUP,
    ):
        super().__init__(
            send_rank_ids=send_rank_ids,
            send_lens=send_lens,
            recv_rank_ids=recv_rank_ids,
            recv_lens=recv_lens,
            data_format=data_format,
            group=group,
        )
        self.send_rank_ids, self.recv_rank_ids = send_rank_ids, recv_rank_ids
        self.send_lens, self.recv_lens = send_lens, recv_lens
        self.data_format = self.format = data_format
        self.rank_size = get_group_size(self.group)
        check_rank_ids("send_rank_ids", send_rank_ids, self.rank_size)
        check_rank_ids("recv_rank_ids", recv_rank_ids, self.rank_size)
        self.attrs.update(no_eliminate=True)

    def _check(self, x: np.ndarray) -> None:
        for which, ranks, lengths in (
            ("send", self.send_rank_ids, self.send_lens),
            ("recv", self.recv_rank_ids, self.recv_lens),
        ):
            for argument, value, size in ((f"{which}_rank_ids", ranks, 8), (f"{which}_lens", lengths, 4)):
                if not isinstance(value, (list, tuple)):
                    raise TypeError(f"For '{self.name}', the '{argument}' must be a list, but got {value!r}.")
                if len(value) != size:
                    raise ValueError(f"For '{self.name}', the '{argument}' must have {size} entries, but got {value}.")
            named = [rank for rank in ranks if rank != NO_RANK]
            if len(set(named)) < len(named):
                raise ValueError(f"For '{self.name}', the '{which}_rank_ids' must not repeat a rank, but got {ranks}.")
            if min(lengths) < 0:
                raise ValueError(f"For '{self.name}', the '{which}_lens' must not be negative, but got {lengths}.")
        if self.data_format != "NCHW":
            raise ValueError(f"For '{self.name}', the 'data_format' must be 'NCHW', but got {self.data_format!r}.")
        if x.ndim != 4:
            raise ValueError(f"For '{self.name}', the input must have 4 dimensions, but its shape is {x.shape}.")

    def _sent(self, shape: tuple[int, ...]) -> list[tuple[int, Any]]:
        """Return (rank, part of the image) for each direction in which a rank is sent to."""
        if max(self.send_lens[:2]) > shape[2] or max(self.send_lens[2:]) > shape[3]:
            raise ValueError(
                f"For '{self.name}', the 'send_lens' {self.send_lens} are more than the image {shape} has."
            )
        return _parts(self.send_rank_ids, self.send_lens, shape, (slice(None), slice(None)))

    def _received(self, shape: tuple[int, ...]) -> list[tuple[int, Any]]:
        """Return (rank, part of the image with borders) for each direction in which a rank is received from."""
        return _parts(self.recv_rank_ids, self.recv_lens, shape, self._inner(shape)[2:])

    def _inner(self, shape: tuple[int, ...]) -> tuple[slice, ...]:
        """Return the part without borders of an image with borders."""
        top, bottom, left, right = self.recv_lens
        return np.s_[:, :, top : shape[2] - bottom, left : shape[3] - right]


class NeighborExchangeV2(Halo):
    """Exchange the borders of an image with neighbours: `NeighborExchangeV2(send_rank_ids, ..., group)(input_x)`.

    The call takes a tensor of shape (N, C, H, W) and returns a new one of shape
    (N, C, H + top + bottom, W + left + right) by the four `recv_lens`: the input, and around it the borders of the
    neighbours. A border without a neighbour is zeros. All ranks of the group call it.

    Args:
        send_rank_ids: the ranks in the group that borders go to, or -1, for 8 directions clockwise: top, top right,
            right, bottom right, bottom, bottom left, left, top left. No rank comes twice.
        send_lens: how many rows or columns go to [top, bottom, left, right].
        recv_rank_ids: the ranks in the group that borders come from, or -1, for the same directions.
        recv_lens: how many rows or columns come from [top, bottom, left, right].
        data_format: "NCHW".
        group: the name of a group.

    Raises:
        TypeError: a rank is not an integer. The call raises it for an input that is not a tensor, and if one of the
            four arguments is not a list.
        ValueError: there is no such rank. The call raises it for another format, ranks that repeat, lengths that are
            negative or longer than the image, and a tensor that does not have 4 dimensions. Or, on all ranks, for a
            border of another size than is expected.
        RuntimeError: there is no such group. Or, by the call, `communication.init` has not been called.
    """

    def _forward(self, x: np.ndarray) -> Any:
        self._check(x)
        top, bottom, left, right = self.recv_lens
        whole = np.zeros((*x.shape[:2], x.shape[2] + top + bottom, x.shape[3] + left + right), x.dtype)
        whole[self._inner(whole.shape)] = x
        parts = self._received(whole.shape)
        borders = exchange(
            self.comm,
            [(rank, x[part]) for rank, part in self._sent(x.shape)],
            [(rank, whole[part].shape) for rank, part in parts],
            x.dtype,
        )
        for (_, part), border in zip(parts, borders, strict=True):
            whole[part] = border
        return whole


class NeighborExchangeV2Grad(Halo):
    """The transposed exchange of `NeighborExchangeV2` with the same settings: borders go back, and are added."""

    def _forward(self, whole: np.ndarray) -> Any:
        self._check(whole)
        x = whole[self._inner(whole.shape)].copy()
        parts = self._sent(x.shape)
        borders = exchange(
            self.comm,
            [(rank, whole[part]) for rank, part in self._received(whole.shape)],
            [(rank, x[part].shape) for rank, part in parts],
            x.dtype,
        )
        for (_, part), border in zip(parts, borders, strict=True):
            x[part] += border
        return x


def exchange(
    comm: Communicator,
    sent: Iterable[tuple[int, np.ndarray]],
    expected: Iterable[tuple[int, tuple[int, ...]]],
    dtype: np.dtype,
) -> list[np.ndarray]:
    """Send arrays to some ranks and receive arrays of known shapes from some.

    Args:
        comm: the group; all its ranks call this.
        sent: pairs (rank, array of `dtype`).
        expected: pairs (rank, shape).
        dtype: that of all arrays.

    Returns:
        The arrays received, in the order of `expected`.

    Raises:
        ValueError: a rank does not exist. Or, on all ranks, a size is not the expected one.
    """
    outgoing, incoming = sorted(sent, key=_rank), list(expected)
    for rank in (*map(_rank, outgoing), *map(_rank, incoming)):
        if not 0 <= rank < comm.size:
            raise ValueError(f"Rank {rank} is not in the group: its ranks are 0 to {comm.size - 1}.")
    counts = np.zeros((2, comm.size), np.int64)
    for rank, x in outgoing:
        counts[0, rank] += x.size
    for rank, shape in incoming:
        counts[1, rank] += prod(shape)
    flat = np.concatenate([np.empty(0, dtype), *(x.reshape(-1) for _, x in outgoing)], dtype=dtype)
    received, _ = comm.all_to_all_v(flat, counts[0], recv_counts=counts[1])
    begins = np.cumsum(counts[1]) - counts[1]
    found = []
    for rank, shape in incoming:
        found.append(received[begins[rank] : begins[rank] + prod(shape)].reshape(shape).copy())
        begins[rank] += prod(shape)
    return found


def _rank(pair: tuple[int, Any]) -> int:
    return pair[0]


def _parts(
    ranks: Sequence[int], lengths: Sequence[int], shape: tuple[int, ...], inner: tuple[slice, ...]
) -> list[tuple[int, Any]]:
    top, bottom, left, right = lengths
    height, width = shape[2:]
    vertical = {TOP: slice(0, top), BOTTOM: slice(height - bottom, height), MIDDLE: inner[0]}
    horizontal = {LEFT: slice(0, left), RIGHT: slice(width - right, width), MIDDLE: inner[1]}
    return [
        (rank, np.s_[:, :, vertical[row], horizontal[column]])
        for rank, (row, column) in zip(ranks, DIRECTIONS, strict=True)
        if rank != NO_RANK
    ]
