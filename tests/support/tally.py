"""What the tests of a run have gone through, counted; `pytest -s` prints it at the end, as 'figure: ...'."""

from collections import Counter

counts: Counter[str] = Counter()


def count(what: str, number: int = 1) -> None:
    counts[what] += number


def lines() -> list[str]:
    return [f"figure: {what}: {number:,}" for what, number in counts.items()]
