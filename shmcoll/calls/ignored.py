"""The arguments that only the root of a call needs. Elsewhere they are ignored, so all ranks can pass the same."""

from typing import Any

from shmcoll.collectives import RECORDS
from shmcoll.engine.collective import NO_OUT_AT_0, OUT_AT_ROOT, X_AT_ROOT

_SENT, _RECEIVED = ("x", "send_counts", "send_displs"), ("out", "recv_counts", "recv_displs")


def ignored(operation: str, rank: int, root: Any) -> tuple[str, ...]:
    """Return the names of the arguments that a collective ignores on a rank."""
    form = RECORDS[operation].form if operation in RECORDS else 0
    if form & X_AT_ROOT and rank != root:
        return _SENT
    return _RECEIVED if (form & OUT_AT_ROOT and rank != root) or (form & NO_OUT_AT_0 and rank == 0) else ()
