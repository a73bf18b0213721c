"""Whether a program sends the same large array again and again, which `shmcoll.shared` would copy once."""

import weakref
from typing import Any

import numpy as np

from shmcoll.engine.system import log

LARGE = 1 << 20  # bytes
_OFTEN = 4  # pickles
_MOST = 8  # arrays that are known

_known: dict[tuple[int, int], tuple["weakref.ref[Any]", int]] = {}  # by address and length: the owner, how often
_is_said = False


def note(array: np.ndarray) -> None:
    """Note that an array is pickled for ranks. Says a line when one is pickled for the fourth time, once."""
    global _is_said
    if _is_said or array.nbytes < LARGE:
        return
    owner: Any = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    place = array.__array_interface__["data"][0], array.nbytes
    before, times = _known.pop(place, (None, 0))
    times = times + 1 if before is not None and before() is owner else 1  # else another array has its memory now
    _known[place] = weakref.ref(owner), times
    for oldest in list(_known)[:-_MOST]:
        _known.pop(oldest, None)  # another thread may have done so
    if times >= _OFTEN:
        _is_said = True
        _known.clear()
        log.warning(
            f"the same array, of {array.dtype} and shape {array.shape}, is sent to ranks again and again, "
            f"{array.nbytes / (1 << 20):,.1f} MiB each time; shmcoll.shared(array) copies it once"
        )
