"""What cannot be pickled, because it works on memory and threads of its process."""

from typing import NoReturn


class ProcessBound:
    """A class whose objects belong to the process that made them."""

    _title = "this"
    _instead = ""

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self._title} belongs to the process that made it; {self._instead}")
