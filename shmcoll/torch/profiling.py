"""Events of calls in torch's profiler, by the names that gloo has: "shmcoll:all_reduce".

The event of an asynchronous call begins where the program makes the call, and ends with its future. Shapes are recorded
for blocking calls only.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import profiler

#: operations that share the name of another one
_NAMES = {
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_to_all_single": "all_to_all",
}


def is_on() -> bool:
    """Return whether a profiler runs."""
    return profiler._is_profiler_enabled


def recorded(operation: str, tensors: Sequence[torch.Tensor], call: Callable[[], Any]) -> Any:
    """Make a blocking call, and return its result."""
    with torch._C._profiler._RecordFunctionFast(_name(operation), list(tensors)):
        return call()


def begun(operation: str, submit: Callable[[], Any]) -> Any:
    """Submit an asynchronous call, and return its handle."""
    event = profiler.record_function(_name(operation))
    event.__enter__()
    handle = submit()
    event._call_end_callbacks_on_future(handle.future())
    return handle


def _name(operation: str) -> str:
    return f"shmcoll:{_NAMES.get(operation, operation)}"


__all__ = ["begun", "is_on", "recorded"]
