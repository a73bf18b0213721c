"""Arrays that numpy accepts, and that collectives refuse because data would be lost: masks, and shared elements."""

import sys
from typing import Any

import numpy as np


def check_unmasked(x: Any, name: str, operation: str, rank: int) -> None:
    """Raise `TypeError` for a masked array, and for a list or tuple that holds one: collectives would move only the
    data."""
    # If no module has imported numpy.ma, there is no masked array. numpy imports it at its first use, which must not
    # happen here: a signal handler that makes a call during that import would begin it again, endlessly
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())
    values = x if isinstance(x, (list, tuple)) else (x,)
    if any(isinstance(value, masked) for value in values):
        which = name if x is values[0] else f"an item of {name}"
        raise TypeError(
            f"{operation} on rank {rank}: {which} is a masked array, and its mask would be lost; "
            f"pass {name}.filled(value), {name}.compressed(), or {name}.data and the mask as two arrays"
        )


def check_apart(out: np.ndarray, name: str, operation: str, rank: int) -> None:
    """Raise `ValueError` for an array to be written in which several elements share memory."""
    if overlaps_itself(out):
        raise ValueError(
            f"{operation} on rank {rank}: {name} overlaps itself: of shape {out.shape} and strides {out.strides}, "
            f"several of its elements share memory; pass an array with memory for each element"
        )


def overlaps_itself(array: np.ndarray) -> bool:
    """Return whether two elements of an array share a byte.

    Slices and transposes of ordinary arrays are nested: the step of each axis is beyond all that the shorter steps
    reach. Only for other arrays, which `as_strided` makes, all addresses are listed.
    """
    axes = sorted((abs(step), length) for step, length in zip(array.strides, array.shape, strict=True) if length > 1)
    if not array.size or not axes:
        return False
    reach = array.itemsize
    for step, length in axes:
        if step < reach:
            break
        reach = step * (length - 1) + reach
    else:
        return False
    if axes[0][0] == 0:
        return True
    places = np.zeros(1, np.int64)
    for step, length in axes:
        places = np.add.outer(np.arange(length) * step, places).reshape(-1)
    places.sort()
    return bool((np.diff(places) < array.itemsize).any())
