"""One file a collective, or end of a message: what it does, its algorithm and cost, and the routine.

A routine is a function of one argument, the address of this rank's context, and returns a status of `context.py`. It
is plain Python that `engine/compiler/compile.py` compiles; it works on addresses and byte counts, allocates nothing and
raises nothing. In the cost formulas n is the number of ranks, S the bytes of one rank's array, a the time of one sync
(a cache line there and back), b the time to copy one byte, g the time to reduce one.
"""

from importlib import import_module
from pathlib import Path

from shmcoll.engine.collective import Collective
from shmcoll.engine.messages import recv, send


def _records() -> dict[str, Collective]:
    """Return the records of all files of this folder, and of send and recv, by name in the order of their codes."""
    names = [path.stem for path in Path(__file__).parent.glob("*.py") if path.stem != "__init__"]
    files = [import_module(f"{__name__}.{name}") for name in names]
    found = [file.COLLECTIVE for file in (*files, send, recv) if hasattr(file, "COLLECTIVE")]
    return {record.name: record for record in sorted(found, key=lambda record: record.code)}


RECORDS = _records()
ROUTINES = {name: record.routine for name, record in RECORDS.items()}
OPERATION_NAMES = ("", *RECORDS)  # by code


def record_of(code: int) -> Collective | None:
    """Return the record of an operation that a header or a context describes; None for a code that nobody has."""
    return RECORDS[OPERATION_NAMES[code]] if 0 < code < len(OPERATION_NAMES) else None
