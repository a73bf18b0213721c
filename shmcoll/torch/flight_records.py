"""The flight recorder as files that torch's own analyser reads: `torchfrtrace FOLDER`.

Ranks write their last operations into shared memory (`engine/protocol/flight_recorder.py`). So one rank writes the
files of all ranks, also of those that have stopped or died. It writes the groups that it belongs to.

The analyser knows a fixed list of backends, and this one is not in it: operations are written as those of "gloo". An
operation that torch does not have is written as "coalesced". Messages are not recorded.

The recorder keeps a few operations of each rank, and the number of elements that a rank passes, not the shape. A rank
may have begun more operations than another one. So operations that not all ranks have any more are left out, else the
analyser would look for their counterparts.

Source: `torch/distributed/flight_recorder/components` of torch 2.13, for version 2.10 of the format.
"""

import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from shmcoll.collectives import OPERATION_NAMES
from shmcoll.diagnostics.flight_log import FlightRecord, flights
from shmcoll.engine import layout
from shmcoll.engine.kernels.dtypes import BY_CODE
from shmcoll.torch.group import Group, backend_of

_VERSION = "2.10"
_BACKEND = "gloo"  # as the analyser knows it
_UNKNOWN: list[int] = []  # a size that the analyser does not compare

#: torch's names of operations, where they are others
_NAMES = {
    "all_to_all_v": "all_to_all",
    "gather_v": "gather",
    "scatter_v": "scatter",
    "all_gather_v": "all_gather",
    "reduce_scatter_v": "reduce_scatter",
}
_KNOWN = frozenset(
    {"all_reduce", "all_gather", "all_to_all", "barrier", "broadcast", "gather", "reduce", "reduce_scatter", "scatter"}
)


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
    records: dict[int, list[dict[str, Any]]] = {rank: [] for rank in range(dist.get_world_size())}
    groups: dict[int, dict[str, Any]] = {rank: {} for rank in records}
    for number, (group, name) in enumerate(_groups()):
        ranks = c10d.get_process_group_ranks(group)
        desc = group.group_desc
        for rank, entries in zip(ranks, _entries(backend_of(group, "write_flight_records")), strict=True):
            groups[rank][name] = {"name": name, "desc": desc, "ranks": str(ranks)}
            records[rank] += [{"pg_id": number, "process_group": (name, desc)} | entry for entry in entries]
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    files = []
    for rank, entries in records.items():
        entries.sort(key=lambda entry: entry["time_created_ns"])
        numbered = [{"record_id": i} | entry for i, entry in enumerate(entries)]
        files.append(path / f"rank_{rank}")
        files[-1].write_bytes(pickle.dumps({"version": _VERSION, "pg_config": groups[rank], "entries": numbered}))
    return files


def _groups() -> Iterator[tuple[Any, str]]:
    """Return the torch groups of this rank that have this backend, with their names."""
    for group, name in c10d._world.pg_names.items():
        try:
            backend_of(group, "")
        except TypeError:
            continue
        yield group, name


def _entries(group: Group) -> list[list[dict[str, Any]]]:
    """Return the entries of each rank of a group."""
    region = group.comm._dispatcher.group
    found = [flights(region, rank) for rank in range(region.size)]
    first = max((records[0].sequence for records in found if records), default=0)
    return [[_entry(one, region.size) for one in records if one.sequence >= first] for records in found]


def _entry(record: FlightRecord, ranks: int) -> dict[str, Any]:
    code = layout.call_operation(record.call)
    own = OPERATION_NAMES[code] if 0 < code < len(OPERATION_NAMES) else ""
    name = _NAMES.get(own, own)
    if name not in _KNOWN or layout.call_composite(record.call):
        name = "coalesced"
    dtype = BY_CODE.get(layout.call_dtype(record.call))
    dtypes = [dtype.title] if dtype and own in _KNOWN else []
    given, made = _sizes(own, record.count, ranks) if dtypes else (_UNKNOWN, _UNKNOWN)
    created = time.time_ns() - time.monotonic_ns() + record.started
    return {
        "collective_seq_id": record.sequence,
        "p2p_seq_id": 0,
        "op_id": record.sequence,
        "is_p2p": False,
        "profiling_name": f"{_BACKEND}:{name}",
        "time_created_ns": created,
        "input_sizes": [given],
        "input_dtypes": dtypes,
        "output_sizes": [made],
        "output_dtypes": dtypes,
        "state": "started" if record.flying else "completed",
        "time_discovered_started_ns": created,
        "time_discovered_completed_ns": None if record.flying else created,
        "retired": not record.flying,
        "frames": [],
    }


def _sizes(operation: str, count: int, ranks: int) -> tuple[list[int], list[int]]:
    """Return the sizes of the input and the output of a call with an input of `count` elements."""
    if operation in ("all_gather", "gather"):
        return [count], [count * ranks]
    if operation == "reduce_scatter":
        return [count], [count // ranks]
    if operation == "scatter":  # only the root has an input
        return _UNKNOWN, _UNKNOWN
    return [count], [count]


__all__ = ["write_flight_records"]
