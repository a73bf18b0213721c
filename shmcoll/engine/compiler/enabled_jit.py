"""NUMBA_DISABLE_JIT, by which users debug their own jitted functions, does not keep our code from being compiled."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def enabled_jit() -> Iterator[None]:
    """Let numba compile in the block. The caller defers signals, because numba is imported here."""
    import numba

    config: Any = numba.config
    usual, config.DISABLE_JIT = config.DISABLE_JIT, 0
    try:
        yield
    finally:
        config.DISABLE_JIT = usual
