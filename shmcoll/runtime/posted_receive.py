"""One posted receive, which is also the user's handle.

The fate of a receive is decided once, by `dict.setdefault`, which is one step:

    free         it is in the list, and may be tried
    withdrawn    by `cancel`, in any thread and without a turn. It takes no message any more. The next turn removes it
    taken        before the first byte of its message is read. From then on `cancel` is refused

So a withdrawn receive has taken no message and no part of one. The message stays for the next receive that it fits.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from shmcoll.diagnostics.call_site import Site
from shmcoll.engine.layout import ANY
from shmcoll.engine.messages.ring_buffers import ARRAY, PART_BYTES, WHOLE
from shmcoll.errors import Cancelled
from shmcoll.runtime import waiting
from shmcoll.runtime.work import Work, Worker

Finish = Callable[[np.ndarray, int], Any]

_TAKEN, _WITHDRAWN = "taken", "withdrawn"


class PostedReceive(Work[Any]):
    """A receive that has been posted.

    operation: the method that the user has called. place: the array to read the message into, or None. deadline: the
    time of `time.monotonic` from which the receive is late. finish: makes the user's result from the array that holds
    the message and from the status of the routine.
    """

    is_receive = True
    has_other_ways = False  # whether its message may also arrive in a way that these posted receives do not know

    def __init__(
        self,
        worker: Worker,
        site: Site | None,
        operation: str,
        place: np.ndarray | None,
        source: int,
        tag: int,
        deadline: float,
        finish: Finish,
    ):
        super().__init__(worker, site)
        self.operation = operation
        self.place = place
        self.source = source
        self.wanted = source, tag, WHOLE if operation == "recv_object" else ARRAY  # as the routine takes them
        self.deadline = deadline
        self.finish = finish
        self._fate: dict[str, str] = {}

    @property
    def is_withdrawn(self) -> bool:
        return self._fate.get("is") == _WITHDRAWN

    def fits(self, source: int, tag: int) -> bool:
        wanted_source, wanted_tag, _ = self.wanted
        return wanted_source in (ANY, source) and wanted_tag in (ANY, tag) and not self.is_withdrawn

    def take(self) -> bool:
        """Mark the receive as taken. Called in a turn. Returns whether it may read a message."""
        return self._fate.setdefault("is", _TAKEN) == _TAKEN

    def free(self) -> None:
        """Make the receive free again, because the sender has taken its message back. Called in a turn."""
        self._fate.clear()

    def _help(self) -> None:
        """Do what this thread can do at once. A short message that another thread reads is as good as received: the
        program may know from its synchronous sender that it has been taken."""
        super()._help()
        is_short = self.place is not None and self.place.nbytes <= PART_BYTES
        if is_short and self._fate.get("is") == _TAKEN:
            self._latch.wait(waiting.READING)

    def cancel(self) -> bool:
        """See `Work.cancel`."""
        self._worker.check_rank("cancel")
        if not self.done() and self.withdraw():
            self._worker.wake()  # it removes the receive from the list
        return self._is_cancelled

    def withdraw(self) -> bool:
        """Withdraw the receive. Returns False if it has been taken."""
        if self._fate.setdefault("is", _WITHDRAWN) != _WITHDRAWN:
            return False
        self.settle(Cancelled(f"{self.operation}: this receive was withdrawn before its message arrived"))
        return True
