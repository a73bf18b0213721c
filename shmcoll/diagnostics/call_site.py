"""The line of the user's code that called a collective. It is found when a call fails, so it costs nothing before.

The site is the innermost frame of the program: outside this package, the standard library, and the frameworks that call
us or through which a program calls us. The worker runs a call that was made elsewhere, at an earlier
time: its site is noted when it is submitted.
"""

import contextlib
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from functools import cache
from types import FrameType

from shmcoll.engine.system.text import printable
from shmcoll.engine.system.tracebacks import is_of_program, is_ours

Site = tuple[str, int]  # file, line


class _Submitted(threading.local):
    """What this thread works on. Attributes of the class: those that a thread lacks would take 2 us to look up."""

    site: Site | None = None
    is_active = False


_submitted = _Submitted()
_is_program: dict[str, bool] = {}  # by file name, because a look-up takes less time than comparing paths


def here() -> Site | None:
    """Return the line that this thread is at, or that submitted the call on which it works; None if there is no
    frame but ours."""
    if site := _submitted.site:
        return site
    return in_frame(sys._getframe(1))


def in_frame(frame: FrameType | None) -> Site | None:
    """Return the line of the program that a frame is at, or that has called it; else the innermost line that is not
    ours."""
    other: Site | None = None
    while frame is not None:
        name = frame.f_code.co_filename
        if (is_program := _is_program.get(name)) is None:
            is_program = _is_program[name] = is_of_program(name)
        if is_program:
            return name, frame.f_lineno
        if other is None and not is_ours(name):
            other = name, frame.f_lineno
        frame = frame.f_back
    return other  # the program is not on the stack, as in a thread of a framework


@contextlib.contextmanager
def submitted_at(site: Site | None) -> Iterator[None]:
    """Make `here()` in this thread return `site` within the block."""
    _submitted.site, _submitted.is_active = site, True
    try:
        yield
    finally:
        _submitted.site, _submitted.is_active = None, False


def is_submitted() -> bool:
    """Return whether this thread works on a call that was submitted. Then the user does not get its error here."""
    return _submitted.is_active


def at_site() -> str:
    """Return ' at train.py:12', for messages; empty if there is no such line."""
    site = here()
    return f" at {short_path(site[0])}:{site[1]}" if site else ""


def places(sites: Iterable[Site | None]) -> str:
    """Return the places where calls were made, each once; '' if no place is known."""
    return ", ".join(dict.fromkeys(f"{short_path(site[0])}:{site[1]}" for site in sites if site))


def short_path(path: str) -> str:
    """Return the path relative to the current directory if it is below; otherwise the whole path. For messages."""
    try:
        return _below(os.getcwd(), path)  # noqa: PTH109 - a Path would take 20 us
    except OSError:  # no current directory
        return printable(path)


@cache
def _below(folder: str, path: str) -> str:
    return printable(path.removeprefix(f"{folder}/"))  # a program that prints an error must not get another one
