"""The attributes of `RankFailed` and of the other errors: what a program can read besides the text.

A rank that finds why a group ends writes a text and facts into its record (`engine/memory/records.py`); every rank of
the group makes its own error from them. Ranks are numbers in the group, as `root` and `dest` are.
"""

from typing import Any

from shmcoll.diagnostics.past_calls import past_call
from shmcoll.engine.memory import records
from shmcoll.engine.memory.group import Group
from shmcoll.errors import ShmcollError

#: the facts that a record can have. LATE: of a mismatch that not all ranks were in: the calls refused before, as text
MISSING, CULPRIT, SEQUENCE, LIMIT, LATE = "missing", "rank", "sequence", "limit", "late"


def of_record(group: Group, record: records.Record) -> dict[str, Any]:
    """Return the attributes that an error has because of a record of a member of the group."""
    if record.cause == records.TIMED_OUT:
        return {"missing": tuple(record.facts[MISSING])} if MISSING in record.facts else {}
    if record.cause == records.MISMATCHED:
        return {"calls": calls(group, record.facts[SEQUENCE])} if SEQUENCE in record.facts else {}
    found: dict[str, Any] = {"rank": record.facts.get(CULPRIT, group.ranks.index(record.rank))}
    if record.cause == records.KILLED:
        found["signal"] = record.code
    if record.cause in (records.EXITED, records.EXITED_BECAUSE):
        found["exitcode"] = record.code
    return found


def calls(group: Group, sequence: int) -> dict[int, str]:
    """Return what each rank called as operation `sequence`, and on which line, as far as the ranks have published
    it."""
    return {
        rank: made + (records.site(group, rank, sequence) or "")
        for rank in range(group.size)
        if group.published(rank) >= sequence and (made := past_call(group, rank, sequence))
    }


def again(error: ShmcollError) -> ShmcollError:
    """Return an error like one that has been raised, without its traceback, notes and cause."""
    same = type(error)(str(error))
    same.__dict__.update((name, value) for name, value in vars(error).items() if name != "__notes__")
    return same
