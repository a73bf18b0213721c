"""The measurements of `shmbench beyond`: one file per group of rows. `rows(settings)` of each starts the jobs it
needs."""

from collections.abc import Callable
from importlib import import_module

from shmbench.timing.ab_timing import Row, Settings


def find(name: str) -> Callable[[Settings], list[Row]]:
    """Return the module that measures the group called `name`."""
    measure: Callable[[Settings], list[Row]] = import_module(f"shmbench.features.{name}").rows
    return measure
