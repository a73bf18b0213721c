"""The thresholds of a job: up to which length each algorithm is used. The process that makes the arena reads them once.

They come from the environment (SHMCOLL_FLAT_BYTES and so on), else from what `shmbench tune` has measured on this
machine, else from here. The measurements are stored in files beside the compiled code, one for each kind of machine:

    {"machine": {...}, "thresholds": {"2": {"flat_bytes": 65536}, "8": {}}}      ranks, and what differs from here

A file that is damaged, is from another machine, or may have been written by others is reported in a line and ignored.

    SHMCOLL_TUNING=0     ignore the files without a message
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from shmcoll.engine import layout
from shmcoll.engine.memory.available_memory import amount
from shmcoll.engine.system import log, processor, trusted_files
from shmcoll.engine.system.cache_dir import cache_folder
from shmcoll.engine.system.caches import last_level_caches
from shmcoll.engine.system.cores import usable_cores
from shmcoll.engine.system.handlers import reraise_of_handler
from shmcoll.engine.system.text import to_bytes

# No bit of a result depends on them
TUNED = ("flat_bytes", "ring_bytes", "stream_bytes", "exchange_bytes", "direct_bytes")
MOST = 1 << 40

CACHED_PART = 2
CORE_SHARE = 16 << 20  # of a last-level cache, at most: a virtual machine sees all of one that it shares with others
LEAST_STREAMED = 256 << 10  # shorter results were not measured

Measured = dict[int, dict[str, int]]  # by the number of ranks


class Thresholds(NamedTuple):
    """The thresholds in bytes. `layout.py` describes each of them, at the words of the job page."""

    flat_bytes: int = 8 << 10
    slice_bytes: int = 128 << 10
    stream_bytes: int = 2 << 20
    ring_bytes: int = 8 << 10
    direct_bytes: int = 4 << 20
    shared_bytes: int = 16 << 10
    exchange_bytes: int = 4 << 20


#: the words of the job page that have them, in the order of the fields
WORDS = tuple(getattr(layout, f"JOB_{name.upper()}") for name in Thresholds._fields)


def defaults(ranks: int, cores: int) -> Thresholds:
    """Return the thresholds for a machine without measurements. With more ranks than cores, a sync waits for ranks that
    may have to get a core first. Then algorithms with few syncs are faster up to larger sizes. And one copy by the
    kernel, which needs fewer syncs than cells, is faster from shorter arrays on."""
    usual = Thresholds(stream_bytes=_stream_bytes(ranks, cores, last_level_caches()))
    if ranks <= cores:
        return usual
    return usual._replace(flat_bytes=32 << 10, ring_bytes=48 << 10, direct_bytes=256 << 10, exchange_bytes=256 << 10)


def _stream_bytes(ranks: int, cores: int, caches: list[int]) -> int:
    """Return from which length on a result is streamed: the results of all ranks together are `CACHED_PART` of the
    last-level caches that so many ranks use. `engine/protocol/nontemporal.py` says why."""
    if not caches:
        return Thresholds().stream_bytes
    available = min(min(len(caches), ranks) * min(caches), cores * CORE_SHARE)
    return max(LEAST_STREAMED, available // (CACHED_PART * ranks))


def of_job(ranks: int, cores: int) -> Thresholds:
    """Return the thresholds of a job that starts now. Raises `ValueError` for a variable that is not a number of
    bytes."""
    wanted = ranks > 1 and os.environ.get("SHMCOLL_TUNING") != "0"
    found = defaults(ranks, cores)._replace(**known().get(ranks, {}) if wanted else {})
    return Thresholds(**{name: _setting(f"SHMCOLL_{name.upper()}", value) for name, value in found._asdict().items()})


def _setting(name: str, default: int) -> int:
    given = os.environ.get(name)
    value = amount(given) if given else default
    if not 0 < value <= MOST:
        raise ValueError(f"{name}={given!r} is not an amount of memory up to 1T; give one like 65536, 64K or 2M")
    if name == "SHMCOLL_SLICE_BYTES" and value < layout.LINE:
        raise ValueError(f"{name}={value} is less than the shortest slice; give {layout.LINE} or more bytes")
    return layout.align(value, layout.LINE)


# --- what has been measured -------------------------------------------------------------------------------------------


def known() -> Measured:
    """Return what has been measured on this machine, as far as it can be trusted."""
    try:
        path = tuning_file()
    except OSError as e:
        reraise_of_handler(e)
        return {}  # a process that compiles will report it
    try:
        return _read(path)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        reraise_of_handler(e)
        reason = e if isinstance(e, (PermissionError, Foreign)) else f"it is damaged ({type(e).__name__})"
        log.warning(f"ignored {path}: {reason}; `shmbench tune` measures anew")
        return {}


class Foreign(ValueError):
    """A file that was written on another machine."""


def keep(ranks: int, values: Mapping[str, int]) -> Path:
    """Store what has been measured for this number of ranks, by rename: no process reads half a file. Raises
    `OSError`."""
    path = tuning_file()
    found = {**known(), ranks: dict(values)}
    told = {"machine": machine(), "thresholds": {str(n): found[n] for n in sorted(found)}}
    trusted_files.write(path, to_bytes(json.dumps(told, indent=1)))
    return path


def forget() -> bool:
    """Remove the file. Returns whether there was one."""
    with contextlib.suppress(FileNotFoundError):
        tuning_file().unlink()
        return True
    return False


def tuning_file() -> Path:
    """Return the file for what is measured on this machine. Raises `OSError` if nothing can be stored."""
    name = hashlib.sha256(to_bytes(repr(sorted(machine().items())))).hexdigest()[:16]
    return cache_folder() / f"tuning-{name}.json"


def machine() -> dict[str, Any]:
    """Return what the thresholds depend on: the processor, how many of its cores we may use, and the layout of the
    arena."""
    return {"processor": _processor(), "cores": usable_cores(), "layout": layout.VERSION}


def _processor() -> str:
    """Return what the system reports about the first core, except for what changes with time."""
    names = ("model name", "CPU implementer", "CPU part")
    return " ".join(value for name, value in processor.first_core().items() if name in names)


def _read(path: Path) -> Measured:
    told = json.loads(trusted_files.read(path))
    if told["machine"] != machine():
        raise Foreign(f"it was measured on {told['machine']}")
    return {
        int(ranks): {name: _checked(name, v) for name, v in found.items()}
        for ranks, found in told["thresholds"].items()
    }


def _checked(name: str, value: Any) -> int:
    if name not in TUNED or type(value) is not int or not 0 < value <= MOST:
        raise ValueError(f"{name}: {value!r}")
    return value
