"""The frames that users see in the traceback of an exception."""

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import shmcoll

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


def raised(call: Callable[[], Any], what: str = "the call") -> BaseException:
    """What a call raises."""
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError(f"{what} has raised nothing")
