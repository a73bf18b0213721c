"""The public objects that work on memory and threads of their process."""

from typing import NoReturn

from shmcoll.engine.system.tracebacks import Border


class ProcessBound(Border):
    """A class whose objects belong to the process that made them, and cannot be pickled.

    It has no `__getattr__`, with which CPython would take 30 ns longer for each attribute, and 80 for a call. A note at
    an `AttributeError` says what a name of another library is called here (`diagnostics/other_names.py`).
    """

    _title = "this"
    _instead = ""

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self._title} belongs to the process that made it; {self._instead}")
