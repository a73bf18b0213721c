"""Posted receives of a group over nodes. A receive is in the list of the way that its message comes on.

    from a rank of this node      the list of the group for messages within the node (`within.py`)
    from a rank of another node   the list of `matching.py`
    from ANY                      both: it is a receive in the latter, and has a half in the former

The fate of a receive from ANY is decided once, as that of every other (`runtime/posted_receive.py`), in one dict that
both share. Its value says on which way a message has been found. The other list then counts the receive as withdrawn,
and gives the next message to the next receive. Each list keeps its order, so of two receives that fit, the first gets
the first message, whichever way it comes. The half has no limit of its own, and it does not fail because all other
ranks of the node have left: only the whole receive is late.
"""

import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.diagnostics.call_site import here
from shmcoll.engine.layout import ANY, LARGEST_TAG
from shmcoll.engine.messages.ring_buffers import SOURCE_SHIFT
from shmcoll.runtime.posted_receive import Finish, PostedReceive

if TYPE_CHECKING:
    from shmcoll.nodes.interfaces import NodesDispatcher
    from shmcoll.nodes.point_to_point.far_messages import FarMessages

_FATE, _HERE = "is", "taken within the node"


class PostedReceives:
    """The posted receives as `calls/` know them. They are never empty, so `calls/` post each receive."""

    def __init__(self, dispatcher: "NodesDispatcher", far: "FarMessages"):
        self._dispatcher = dispatcher
        self._far = far

    def is_empty(self) -> bool:
        return False

    def make(self, operation: str, place: np.ndarray | None, source: int, tag: int, finish: Finish) -> PostedReceive:
        """Make a receive, to be put into the lists by `enter`."""
        d = self._dispatcher
        if source == ANY:
            return ReceiveFromAny(d, operation, place, tag, finish)
        index = d.index_here(source)
        if index is not None:
            within = d.within._dispatcher
            return within.posted.make(operation, place, index, tag, _renumbered(finish, d.topology.local))
        return PostedReceive(d.worker, here(), operation, place, source, tag, time.monotonic() + d.timeout, finish)

    def enter(self, *receives: PostedReceive, is_first: bool = False) -> None:
        """Post receives, those within the node `is_first` before all others. After an exception they are withdrawn,
        because the user has no handles."""
        d = self._dispatcher
        try:
            d.check_open(receives[0].operation)
            d.failures.raise_if_ended(receives[0].operation)
            by_mpi = [one for one in receives if one._worker is d.worker]
            if by_mpi:
                self._far.enter(by_mpi)
            halves = [one.half if isinstance(one, ReceiveFromAny) else one for one in receives]
            within = [one for one in halves if one._worker is not d.worker and not one.is_withdrawn]
            if within:
                d.within._dispatcher.posted.enter(*within, is_first=is_first)
        except BaseException:
            for receive in receives:
                receive.withdraw()
            raise

    def wait(self, one: PostedReceive) -> Any:
        """Wait for a receive that only this thread knows of, and return its result."""
        d = self._dispatcher
        return one.wait() if one._worker is d.worker else d.within._dispatcher.posted.wait(one)

    def wants(self, source: int, tag: int) -> bool:
        """Return whether a posted receive fits a message."""
        index = self._dispatcher.index_here(source)
        if index is None:
            return self._far.wants(source, tag)
        return self._dispatcher.within._dispatcher.posted.wants(index, tag)


class ReceiveFromAny(PostedReceive):
    """A posted receive of a message of any rank of the group."""

    def __init__(self, d: "NodesDispatcher", operation: str, place: np.ndarray | None, tag: int, finish: Finish):
        super().__init__(d.worker, here(), operation, place, ANY, tag, time.monotonic() + d.timeout, finish)
        self.half = _Half(self, d)

    @property
    def is_withdrawn(self) -> bool:
        return self._fate.get(_FATE) == _HERE or super().is_withdrawn

    def withdraw(self) -> bool:
        is_done = super().withdraw()
        if is_done:
            self.half._worker.wake()  # it removes the half from its list
        return is_done


class _Half(PostedReceive):
    """A receive from ANY, as the group within the node knows it."""

    has_other_ways = True

    def __init__(self, whole: ReceiveFromAny, d: "NodesDispatcher"):
        finish = _renumbered(whole.finish, d.topology.local)
        worker = d.within._dispatcher.worker
        super().__init__(worker, whole.site, whole.operation, whole.place, ANY, whole.wanted[1], math.inf, finish)
        self._whole = whole
        self._has_left = False

    @property
    def is_awaited(self) -> bool:  # type: ignore[override]
        return self._whole.is_awaited

    @property
    def is_withdrawn(self) -> bool:
        return self._has_left or self._whole._fate.get(_FATE) not in (None, _HERE)

    def take(self) -> bool:
        return not self._has_left and self._whole._fate.setdefault(_FATE, _HERE) == _HERE

    def free(self) -> None:
        self._whole._fate.clear()

    def withdraw(self) -> bool:
        """Leave the list. The whole stays posted, so nothing of it is withdrawn."""
        self._has_left = True
        return False

    def settle(self, outcome: Any) -> None:
        self._whole.settle(outcome)


def _renumbered(finish: Finish, ranks: tuple[int, ...]) -> Finish:
    """Return what makes the result of a message from a rank of the node: it has these numbers in the group."""

    def finish_here(array: np.ndarray, status: int) -> Any:
        source, tag = -1 - status >> SOURCE_SHIFT, -1 - status & LARGEST_TAG
        return finish(array, -1 - (ranks[source] << SOURCE_SHIFT | tag))

    return finish_here


__all__ = ["PostedReceives", "ReceiveFromAny"]
