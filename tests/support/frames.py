"""The frames that users see in the traceback of an exception."""

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import shmcoll
from shmcoll.diagnostics.call_site import short_path

PACKAGE = str(Path(shmcoll.__file__).parent)


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and those that led to it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def frames(error: BaseException) -> list[str]:
    """The functions of the frames of an exception and of those that led to it; ours begin with "shmcoll"."""
    return [
        f"shmcoll {frame.name}" if frame.filename.startswith(PACKAGE) else frame.name
        for one in chain(error)
        for frame in traceback.extract_tb(one.__traceback__)
    ]


def ours(error: BaseException) -> list[str]:
    """The frames that are ours."""
    return [name for name in frames(error) if name.startswith("shmcoll ")]


def line_of(function: Callable[..., Any], below: int = 0) -> str:
    """'tests/crash/test_mismatch.py:22', of the function's first line or one below it, as messages show it."""
    code = function.__code__
    return f"{short_path(code.co_filename)}:{code.co_firstlineno + below}"


def raised(call: Callable[[], Any], what: str = "the call") -> BaseException:
    """What a call raises."""
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError(f"{what} has raised nothing")
