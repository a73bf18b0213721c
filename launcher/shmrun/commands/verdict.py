"""`shmrun verdict`: what was kept of a job that has failed or hung (`--dump`), from the files alone.

The files may come from another machine, user or version, may be cut short, and may have been written by anybody. So
nothing of them is executed: the files for torch's analyser are pickles, and are not opened. Every value is checked
where it is used, and what a terminal would act on is printed as an escape.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from shmcoll.diagnostics.job_document import FORMAT
from shmcoll.diagnostics.job_dump import FILE
from shmcoll.engine.system import trusted_files
from shmcoll.engine.system.text import aligned
from shmrun.cli.printing import one_line, tell

_LARGEST = 64 << 20  # bytes of a document
_SHOWN = 8  # last operations of a rank, with -v


class Unreadable(Exception):
    """A document that cannot be used. The text says why."""


def show(name: str | None, *, verbose: bool, as_json: bool = False) -> int:
    """Print what was kept, the earliest first. name: a folder or a file. Returns the exit code."""
    if name is None:
        tell("shmrun: which folder? Give the one of --dump or SHMCOLL_DUMP, or of --log-dir: shmrun verdict DIR")
        return 2
    try:
        paths = _documents(Path(name))
    except OSError as e:
        tell(f"shmrun: cannot read {name!r}: {e.strerror or e}")
        return 1
    found, code = [], 0
    for path in paths:
        try:
            found.append((path, read(path)))
        except Unreadable as e:
            tell(f"shmrun: {_plain(path)}: {e}")
            code = 1
    if not paths:
        tell(f"shmrun: no {FILE} in {name!r} or its folders: no job has failed there while it was asked to be kept")
        return 1
    found.sort(key=lambda one: (str(one[1].get("written")), _number(one[1].get("age")) or 0.0))
    if as_json:
        try:
            print(json.dumps({"format": FORMAT, "jobs": [document for _, document in found]}, indent=1))
        except RecursionError:  # Python reads what it cannot write
            tell(f"shmrun: a document in {name!r} is damaged: it is nested too deeply")
            code = 1
        return code
    for number, (path, document) in enumerate(found):
        print("\n" * bool(number) + "\n".join(_told(path, document, verbose=verbose)))
    return code


def read(path: Path) -> dict[str, Any]:
    """Return a document. Raises `Unreadable`."""
    try:
        fd = trusted_files.open_regular(path)
        with open(fd, "rb") as file:
            data = file.read(_LARGEST + 1)
    except FileNotFoundError as e:
        raise Unreadable("it is missing: who was about to write it was killed, or had no room") from e
    except OSError as e:
        raise Unreadable(f"cannot be read: {_plain(e.strerror or e)}") from e
    if len(data) > _LARGEST:
        raise Unreadable(f"is longer than {_LARGEST >> 20} MiB, and so no document of shmcoll")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as e:
        raise Unreadable(f"is damaged: {_plain(e)}") from e
    if not isinstance(document, dict) or "format" not in document:
        raise Unreadable("is not a document of shmcoll")
    if document["format"] != FORMAT:
        version = _dict(document.get("versions")).get("shmcoll", "another version")
        raise Unreadable(
            f"has format {_plain(document['format'])}, of shmcoll {_plain(version)}; this one reads format {FORMAT}"
        )
    ranks = document.get("ranks")
    if not isinstance(ranks, list) or not all(isinstance(one, dict) for one in ranks) or "verdict" not in document:
        raise Unreadable("is damaged: it says nothing about ranks")
    return document


def _documents(place: Path) -> list[Path]:
    """Return the documents in a folder, in its folders, and in those of its `dump`: then it is one of logs."""
    if not place.is_dir():
        place.stat()  # raises if it does not exist
        return [place]
    if (place / FILE).exists():
        return [place / FILE]
    places = [place, place / "dump"] if (place / "dump").is_dir() else [place]
    folders = [one for holder in places for one in sorted(holder.iterdir()) if one.is_dir()]
    return [one / FILE for one in folders if _has_document(one)]


def _has_document(folder: Path) -> bool:
    """Return whether there is a document, or was to be one, or whether that cannot be known."""
    try:
        return (folder / FILE).exists() or (folder / f".{FILE}").exists()
    except OSError:  # perhaps of another user: reading says so, and the others are shown
        return True


def _told(path: Path, document: dict[str, Any], *, verbose: bool) -> Iterable[str]:
    versions, ranks = _dict(document.get("versions")), document["ranks"]
    age, node = _number(document.get("age")), document.get("node")
    yield (
        f"{_plain(path.parent)}: job {_plain(document.get('pid'))} of {len(ranks)} ranks on "
        f"{'node ' if node else ''}{_plain(node or document.get('host'))}, {_plain(document.get('written'))}"
        f"{'' if age is None else f', {age:.1f} s after its start'}, shmcoll {_plain(versions.get('shmcoll'))}"
    )
    if document.get("command"):
        yield _plain(document["command"])
    yield from _table(ranks)
    if verbose:
        yield from _more(document)
    for failure in _list(document.get("failures")):
        failure = _dict(failure)
        yield f"Before: rank {_plain(failure.get('rank'))}: {_plain(failure.get('text'))}"
    yield _plain(document["verdict"])


def _table(ranks: list[dict[str, Any]]) -> Iterable[str]:
    rows: list[tuple[str, ...]] = [("rank", "pid", "state", "for", "where", "waits for")]
    for one in ranks:
        since = _number(one.get("since"))
        waits = ", ".join(map(_plain, _list(one.get("waits_for"))))
        age = "" if since is None else f"{since:.1f} s"
        words = (_plain(one.get(key)) for key in ("rank", "pid", "state"))
        rows.append((*words, age, _plain(one.get("place")), waits))
    title, *lines = aligned(rows, right=(0, 1, 3))
    yield title
    for one, line in zip(ranks, lines, strict=True):
        yield line
        yield from (f"{'':6}{_plain(frame)}" for frame in _list(one.get("stack")))


def _more(document: dict[str, Any]) -> Iterable[str]:
    for one in document["ranks"]:
        yield f"rank {_plain(one.get('rank'))}, last operations:"
        for operation in map(_dict, _list(one.get("last"))[-_SHOWN:]):
            since = _number(operation.get("since"))
            ago = "" if since is None else f", {since:.1f} s before"
            call, outcome = _plain(operation.get("call")), _plain(operation.get("outcome"))
            yield f"  #{_plain(operation.get('sequence'))} {call}, {outcome}{ago}"
    for name in ("settings", "versions"):
        words = [f"{_plain(key)} {_plain(value)}" for key, value in _dict(document.get(name)).items()]
        yield f"{name}: {', '.join(words)}"


def _plain(value: Any) -> str:
    """Return a value of a document as text in one line, on which a terminal does not act."""
    if value is None:
        return "-"
    text = value if isinstance(value, str) else json.dumps(value) if isinstance(value, dict | list) else str(value)
    return one_line(text)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and abs(value) < 1e12 else None  # false for nan


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}
