"""The bar of `map`: how many items are done, and how long the others take. tqdm draws it."""

import contextlib
import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import Any, Protocol


class Bar(Protocol):
    """What is told how many more items are done."""

    def update(self, n: int, /) -> Any: ...


Show = Callable[[int | None], AbstractContextManager[Bar]]


class _NoBar:
    def update(self, n: int, /) -> None:
        pass


def checked(progress: bool) -> Show:
    """Return the function that shows a bar of so many items, if one is wanted and can be seen. Raises `ImportError` if
    tqdm is not installed."""
    if progress and find_spec("tqdm") is None:
        raise ImportError("progress=True needs tqdm, which is not installed: pip install 'shmcoll[progress]'")
    return (
        _shown if progress and (_in_notebook() or sys.stderr.isatty()) else lambda _: contextlib.nullcontext(_NoBar())
    )


def _shown(total: int | None) -> AbstractContextManager[Bar]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a notebook without widgets has a bar of text
        from tqdm.auto import tqdm

        class Shown(tqdm):
            monitor_interval = 0  # without a thread that redraws it, which a fork would lose

        bar: AbstractContextManager[Bar] = Shown(total=total, unit="item", dynamic_ncols=True)
    return bar


def _in_notebook() -> bool:
    streams = sys.modules.get("ipykernel.iostream")
    return streams is not None and isinstance(sys.stderr, streams.OutStream)
