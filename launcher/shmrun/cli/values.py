"""From text to values of options. Each function raises `Wrong`, which says what is wrong and what to do.

The caller adds the source of the text (command line, environment, pyproject.toml).
"""

import os
from pathlib import Path

_YES = ("1", "true", "yes", "on")
_NO = ("0", "false", "no", "off")
NOT = ("off", "none", "no", "false", "0")  # for an option with a value

#: names of other launchers for values of `--bind-to`
_BINDINGS = {
    "none": ("none", *_NO),
    "core": ("core", "cores", "cpu", "hwthread", "threads", *_YES),
    "numa": ("numa", "node", "socket", "sockets", "package", "l3cache", "ldoms", "exclusive", "core-complex"),
}


class Wrong(ValueError):
    """A value, or a command line, that cannot be understood."""


def ranks(text: str) -> int:
    """Return a number of ranks. auto, or torchrun's cpu: one per usable core."""
    if text in ("auto", "cpu"):
        from shmcoll.engine.system.cores import usable_cores

        return usable_cores()
    from shmcoll.engine.layout import CELL_BYTES, most_ranks

    try:
        number = int(text)
    except ValueError:
        number = 0
    most = most_ranks(CELL_BYTES)
    if not 0 < number <= most:
        raise Wrong(f"{text!r} is not a number of ranks; give one from 1 to {most}, or auto")
    return number


def threads(text: str) -> int:
    """Return a number of threads of a rank; 0 for auto: one for each of its cores."""
    from shmcoll.engine.system.cores import MOST_THREADS

    if text == "auto":
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) < 5 and 1 <= int(text) <= MOST_THREADS):
        raise Wrong(f"{text!r} is not a number of threads; give one from 1 to {MOST_THREADS}, or auto")
    return int(text)


def seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1e9:  # false for nan
        raise Wrong(f"{text!r} is not a number of seconds")
    return number


def positive(text: str) -> float:
    """Return seconds, at least a microsecond."""
    number = seconds(text)
    if number < 1e-6:
        raise Wrong(f"{text!r} leaves no time at all; give at least a microsecond, 1e-6")
    return number


def limit(text: str) -> float | None:
    """Return seconds, or None for off."""
    return None if text.lower() in NOT[:3] else positive(text)


def memory(text: str) -> int:
    """Return an amount of memory, in bytes, from text such as 512M."""
    from shmcoll.engine.memory.available_memory import amount

    size = amount(text)
    if not 0 < size <= 1 << 42:
        raise Wrong(f"{text!r} is not an amount of memory; give one like 512M or 2G")
    return size


def switch(text: str) -> bool:
    if text.lower() not in (*_YES, *_NO):
        raise Wrong(f"{text!r} is neither true nor false")
    return text.lower() in _YES


def tables(text: str) -> bool | str:
    """Return whether to print tables, or the file that gets them instead."""
    return switch(text) if text.lower() in (*_YES, *_NO) else file(text)


def level(text: str) -> str:
    """Return the name of a level of logging."""
    from shmcoll.engine.system.log import LEVELS

    if text.lower() not in LEVELS:
        raise Wrong(f"{text!r} is not one of {', '.join(LEVELS)}")
    return text.lower()


def reader(text: str) -> str:
    """Return which rank reads the standard input: rank0 (mpiexec: 0) or none."""
    if text not in ("rank0", "0", "none"):
        raise Wrong(f"{text!r} is not one of rank0, none")
    return "none" if text == "none" else "rank0"


def reaction(text: str) -> str:
    """Return what happens to the other ranks when a rank has failed: stop or continue."""
    if text not in ("stop", "continue"):
        raise Wrong(f"{text!r} is not one of stop, continue")
    return text


def binding(text: str) -> str:
    """Return none, core or numa. Accepts the words of other launchers, for which the text behind a colon is a
    refinement."""
    word = text.partition(":")[0].lower()
    for choice, words in _BINDINGS.items():
        if word in words:
            return choice
    raise Wrong(f"{text!r} is not one of none, core, numa")


def variable(text: str) -> tuple[str, str]:
    """Return an environment variable as (name, value)."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise Wrong(f"{text!r} is not NAME=VALUE")
    return name, value


def file(text: str) -> str:
    """Return the name of a file. Checks before the job runs that it can be written."""
    path = Path(text)
    if not text or path.is_dir() or not path.parent.is_dir():
        raise Wrong(f"{text!r} is not a file in a directory that exists")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise Wrong(f"{text!r} cannot be written")
    return text


def folder(text: str) -> str:
    if not text:
        raise Wrong("the name of a directory is missing")
    return text


def folder_or_off(text: str) -> str:
    """Return a directory, or 'off'."""
    return "off" if text.lower() in NOT else folder(text)
