"""The public objects that work on memory and threads of their process."""

from typing import TYPE_CHECKING, Any, NoReturn

from shmcoll.engine.system.tracebacks import Border


class ProcessBound(Border):
    """A class whose objects belong to the process that made them, and cannot be pickled."""

    _title = "this"
    _instead = ""

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self._title} belongs to the process that made it; {self._instead}")

    if not TYPE_CHECKING:  # else mypy would let any name pass

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            from shmcoll.diagnostics import other_names

            kind = type(self)
            inner = type(self.comm) if hasattr(kind, "comm") else None
            comm = kind if hasattr(kind, "all_reduce") else None
            raise other_names.missing(self._title, name, dir(kind), comm, inner)
