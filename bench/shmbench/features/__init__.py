"""The measurements of `shmbench beyond`: a function for each group of rows, most of them for 2 ranks of a new job."""

from collections.abc import Callable
from functools import partial
from importlib import import_module

from shmbench.timing.ab_timing import Row, Settings, job

FILES = {
    "jit": "jit",
    "messages": "messages",
    "objects": "objects",
    "asynchronous": "asynchronous",
    "start": "processes",
    "memory": "processes",
}  # the others are in `arrays`
STARTING_JOBS = ("ranks", "start", "memory")  # they take the settings


def find(name: str) -> Callable[[Settings], list[Row]]:
    """Return the function that measures the group called `name`."""
    measure = getattr(import_module(f"shmbench.features.{FILES.get(name, 'arrays')}"), name)
    return measure if name in STARTING_JOBS else partial(job, 2, measure)
