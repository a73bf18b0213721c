"""Write a file as a whole or not at all: a reader never finds half of it, and a full disk leaves an older one alone."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast


@contextlib.contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """Open a file for the block. At its end the file takes the place of `path`, after an error it is removed.

    Bytes are compressed if the name ends in .gz. What is not a regular file, such as /dev/stdout, is written to itself.
    Raises `OSError`.
    """
    target = Path(path).resolve()
    special = target.exists() and not target.is_file()
    place = target if special else target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with open(place, "wb") as file:
            if target.suffix == ".gz":
                import gzip

                with gzip.open(file, "wb", compresslevel=1) as packed:
                    yield cast(BinaryIO, packed)
            else:
                yield file
        if not special:
            place.replace(target)
    except BaseException:
        if not special:
            place.unlink(missing_ok=True)
        raise
