"""The measurements of `shmbench beyond`: a function for each group of rows, for the ranks of a new job."""

from collections.abc import Callable
from importlib import import_module

from shmbench.timing.ab_timing import Row, Settings, job


def find(name: str) -> Callable[[Settings], list[Row]]:
    """Return the function that measures the group called `name`."""
    file = import_module(f"shmbench.features.{name if name in ('jit', 'messages', 'threads') else 'arrays'}")
    measure = getattr(file, name)
    return measure if name in ("ranks", "shared_results", "threads") else lambda settings: job(2, measure, settings)
