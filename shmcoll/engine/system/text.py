"""How text of the system is read, kept in shared memory, and printed. No other file encodes or decodes.

Names of files, processes and hosts are bytes on Linux. Python reads a byte that is not UTF-8 as a lone surrogate, which
no encoder accepts; texts of exceptions quote such names. The locale may say ASCII, or a stream may. So these functions
use UTF-8 whatever the locale says, and never raise because of the contents: `\\xe9` or `\\udce9` stands for what cannot
be shown.
"""

import codecs
import contextlib
import os
import select
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

from shmcoll.engine.system.handlers import LONGEST_SLEEP, ignored

_LONGEST = 60  # characters of a value in a message
_PIECE = 512  # characters: at most 5 KiB, which the empty buffer of a stream (8 KiB) takes as a whole


def to_bytes(text: str) -> bytes:
    """Return a text as UTF-8."""
    return text.encode("utf-8", "backslashreplace")


def to_text(data: bytes | bytearray) -> str:
    """Return the text of bytes, which should be UTF-8."""
    return data.decode("utf-8", "backslashreplace")


def exact_text(data: bytes) -> str:
    """Return the text of bytes that a program has given. `exact_bytes` returns the same bytes."""
    return data.decode("utf-8", "surrogateescape")


def exact_bytes(text: str) -> bytes:
    """Return the bytes of a text that `exact_text` has made."""
    return text.encode("utf-8", "surrogateescape")


def beginning(text: str, size: int) -> bytes:
    """Return as many whole characters of a text as fit into `size` bytes."""
    data = to_bytes(text)
    while len(data) > size:
        data = data[:size].decode("utf-8", "ignore").encode()
    return data


def printable(text: str) -> str:
    """Return a text without lone surrogates: any stream for UTF-8 accepts it."""
    return to_text(to_bytes(text))


def shown(value: Any) -> str:
    """Return a value for a message, in one short line, whatever its own repr is."""
    text = f"an object of type {type(value).__name__}"
    with ignored(Exception):
        is_array = getattr(value, "shape", ()) != ()
        text = f"an array of {value.dtype}, of shape {value.shape}" if is_array else " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def read_text(path: str | os.PathLike[str], most: int = -1) -> str:
    """Return the contents of a file, to be parsed or shown, or as many bytes of it. Raises `OSError` if it cannot be
    read."""
    with open(path, "rb") as file:
        return to_text(file.read(most))


def read_names(path: str | os.PathLike[str]) -> str:
    """Return the contents of a file with names of files that are to be opened. Raises `OSError` if it cannot be
    read."""
    return os.fsdecode(Path(path).read_bytes())


def decoder() -> Callable[[bytes], str]:
    """Return a function that decodes a text which comes in pieces."""
    return codecs.getincrementaldecoder("utf-8")("backslashreplace").decode


def line_writer(fd: int) -> TextIO:
    """Return a stream that writes each line to a descriptor, which stays open when the stream is closed."""
    return open(fd, "w", encoding="utf-8", errors="backslashreplace", closefd=False, buffering=1)


def show(stream: TextIO, text: str) -> bool:
    """Write a text to a stream that may take ASCII only, may not block, or may have been closed.

    Returns whether the stream has accepted the text. Waits for a stream that is full. An error of the stream is not
    raised: output never ends a job.
    """
    encoding = getattr(stream, "encoding", None) or "utf-8"
    with contextlib.suppress(LookupError):  # the stream has an encoding that Python does not know
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    size = len(text) or 1 if _blocks(stream) else _PIECE
    try:
        for begin in range(0, len(text), size):
            with contextlib.suppress(BlockingIOError):  # the piece is in the stream's buffer all the same
                stream.write(text[begin : begin + size])
            _flush(stream)
    except (OSError, ValueError):  # ValueError: it is closed
        return False
    return True


def _blocks(stream: TextIO) -> bool:
    try:
        return os.get_blocking(stream.fileno())
    except (OSError, ValueError, AttributeError):  # it is not a file: a notebook's, or a `StringIO`
        return True


def _flush(stream: TextIO) -> None:
    while True:
        try:
            return stream.flush()
        except BlockingIOError:  # what is left stays in its buffer
            select.select([], [stream], [], LONGEST_SLEEP)


def aligned(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Return the rows as lines with aligned columns. right: the columns that are flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_padded(row, widths, right)).rstrip() for row in rows]


def _padded(row: Sequence[str], widths: list[int], right: Sequence[int]) -> list[str]:
    return [row[i].rjust(width) if i in right else row[i].ljust(width) for i, width in enumerate(widths)]
