"""The sources of options besides the command line: the environment, and pyproject.toml.

The command line comes first, then the environment, then `[tool.shmrun]` of the nearest pyproject.toml that has it: in
the current directory or one above.

Such a file chooses the environment of our ranks, so a user who can write it runs code as us. It counts only if no other
user may write to it, or to any directory that decides which file is found (from the current one up to that of the file,
and those above), and if all of them belong to this user or root. A sticky directory such as /tmp does not count,
because any user can create a file there. A file that does not count is named, and ignored; no other file replaces it.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from shmrun.cli import values
from shmrun.cli.settings import SETTINGS
from shmrun.cli.values import Wrong

_LONGEST = 1 << 20  # bytes

#: variables in docs/reference/environment.md that are not options of shmrun
OTHER_VARIABLES = (
    "SHMCOLL_ARENA", "SHMCOLL_BUILD_OBJECTS", "SHMCOLL_CACHE_DIR", "SHMCOLL_DIRECT_BYTES", "SHMCOLL_EXCHANGE_BYTES",
    "SHMCOLL_FAULTS", "SHMCOLL_FLAT_BYTES", "SHMCOLL_FULL_TRACEBACKS", "SHMCOLL_JOIN_TIMEOUT", "SHMCOLL_LAUNCHER",
    "SHMCOLL_NODE", "SHMCOLL_ORDER", "SHMCOLL_PARENT", "SHMCOLL_PROGRAM_NUMBER", "SHMCOLL_RING_BYTES", "SHMCOLL_SEED",
    "SHMCOLL_SHARED_BYTES", "SHMCOLL_SLICE_BYTES", "SHMCOLL_SOAK",
    "SHMCOLL_STARTED", "SHMCOLL_STARTED_BY", "SHMCOLL_STREAM_BYTES", "SHMCOLL_STRESS_OPERATIONS", "SHMCOLL_TUNING",
)  # fmt: skip


class Found(NamedTuple):
    """Texts of one option, and their source, for messages."""

    texts: list[str]
    where: str


def environment(remarks: list[str]) -> dict[str, Found]:
    """Return the options in the environment. An empty variable is ignored. A variable that no part of shmcoll reads is
    named in `remarks`."""
    found = {}
    known = {*OTHER_VARIABLES, *(setting.variable for setting in SETTINGS.values() if setting.variable)}
    for name in sorted(name for name in os.environ if name.startswith("SHMCOLL_") and name not in known):
        remarks.append(f"environment variable {name} is ignored: shmcoll has none of this name{near(name, known)}")
    for setting in SETTINGS.values():
        if setting.variable and (text := os.environ.get(setting.variable)):
            found[setting.name] = Found([text], f"environment variable {setting.variable}")
    return found


def near(word: str, known: Iterable[str]) -> str:
    """Return a question for messages with the word that was perhaps meant; empty if no word is similar."""
    from difflib import get_close_matches

    found = get_close_matches(word, list(known), 1, 0.75)
    return f"; did you mean {found[0]}?" if found else ""


def project(remarks: list[str]) -> dict[str, Found]:
    """Return the options in pyproject.toml. Keys that are not options are named in `remarks`. Raises `Wrong` for a
    broken file."""
    path, table = _nearest(remarks)
    found = {}
    for key, value in table.items():
        name, where = key.replace("_", "-"), f"{path}, [tool.shmrun] {key}"
        if name not in SETTINGS:
            remarks.append(f"{where}: no such option, ignored")
            continue
        texts = _texts(name, value, where)
        is_file = name in ("log-dir", "report-json", "trace") or (name == "stats" and not isinstance(value, bool))
        if is_file or (name == "dump" and not set(texts) & set(values.NOT)):
            texts = [str(path.parent / text) if text else "" for text in texts]
        found[name] = Found(texts, where)
    return found


def _nearest(remarks: list[str]) -> tuple[Path, dict[str, Any]]:
    try:
        here = Path.cwd()
    except OSError:  # it has been removed
        return Path(), {}
    for folder in (here, *here.parents):
        path = folder / "pyproject.toml"
        try:
            if not path.exists():
                continue
            data, distrust = _read(path, here)
        except OSError:
            continue
        if distrust and b"tool.shmrun" in data:
            advice = "give its options on the command line, or as environment variables"
            remarks.append(f"ignored {path}: {distrust}; or {advice}")
            break
        if not distrust and b"shmrun" in data and (table := _table(path, data)):
            return path, table
    return here, {}


def _read(path: Path, here: Path) -> tuple[bytes, str]:
    """Return the contents of a file that was found from the directory `here`, and why it does not count; "" if it
    counts."""
    from shmcoll.engine.system import trusted_files

    target = path.resolve()
    with open(trusted_files.open_regular(target), "rb") as file:
        try:
            trusted_files.check_way(path)
            trusted_files.check_file(target, file.fileno())
            for folder in (here, *here.parents):
                trusted_files.check_holder(folder)
                if folder == path.parent:
                    break
        except trusted_files.Distrusted as e:
            return file.read(_LONGEST), str(e)  # other users may have made it very long
        return file.read(), ""


def _table(path: Path, data: bytes) -> dict[str, Any]:
    import tomllib

    from shmcoll.engine.system.text import to_text

    try:
        table = tomllib.loads(to_text(data)).get("tool", {}).get("shmrun", {})
    except (ValueError, AttributeError) as e:
        raise Wrong(f"{path} cannot be read: {e}") from e
    if not isinstance(table, dict):
        raise Wrong(f"{path}: [tool.shmrun] is not a table")
    return table


def _texts(name: str, value: Any, where: str) -> list[str]:
    """Return a value of TOML in the words of the command line."""
    if name == "env":
        if not isinstance(value, dict):
            raise Wrong(f'{where}: expected a table, as in env = {{ NAME = "value" }}')
        return [f"{key}={_text(one, f'{where}.{key}')}" for key, one in value.items()]
    return [_text(value, where)]


def _text(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise Wrong(f"{where}: expected a string or a number, got {value!r}")
    return str(value)
