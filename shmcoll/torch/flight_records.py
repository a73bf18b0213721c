"""The flight recorder as files that torch's own analyser reads: `torchfrtrace FOLDER`.

Ranks write their last operations into shared memory (`engine/protocol/flight_recorder.py`). So one rank writes the
files of all ranks, also of those that have stopped or died. It writes the groups that it belongs to.
`diagnostics/torch_trace.py` has the form of the files.
"""

from collections.abc import Iterator
from pathlib import Path

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from shmcoll.diagnostics.torch_trace import Traced, traces
from shmcoll.torch.group import backend_of


def write_flight_records(folder: str | Path) -> list[Path]:
    """Write the last operations of all ranks, for torch's analyser: `torchfrtrace FOLDER`. Not a collective.

    One rank calls it, for example after an error or in a watchdog thread. It writes the groups of this backend that
    the rank belongs to. The analyser shows the operations as those of "gloo", because it knows no other backends.

    Args:
        folder: where to write a file for each rank, `rank_0` and so on; it is made if it does not exist.

    Returns:
        The files, in the order of the ranks.

    Raises:
        TypeError: the default group is not one of this backend.
        OSError: a file cannot be written.

    Example:
        >>> try:
        ...     dist.all_reduce(x)
        ... except dist.DistBackendError:
        ...     shmcoll.torch.write_flight_records("/tmp/records")
        ...     raise
    """
    backend_of(None, "write_flight_records")
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    files = []
    for rank, contents in traces(range(dist.get_world_size()), list(_groups())).items():
        files.append(path / f"rank_{rank}")
        files[-1].write_bytes(contents)
    return files


def _groups() -> Iterator[Traced]:
    """Return the torch groups of this rank that have this backend."""
    for group, name in c10d._world.pg_names.items():
        try:
            backend = backend_of(group, "")
        except TypeError:
            continue
        yield name, group.group_desc, c10d.get_process_group_ranks(group), backend.comm._dispatcher.group


__all__ = ["write_flight_records"]
