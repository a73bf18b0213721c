"""Sizes and times in the notation of people, and the sweep over the sizes."""

import re
from collections.abc import Iterator

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_size(text: str) -> int:
    """Return the bytes of "8", "64K", "4M" or "1G" (powers of 1024, any case). Raises `ValueError` for other text."""
    match = re.fullmatch(r"(\d+)([KMG]?)", text.upper(), flags=re.ASCII)
    if not match or not int(match[1]):
        raise ValueError(f"{text!r} is no size: write a positive number of bytes such as 8, 64K, 4M or 1G")
    return int(match[1]) * UNITS[match[2]]


def short_size(size: float) -> str:
    """Return bytes in the notation of people: 8, 4K, 1.5M."""
    unit = max((unit for unit in UNITS if size >= UNITS[unit]), key=UNITS.__getitem__, default="")
    return f"{size / UNITS[unit]:g}{unit}"


def microseconds(us: float) -> str:
    """Return a time with its significant digits: 1.23, 123.4, 12345."""
    return f"{us:.2f}" if us < 100 else f"{us:.1f}" if us < 10_000 else f"{us:.0f}"


def sweep(first: int, last: int, *, step: int | None, factor: int) -> Iterator[int]:
    """Return the sizes from `first` to `last`: each is `step` bytes more than the one before, or `factor` times as
    many."""
    size = first
    while size <= last:
        yield size
        size = size + step if step else size * factor
