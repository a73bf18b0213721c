"""Telling processes apart: a pid alone may be used again."""

from pathlib import Path


def process_start(pid: int) -> int:
    """Start time of a living process in clock ticks since boot; 0 when it has ended, waited for or not.

    With the pid it names a process for ever.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return 0 if fields[0] in "ZX" else int(fields[19])
    except (OSError, ValueError, IndexError):
        return 0
