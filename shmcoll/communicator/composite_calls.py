"""The dispatcher of operations that are parts of one composite call: `split`, `views`, the calls for objects.

The header of each part contains the composite call and its root. So a part agrees only with the same part of the same
call on the other ranks. Error texts, the flight recorder and `shmrun inspect` name the call that the user has made.

Both are passed in an argument of each native call, above the number of the algorithm (`layout.py`). Nothing is set in
the context before a part or reset after it. So a part that waits in the queue of the worker keeps its composite call.
Calls of signal handlers between two parts do not have it. An exception leaves nothing behind.

The first part of a composite call is unlike its later ones, in its operation or in the dimensions of its array. So if a
signal handler begins the same call between two parts, all ranks find that out, too. The collectives of other threads
are refused from the first part to the last (`alone` of `runtime/turns.py`; for objects also `object_calls.py`).

A rank that leaves between two parts, by an exception of its own, has left the protocol: its peers would wait forever
for the next part. So the group ends, as it does when a single operation is left. The routines of all parts are
loaded before the first part begins: an interrupt while they are loaded leaves the group as it is.
"""

from collections.abc import Callable
from typing import Any

from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.layout import WORD
from shmcoll.errors import CallNotAllowed
from shmcoll.runtime.dispatcher import Dispatcher
from shmcoll.runtime.posted_receives import PostedReceives

#: the routines of the parts of each composite call
ROUTINES = {
    "split": ("all_gather",),
    "dup": ("all_gather",),
    "views": ("all_gather", "all_gather_v", "barrier"),
    "broadcast_object": ("broadcast",),
    "gather_object": ("all_gather", "gather", "gather_v"),
    "all_gather_object": ("all_gather", "all_gather_v"),
    "scatter_object": ("scatter", "scatter_v"),
    "all_to_all_object": ("all_to_all", "all_to_all_v"),
    "reduce_object": ("all_gather", "gather", "gather_v", "broadcast", "all_reduce"),
    "all_reduce_object": ("all_gather", "gather", "gather_v", "broadcast", "all_reduce"),
    "scan_object": ("all_gather", "gather", "gather_v", "scatter", "scatter_v"),
    "exscan_object": ("all_gather", "gather", "gather_v", "scatter", "scatter_v"),
    "graph": ("all_gather", "all_gather_v"),
    "shared all_gather": ("all_gather", "all_gather_v", "barrier"),
    "shared gather": ("all_gather", "all_gather_v", "barrier"),
    "shared broadcast": ("broadcast", "all_gather", "barrier"),
    "shared scatter": ("broadcast", "all_gather", "barrier"),
    "MPI_Finalize": ("barrier",),
}


class CompositeDispatcher(Dispatcher):
    """A dispatcher with all attributes of another one, whose calls are parts of a composite call.

    root: the root of the composite call; -1 if it has none.
    """

    def __init__(self, dispatcher: Dispatcher, call: str, root: int = -1):
        # No second context: the other dispatcher's is used
        self._dispatcher = dispatcher
        self._call = call
        self.mark = (layout.COMPOSITE_NAMES.index(call) | (root + 1) << 8) << layout.COMPOSITE_SHIFT
        # short calls read these
        self.words, self.size = dispatcher.words, dispatcher.size
        self.own_table, self.own_ends = dispatcher.own_table, dispatcher.own_ends
        self.worker = dispatcher.worker
        for name in ROUTINES[call]:
            dispatcher.routine(name)

    @property
    def posted(self) -> PostedReceives:
        return self._dispatcher.posted

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dispatcher, name)

    def routine(self, name: str) -> Callable[..., int]:
        """Return the native entry of a collective, as `Dispatcher.routine` does."""
        entry, mark = self._dispatcher.routine(name), self.mark

        def marked(
            x: Any = None,
            out: Any = None,
            reduction: int = 0,
            first: int = 0,
            second: int = 0,
            algorithm: int = 0,
            *more: Any,
        ) -> int:
            if more:
                return entry(x, out, reduction, first, second, algorithm | mark, *more)
            return entry(x, out, reduction, first, second, algorithm | mark)  # `*more` would cost 80 ns

        return marked

    def left_by(self, error: BaseException) -> None:
        """End the group after an exception in the composite call. It does nothing for errors that have ended the group
        already, that all ranks raise together, and for `CallNotAllowed`, before which nothing has happened."""
        is_harmless = isinstance(error, CallNotAllowed) or getattr(error, "is_common", False)
        if self.words[c.ACTIVE // WORD] != c.ENDED and not is_harmless:
            self.left(self._call)
