"""The native entry that reads tensors (`engine/native/tensor_entry.py`), with a table for each group.

Two places are not in torch's public interface: that of the C++ tensor in a Python object, and that of the dispatch keys
behind it. They are looked for in living tensors, of which torch says what must be there. If they are not found, or
torch lacks one of the C functions, every call goes by way of Python.
"""

import ctypes
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import torch

from shmcoll.engine import context as c
from shmcoll.engine.compiler.compile import load_functions
from shmcoll.engine.kernels.dtypes import BY_NAME
from shmcoll.engine.layout import WORD
from shmcoll.engine.native import tensor_entry as t
from shmcoll.engine.native.entry import FAST, make_callable
from shmcoll.engine.native.tables import type_word

_FUNCTIONS = {
    t.IS_CONTIGUOUS: "aoti_torch_is_contiguous",
    t.GET_DTYPE: "aoti_torch_get_dtype",
    t.GET_DATA: "aoti_torch_get_data_ptr",
    t.GET_DIMENSIONS: "aoti_torch_get_dim",
    t.GET_SIZES: "aoti_torch_get_sizes",
}
_PLACES = range(2 * WORD, 24 * WORD, WORD)  # all within the objects in which they are read


def entry_of(context: np.ndarray) -> Callable[..., int]:
    """Return the entry for a group, or a function that leaves every call to Python. The first call in a process loads
    or compiles it."""
    known = _known() if FAST else None
    if known is None:
        return lambda *_: c.NEEDS_PYTHON
    (address,) = load_functions(t.NAME, t.functions)
    table = known.copy()
    table[t.CONTEXT // WORD] = context.ctypes.data
    return make_callable(t.NAME, address, 0, table)


@cache
def _known() -> np.ndarray | None:
    """Return the table without the context; None if torch is not as this file expects it."""
    library = ctypes.CDLL(torch._C.__file__)
    samples = list(_samples())
    at = _only([place for place in _PLACES[:4] if all(_word(id(one) + place) == one._cdata for one in samples)])
    keys = _only([place for place in _PLACES if all(_word(one._cdata + place) == _keys(one) for one in samples)])
    if at is None or keys is None or not all(hasattr(library, name) for name in _FUNCTIONS.values()):
        return None
    table = np.zeros(t.TABLE_WORDS, np.int64)
    for place, value in (
        (t.TENSOR, id(torch.Tensor)),
        (t.PARAMETER, id(torch.nn.Parameter)),
        (t.HANDLE_AT, at),
        (t.KEYS_AT, keys),
        (t.PLAIN_KEYS, _keys(samples[0])),
        (t.INFERENCE_KEYS, _keys(samples[1])),
        *((place, _address(getattr(library, name))) for place, name in _FUNCTIONS.items()),
    ):
        table[place // WORD] = value
    for name, known in BY_NAME.items():
        if (dtype := getattr(torch, name, None)) is not None:
            table[t.TYPES // WORD + _number(library, torch.empty(0, dtype=dtype), at)] = type_word(known)
    return table


def _samples() -> Iterator[torch.Tensor]:
    """Return tensors whose dispatch keys differ; first a plain one, then one of inference mode."""
    yield torch.ones(1)
    with torch.inference_mode():
        yield torch.ones(1)
    yield torch.ones(1, dtype=torch.complex64).conj()
    yield torch.ones(1, device="meta")


def _number(library: ctypes.CDLL, tensor: torch.Tensor, at: int) -> int:
    """Return torch's number of the dtype of a tensor."""
    number = ctypes.c_int32()
    library.aoti_torch_get_dtype(ctypes.c_void_p(id(tensor) + at), ctypes.byref(number))
    return number.value


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _keys(tensor: torch.Tensor) -> int:
    return ctypes.c_int64(torch._C._dispatch_keys(tensor).raw_repr()).value


def _only(places: list[int]) -> int | None:
    return places[0] if len(places) == 1 else None


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


__all__ = ["entry_of"]
