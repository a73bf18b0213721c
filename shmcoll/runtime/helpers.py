"""Which threads of this process are this package's own.

They call only what the program has given them before. So a proof that ranks wait for one another does not count them
(`engine/protocol/deadlock.py`). A thread counts itself once it runs, and counts itself out before it ends.
"""

import contextlib
import os
import threading
from collections.abc import Iterator

import numpy as np

_number = np.zeros(1, np.int64)
ADDRESS = int(_number.ctypes.data)
_lock = threading.Lock()


@contextlib.contextmanager
def counted() -> Iterator[None]:
    """Count this thread while the body runs."""
    with _lock:
        _number[0] += 1
    try:
        yield
    finally:
        with _lock:
            _number[0] -= 1


def others_run() -> bool:
    """Return whether the program has another thread than this one."""
    me = threading.get_ident()
    return any(one.ident != me and not one.name.startswith("shmcoll-") for one in threading.enumerate())


def _forget() -> None:
    """Begin again in a fork, which has none of the threads."""
    global _lock
    _lock = threading.Lock()
    _number[0] = 0


os.register_at_fork(after_in_child=_forget)
