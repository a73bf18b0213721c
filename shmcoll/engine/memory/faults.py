"""The faults that SHMCOLL_FAULTS asks for (`engine/fault_injection.py`). The process that makes an arena checks it."""

import os

KINDS = ("kill", "stop", "jitter")


def planned() -> list[tuple[str, str, int]]:
    """Return the faults: for each the rank or '*', the kind, and its number. Raises `ValueError` for anything else."""
    return [_parsed(fault) for fault in os.environ.get("SHMCOLL_FAULTS", "").split(",") if fault]


def _parsed(fault: str) -> tuple[str, str, int]:
    who, _, rest = fault.strip().partition(":")
    kind, _, number = rest.partition("@")
    if not (who == "*" or who.isdecimal()) or kind not in KINDS or not number.isdecimal():
        text = os.environ["SHMCOLL_FAULTS"]
        what = "give RANK:kill@K, RANK:stop@K or RANK:jitter@SEED, separated by commas, with * for all ranks"
        raise ValueError(f"SHMCOLL_FAULTS={text!r}: {fault!r} is not a fault; {what}")
    return who, kind, int(number)
