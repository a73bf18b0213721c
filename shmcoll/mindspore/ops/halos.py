"""NeighborExchangeV2: the borders of an image to the neighbours, and theirs. All ranks of the group call it.

The steps of a call follow from the settings, the shape of the input and the size of the group. They are computed once,
and kept until the shape or the size changes.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from shmcoll.mindspore.communication import GlobalComm, communicator, get_group_size
from shmcoll.mindspore.ops.checks import check_rank_ids
from shmcoll.mindspore.ops.exchange import Plan, exchange
from shmcoll.mindspore.ops.primitive import Collective

NO_RANK = -1
TOP, BOTTOM, LEFT, RIGHT, MIDDLE = "top", "bottom", "left", "right", "middle"
DIRECTIONS = (
    (TOP, MIDDLE), (TOP, RIGHT), (MIDDLE, RIGHT), (BOTTOM, RIGHT),
    (BOTTOM, MIDDLE), (BOTTOM, LEFT), (MIDDLE, LEFT), (TOP, LEFT),
)  # fmt: skip


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
        self._known: _Steps | None = None

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

    def _steps(self, x: np.ndarray, size: int) -> "_Steps":
        """Return the steps for an input, in a group of `size` ranks."""
        known = self._known
        if known is None or known.shape != x.shape or known.plan.size != size:
            self._check(x)
            known = self._known = self._steps_for(x.shape, size)
        return known

    def _steps_for(self, shape: tuple[int, ...], size: int) -> "_Steps":
        """Return the steps for an input of a shape that has been checked."""
        raise NotImplementedError

    def _sides(self, image: tuple[int, ...], whole: tuple[int, ...]) -> tuple["_Side", "_Side", Any]:
        """Return what goes out of an image and what comes into it with its borders, and where the image is there.

        Args:
            image: the shape of an image.
            whole: that of the same image with borders.
        """
        top, bottom, left, right = self.recv_lens
        inner = np.s_[:, :, top : whole[2] - bottom, left : whole[3] - right]
        if max(self.send_lens[:2]) > image[2] or max(self.send_lens[2:]) > image[3]:
            raise ValueError(
                f"For '{self.name}', the 'send_lens' {self.send_lens} are more than the image {image} has."
            )
        sent = _side(self.send_rank_ids, self.send_lens, image, (slice(None), slice(None)))
        return sent, _side(self.recv_rank_ids, self.recv_lens, whole, inner[2:]), inner


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

    def _steps_for(self, shape: tuple[int, ...], size: int) -> "_Steps":
        top, bottom, left, right = self.recv_lens
        whole = (*shape[:2], shape[2] + top + bottom, shape[3] + left + right)
        sent, received, inner = self._sides(shape, whole)
        plan = Plan.of(size, sent.shapes(shape), received.shapes(whole))
        return _Steps(shape, whole, inner, sent.parts, received.parts, plan)

    def _forward(self, x: np.ndarray) -> Any:
        comm = communicator(self.group)
        steps = self._steps(x, comm.size)
        whole = np.zeros(steps.result, x.dtype)
        whole[steps.inner] = x
        borders = exchange(comm, steps.plan, [x[part] for part in steps.sent], x.dtype)
        for part, border in zip(steps.received, borders, strict=True):
            whole[part] = border
        return whole


class NeighborExchangeV2Grad(Halo):
    """The transposed exchange of `NeighborExchangeV2` with the same settings: borders go back, and are added."""

    def _steps_for(self, shape: tuple[int, ...], size: int) -> "_Steps":
        top, bottom, left, right = self.recv_lens
        image = (*shape[:2], shape[2] - top - bottom, shape[3] - left - right)
        received, sent, inner = self._sides(image, shape)  # each in the other direction
        plan = Plan.of(size, sent.shapes(shape), received.shapes(image))
        return _Steps(shape, image, inner, sent.parts, received.parts, plan)

    def _forward(self, whole: np.ndarray) -> Any:
        comm = communicator(self.group)
        steps = self._steps(whole, comm.size)
        x = whole[steps.inner].copy()
        borders = exchange(comm, steps.plan, [whole[part] for part in steps.sent], x.dtype)
        for part, border in zip(steps.received, borders, strict=True):
            x[part] += border
        return x


class _Side(NamedTuple):
    """The borders that are sent or received: for each the rank at the other end, and where it is in an image."""

    ranks: list[int]
    parts: list[Any]

    def shapes(self, shape: tuple[int, ...]) -> list[tuple[int, tuple[int, ...]]]:
        """Return (rank, shape of the border) for each. shape: that of the image."""
        image = np.broadcast_to(np.int8(0), shape)
        return [(rank, image[part].shape) for rank, part in zip(self.ranks, self.parts, strict=True)]


class _Steps(NamedTuple):
    """What a call does with an input of one shape, in a group of one size."""

    shape: tuple[int, ...]  # of the input
    result: tuple[int, ...]  # the shape of the result
    inner: Any  # where the image is in the image with borders
    sent: list[Any]  # the parts of the input that are sent
    received: list[Any]  # the parts of the result that are received
    plan: Plan


def _side(ranks: Sequence[int], lengths: Sequence[int], shape: tuple[int, ...], inner: tuple[slice, ...]) -> _Side:
    """Return the borders for 8 directions. shape: that of the image; inner: what is neither of its borders' rows nor of
    their columns."""
    top, bottom, left, right = lengths
    height, width = shape[2:]
    vertical = {TOP: slice(0, top), BOTTOM: slice(height - bottom, height), MIDDLE: inner[0]}
    horizontal = {LEFT: slice(0, left), RIGHT: slice(width - right, width), MIDDLE: inner[1]}
    named = [(rank, direction) for rank, direction in zip(ranks, DIRECTIONS, strict=True) if rank != NO_RANK]
    parts = [np.s_[:, :, vertical[row], horizontal[column]] for _, (row, column) in named]
    return _Side([rank for rank, _ in named], parts)
