"""Two sets of results, case by case: which times have changed by more than the noise.

A case has a time for each round of each table in which it is; its time is their median. Its noise is half the distance
between their quartiles, relative to the median. A change counts if the middle halves of the rounds before and after do
not overlap. With a single round there is no noise to go by, and every change counts. Times of different conditions
(`shmbench/cli/conditions.py`) are not compared.

Rounds that were measured while others used the cores do not count if the case has others. If it has none, in one of the
files, its change is shown and is neither slower nor faster, and never fails.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median, quantiles

from shmbench.cli.sizes import microseconds, short_size
from shmbench.report.curves import PLACEMENTS, Document, one_kind
from shmbench.report.ratios import busy

_PARTS = ("library", "collective", "ranks", "type", "operator", "algorithm", "size", "placement")
# library, collective, ranks, dtype, operator, algorithm, size, placement
Case = tuple[str, str, int, str, str, str, int, str]


@dataclass(frozen=True)
class Rounds:
    """The microseconds of a case in all rounds that count. busy: others used the cores in each of them."""

    times: Sequence[float]
    busy: bool = False

    @property
    def time(self) -> float:
        return median(self.times)

    @property
    def quartiles(self) -> tuple[float, float]:
        if len(self.times) == 1:
            return self.times[0], self.times[0]
        first, _, third = quantiles(self.times, n=4, method="inclusive")
        return first, third

    @property
    def noise(self) -> float:
        first, third = self.quartiles
        return (third - first) / 2 / self.time


@dataclass(frozen=True)
class Difference:
    """A case that both files have. fails: it is slower by more than is allowed, and by more than the noise."""

    case: Case
    before: Rounds
    after: Rounds
    fails: bool

    @property
    def change(self) -> float:
        return self.after.time / self.before.time - 1

    @property
    def noise(self) -> float:
        return max(self.before.noise, self.after.noise)

    @property
    def busy(self) -> bool:
        return self.before.busy or self.after.busy

    @property
    def verdict(self) -> str:
        if not _apart(self.before, self.after):
            return "same"
        if self.busy:
            return "busy"
        return "slower" if self.change > 0 else "faster"


@dataclass(frozen=True)
class Found:
    """All cases in common, the machines and versions, and the number of cases that only one of the files has. busy: how
    much of the cores others used, in words; empty if little. silent: whether the file says nothing of that. unlike:
    what differs if no case is in common."""

    rows: Sequence[Difference]
    limit: float | None
    origins: tuple[Sequence[str], Sequence[str]]
    alone: tuple[int, int]
    busy: tuple[str, str]
    silent: tuple[bool, bool]
    unlike: str

    @property
    def failures(self) -> list[Difference]:
        return [row for row in self.rows if row.fails]


def compare(before: Sequence[Document], after: Sequence[Document], limit: float | None = None) -> Found:
    """Compare the tables of two files. limit: by how much a time may grow, 0.1 for 10 %; None: by any amount. Raises
    `ValueError` if they were measured under different conditions."""
    one_kind([*before, *after])
    old, new = _rounds(before), _rounds(after)
    rows = []
    for case in (case for case in old if case in new):
        change = new[case].time / old[case].time - 1
        row = Difference(case, old[case], new[case], False)
        rows.append(replace(row, fails=limit is not None and change > limit and row.verdict == "slower"))
    alone = len(old.keys() - new.keys()), len(new.keys() - old.keys())
    loads, silent = (busy(before), busy(after)), (_is_silent(before), _is_silent(after))
    return Found(rows, limit, (_origins(before), _origins(after)), alone, loads, silent, _unlike(old, new))


def _is_silent(documents: Sequence[Document]) -> bool:
    return not all(document.get("load") for document in documents)


def _unlike(old: Iterable[Case], new: Iterable[Case]) -> str:
    """Return which parts of cases the files have in common with no case of the other: 'operator sum, max'."""
    parts = zip(_PARTS, zip(*old, strict=True), zip(*new, strict=True), strict=False)
    apart = [(name, [*dict.fromkeys(map(str, (*a, *b)))]) for name, a, b in parts if not {*a} & {*b}]
    return "; ".join(f"{name} {', '.join(values)}" for name, values in apart)


def text(found: Found, before: str, after: str) -> str:
    """Return the differences as a table of text."""
    from shmcoll.engine.system.text import aligned

    table = aligned([_TITLES, *map(_cells, found.rows)], right=(2, 4, 6, 7, 8, 9))
    return "\n".join([*(f"# {line}" for line in _head(found, before, after)), *table, f"# {_summary(found)}"])


def markdown(found: Found, before: str, after: str) -> str:
    """Return the differences as Markdown, those that fail in bold."""
    lines = [_line(_TITLES), _line(["---"] * len(_TITLES))]
    for row in found.rows:
        cells = _cells(row)
        lines.append(_line([f"**{cell}**" for cell in cells] if row.fails else cells))
    head = "\n".join(f"* {line}" for line in _head(found, before, after))
    return f"{_summary(found)}\n\n{head}\n\n" + "\n".join(lines)


_WHAT = ("library", "collective", "ranks", "type", "size", "placement")
_TITLES = (*_WHAT, "before", "after", "change", "noise", "verdict")


def _cells(row: Difference) -> tuple[str, ...]:
    library, collective, ranks, dtype, op, algorithm, size, placement = row.case
    kind = " ".join(word for word in (dtype, op, algorithm) if word)
    return (
        library,
        collective,
        str(ranks),
        kind or "-",
        short_size(size) if size else "-",
        placement.replace("_", " "),
        f"{microseconds(row.before.time)} us",
        f"{microseconds(row.after.time)} us",
        f"{row.change:+.1%}",
        f"{row.noise:.1%}",
        f"{row.verdict}, FAILED" if row.fails else row.verdict,
    )


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _head(found: Found, before: str, after: str) -> Iterator[str]:
    for what, name, origins in zip(("before", "after"), (before, after), found.origins, strict=True):
        yield f"{what}: {name}: {'; '.join(origins)}"
    for name, share in zip((before, after), found.busy, strict=True):
        if share:
            yield f"busy: others used up to {share} during {name}: what was measured then cannot fail"
    for name, is_silent in zip((before, after), found.silent, strict=True):
        if is_silent:
            yield f"{name} does not say how busy the machine was"
    for name, number in zip((before, after), found.alone, strict=True):
        if number:
            yield f"only in {name}: {number} case{'s' if number > 1 else ''}"


def _summary(found: Found) -> str:
    counts = {word: sum(row.verdict == word for row in found.rows) for word in ("slower", "faster", "same")}
    told = ", ".join(f"{number} {word}" for word, number in counts.items())
    if number := sum(row.verdict == "busy" for row in found.rows):
        told += f", {number} changed on a busy machine: measure again on a quiet one"
    if found.limit is None:
        return told
    return f"{told}; {len(found.failures)} slower by more than {found.limit * 100:g}%"


def _apart(one: Rounds, other: Rounds) -> bool:
    """Return whether the middle halves of the rounds do not overlap."""
    (first, third), (other_first, other_third) = one.quartiles, other.quartiles
    return third < other_first or other_third < first


def _rounds(documents: Sequence[Document]) -> dict[Case, Rounds]:
    times: dict[Case, dict[bool, list[float]]] = {}
    for document in documents:
        loaded = bool(busy([document]))
        algorithm = document.get("options", {}).get("algorithm") or ""
        for row in document["rows"]:
            kind = ["" if row[key] == "none" else row[key] for key in ("type", "redop")]
            for placement in PLACEMENTS:
                if row[placement]:
                    what = (document["library"], document["collective"], document["ranks"])
                    case = (*what, kind[0], kind[1], algorithm, row["size"], placement)
                    rounds = times.setdefault(case, {}).setdefault(loaded, [])
                    rounds.extend(row[placement].get("rounds") or [row[placement]["time"]])
    return {case: Rounds(found.get(False) or found[True], False not in found) for case, found in times.items()}


def _origins(documents: Sequence[Document]) -> list[str]:
    """Return versions, machine and date, each once."""
    told = []
    for document in documents:
        machine = document["machine"]
        version = f"{document['library']} {document.get('library_version', '')}".strip()
        words = [version, f"{machine['processor']}, {machine['cores']} cores", document.get("date", "")[:10]]
        told.append(", ".join(filter(None, words)))
    return list(dict.fromkeys(told))
