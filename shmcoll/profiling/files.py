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
    So is a link of another user: in a directory such as /tmp the kernel refuses to follow it. Raises `OSError`.
    """
    target = Path(path)
    is_foreign = target.is_symlink() and target.lstat().st_uid not in (0, os.geteuid())
    if not is_foreign:
        target = Path(os.path.realpath(path))  # not `resolve`: that raises RuntimeError for links in a circle
    special = is_foreign or (target.exists() and not target.is_file())
    place = target if special else target.with_name(f".{target.name}.{os.urandom(4).hex()}")
    try:
        with open(place, "wb" if special else "xb") as file:
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
