"""The code that the commands share for reading their flags. Nothing here loads numpy."""

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import NoReturn

from shmrun.cli.config_sources import near

from shmbench.cli.sizes import parse_size


class Parser(argparse.ArgumentParser):
    """A parser that prints one line for a mistake, without the usage in front of it."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)


def door_complaint(name: str) -> str | None:
    """Return why a front end cannot be measured, or None."""
    needed = {"torch": "torch", "mpi": "mpi4py"}.get(name)  # the other doors bring what they need
    if needed and find_spec(needed) is None:
        return f"--door {name} needs {needed}: pip install 'shmcoll[{needed}]'"
    return None


def one_of(what: str, names: Sequence[str], others: Sequence[str] = ()) -> Callable[[str], str]:
    """Return the type of an option that is one of these names. others: other meanings of a word that is not one of
    them."""

    def check(text: str) -> str:
        if text not in names:
            likely = near(text, [*names, *others])
            raise argparse.ArgumentTypeError(f"unknown {what} {text!r}{likely}: choose one of {', '.join(names)}")
        return text

    check.names = list(names)  # type: ignore[attr-defined]  # for the completion
    return check


def at_least(least: int) -> Callable[[str], int]:
    """Return the type of an option that is a whole number."""

    def check(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least {least}")
        return value

    return check


def size_list(text: str) -> tuple[int, ...]:
    """Return the sizes in a list with commas."""
    return tuple(size(part) for part in text.split(","))


def size(text: str) -> int:
    """Return bytes, see `sizes`."""
    try:
        return parse_size(text)
    except ValueError as e:
        raise argparse.ArgumentTypeError(str(e)) from e
