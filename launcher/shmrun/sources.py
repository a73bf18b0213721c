"""Where the defaults of options may stand besides the command line: the environment, and pyproject.toml.

The command line comes first, then the environment, then `[tool.shmrun]` of the nearest pyproject.toml that has it: in
the current directory or one above. Above, directories that everybody may write are left out: in /tmp anybody could lay
down a file that says what our ranks shall find in their environment.
"""

import os
import stat
from pathlib import Path
from typing import Any, NamedTuple

from shmrun.settings import SETTINGS
from shmrun.values import Wrong


class Found(NamedTuple):
    """Texts of one option, and where they stand, for messages."""

    texts: list[str]
    where: str


def environment() -> dict[str, Found]:
    """What the environment says. An empty variable says nothing."""
    found = {}
    for setting in SETTINGS.values():
        if setting.variable and (text := os.environ.get(setting.variable)):
            found[setting.name] = Found([text], f"environment variable {setting.variable}")
    return found


def project(remarks: list[str]) -> dict[str, Found]:
    """What pyproject.toml says; keys that are no options are named in `remarks`. Raises `Wrong` for a broken file."""
    path, table = _nearest()
    found = {}
    for key, value in table.items():
        name, where = key.replace("_", "-"), f"{path}, [tool.shmrun] {key}"
        if name not in SETTINGS:
            remarks.append(f"{where}: no such option, ignored")
            continue
        texts = _texts(name, value, where)
        if name == "log-dir":
            texts = [str(path.parent / text) if text else "" for text in texts]
        found[name] = Found(texts, where)
    return found


def _nearest() -> tuple[Path, dict[str, Any]]:
    here = Path.cwd()
    for folder in (here, *here.parents):
        path = folder / "pyproject.toml"
        try:
            if folder != here and stat.S_IMODE(folder.stat().st_mode) & stat.S_IWOTH:
                continue
            data = path.read_bytes()
        except OSError:
            continue
        if b"shmrun" in data and (table := _table(path, data)):
            return path, table
    return here, {}


def _table(path: Path, data: bytes) -> dict[str, Any]:
    import tomllib

    try:
        table = tomllib.loads(data.decode()).get("tool", {}).get("shmrun", {})
    except (ValueError, AttributeError) as e:
        raise Wrong(f"{path} cannot be read: {e}") from e
    if not isinstance(table, dict):
        raise Wrong(f"{path}: [tool.shmrun] is no table")
    return table


def _texts(name: str, value: Any, where: str) -> list[str]:
    """A value of TOML in the words of the command line."""
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
