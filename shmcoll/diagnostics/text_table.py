"""Tables in plain text."""

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Return the rows as lines with aligned columns. right: the columns that are flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_padded(row, widths, right)).rstrip() for row in rows]


def _padded(row: Sequence[str], widths: list[int], right: Sequence[int]) -> list[str]:
    return [row[i].rjust(width) if i in right else row[i].ljust(width) for i, width in enumerate(widths)]
