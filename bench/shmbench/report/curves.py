"""The contents of a picture, from JSON documents: a curve for each library and placement, and the texts around them.

Documents of the same library and label make one curve. If they share a size, its point is the median. Labels
distinguish several files about one library.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from shmbench.cli.conditions import conditions_of
from shmbench.report.json_report import FORMAT
from shmbench.report.ratios import busy

Document = dict[str, Any]
PLACEMENTS = ("out_of_place", "in_place")


@dataclass(frozen=True)
class Curve:
    """One library in one placement: bytes, microseconds per call, bus bandwidth in 1e9 bytes per second.

    label: which of several files about the library it is from. age: how many files about the library follow.
    """

    library: str
    placement: str
    sizes: list[int]
    times: list[float]
    bandwidths: list[float]
    label: str = ""
    age: int = 0

    @property
    def name(self) -> str:
        """The library, and the label if there is one."""
        return f"{self.library}, {self.label}" if self.label else self.library


@dataclass(frozen=True)
class Chart:
    """Everything in a picture. Curves of a library follow one another, libraries in the order of the documents."""

    title: str
    machine: str
    conditions: str
    curves: list[Curve]


def read(path: Path) -> list[Document]:
    """Return the tables in a file that `shmbench -J` or `shmbench compare --json` has written.

    Raises `ValueError` if it holds something else, and for results that were wrong.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"{path}: format {content['format']}, and this shmbench reads {FORMAT}")
        tables = [r["table"] for r in content["results"] if r["table"]] if "results" in content else [content]
        for table in tables:
            describe(table)
            if table["wrong"]:
                raise ValueError(f"{path}: {table['wrong']} wrong elements from {table['library']}: not drawn")
    except (KeyError, TypeError, IndexError, json.JSONDecodeError, UnicodeDecodeError):
        raise ValueError(f"{path}: not JSON that shmbench -J or `shmbench compare --json` has written") from None
    return tables


def charts(documents: Sequence[Document]) -> list[Chart]:
    """Return a chart for each case that has sizes. Raises what `chart` does, or `ValueError` if no case has sizes."""
    cases = dict.fromkeys(describe(document) for document in documents if any(row["size"] for row in document["rows"]))
    if not cases:
        raise ValueError("no sizes to draw over")
    return [chart([document for document in documents if describe(document) == case]) for case in cases]


def chart(documents: Sequence[Document]) -> Chart:
    """Return the chart of documents of one case. Raises `ValueError` for several cases, or if they have no sizes."""
    cases = list(dict.fromkeys(map(describe, documents)))
    if len(cases) != 1:
        raise ValueError(f"one picture shows one case, and here are {len(cases)}: {'; '.join(cases) or 'no results'}")
    conditions = one_kind(documents)
    libraries = dict.fromkeys(document["library"] for document in documents)
    curves = [c for name in libraries for c in _of_library([d for d in documents if d["library"] == name])]
    if not curves:
        raise ValueError(f"{cases[0]}: no sizes to draw over")
    title = cases[0] if len(libraries) > 1 else f"{curves[0].library}: {cases[0]}"
    machine = "; ".join(dict.fromkeys(map(_machine, documents)))
    share = busy(documents)
    return Chart(title, f"{machine}; busy: others used up to {share}" if share else machine, conditions, curves)


def one_kind(documents: Sequence[Document]) -> str:
    """Return the conditions of all documents. Raises `ValueError` if they are not the same for all."""
    kinds = list(dict.fromkeys(str(conditions_of(document)) for document in documents))
    if len(kinds) > 1:
        raise ValueError(f"these times were measured under {len(kinds)} conditions: {' | '.join(kinds)}")
    return "".join(kinds)


@dataclass(frozen=True)
class Results:
    """The documents of a file, and the label that the user has given it, if any."""

    path: Path
    label: str
    documents: list[Document]


def labelled(files: Sequence[Results]) -> list[Document]:
    """Return the documents of several files, each with its label. A file without a label is labelled by its name if
    another file has the same case of the same library at the same sizes: before and after."""
    stems = [file.path.stem for file in files]
    found: list[Document] = []
    for file in files:
        others = {point for other in files if other is not file for d in other.documents for point in _points(d)}
        name = file.path.stem if stems.count(file.path.stem) == 1 else str(file.path)
        for document in file.documents:
            shared = not others.isdisjoint(_points(document))
            found.append(document | {"label": file.label or (name if shared else "")})
    return found


def _points(document: Document) -> set[tuple[str, str, int]]:
    return {(document["library"], describe(document), row["size"]) for row in document["rows"]}


def describe(document: Document) -> str:
    """Return the case that a document measures: "all_reduce, 2 ranks, float32 sum"."""
    row = document["rows"][0]
    words = [row[key] for key in ("type", "redop") if row[key] != "none"]
    return ", ".join([document["collective"], f"{document['ranks']} ranks", " ".join(words)]).removesuffix(", ")


def _machine(document: Document) -> str:
    return f"{document['machine']['processor']}, {document['machine']['cores']} cores"


def _of_library(documents: Sequence[Document]) -> Iterator[Curve]:
    """Return the documents of one library, label after label."""
    labels = list(dict.fromkeys(document.get("label", "") for document in documents))
    for age, label in zip(reversed(range(len(labels))), labels, strict=True):
        for curve in _curves([d for d in documents if d.get("label", "") == label]):
            yield replace(curve, label=label, age=age)


def _curves(documents: Sequence[Document]) -> Iterator[Curve]:
    """Return the curves of one library and label."""
    rows = [row for document in documents for row in document["rows"] if row["size"]]
    for placement in PLACEMENTS:
        points: dict[int, list[dict[str, float]]] = {}
        for row in rows:
            if row[placement]:
                points.setdefault(row["size"], []).append(row[placement])
        sizes = sorted(points)
        if sizes:
            times, bandwidths = ([median(p[key] for p in points[size]) for size in sizes] for key in ("time", "busbw"))
            yield Curve(documents[0]["library"], placement, sizes, times, bandwidths)
