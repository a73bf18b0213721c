"""The flight recorder in the form that torch's own analyser reads: `torchfrtrace FOLDER`. Needs no torch.

The analyser knows a fixed list of backends, and ours is not in it: operations are written as those of "gloo". An
operation that torch does not have is written as "coalesced". Messages are not recorded.

The recorder keeps a few operations of each rank, and the number of elements that a rank passes, not the shape. A rank
may have begun more operations than another one. So operations that not all ranks have any more are left out, else the
analyser would look for their counterparts.

Source: `torch/distributed/flight_recorder/components` of torch 2.13, for version 2.10 of the format.
"""

import pickle
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from shmcoll.collectives import OPERATION_NAMES
from shmcoll.diagnostics.flight_log import FlightRecord, flights
from shmcoll.engine import layout
from shmcoll.engine.kernels.dtypes import BY_CODE
from shmcoll.engine.memory.group import Group

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
_FRAME = re.compile(r"(.*):(\d+) in (.*)")

#: a group as the analyser knows it: its name, its description, its ranks by their numbers in the job, and its region
Traced = tuple[str, str, Sequence[int], Group]


def traces(
    ranks: Sequence[int], groups: Sequence[Traced], stacks: Mapping[int, Sequence[str]] | None = None
) -> dict[int, bytes]:
    """Return the contents of the file of each rank, `rank_0` and so on.

    Args:
        ranks: those of the job that have a file.
        groups: the groups to write.
        stacks: where ranks are, as lines 'job.py:3 in step': the frames of the operations that they are in.
    """
    entries: dict[int, list[dict[str, Any]]] = {rank: [] for rank in ranks}
    configured: dict[int, dict[str, Any]] = {rank: {} for rank in ranks}
    for number, (name, desc, members, region) in enumerate(groups):
        for rank, found in zip(members, _entries(region), strict=True):
            configured[rank][name] = {"name": name, "desc": desc, "ranks": str(list(members))}
            entries[rank] += [{"pg_id": number, "process_group": (name, desc)} | entry for entry in found]
    contents = {}
    for rank, found in entries.items():
        found.sort(key=lambda entry: entry["time_created_ns"])
        for entry in found:
            if not entry["retired"]:
                entry["frames"] = _frames((stacks or {}).get(rank, ()))
        numbered = [{"record_id": i} | entry for i, entry in enumerate(found)]
        contents[rank] = pickle.dumps({"version": _VERSION, "pg_config": configured[rank], "entries": numbered})
    return contents


def _entries(region: Group) -> list[list[dict[str, Any]]]:
    """Return the entries of each rank of a group."""
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


def _frames(stack: Sequence[str]) -> list[dict[str, Any]]:
    matches = filter(None, map(_FRAME.fullmatch, stack))
    return [{"filename": match[1], "line": int(match[2]), "name": match[3]} for match in matches]
