"""`nki.language`, as far as kernels need it around a collective: operators, dtypes, arrays to pass, and loops.

The operators are numpy's functions, so that they also work on numpy arrays. A buffer is a place in the memory of the
hardware; the names of buffers are here so that programs can pass them. They have no effect, except for `shared_hbm`
(`shared_hbm.py`). A kernel runs as one program, number 0 of 1.
"""

from typing import Any

import ml_dtypes
import numpy as np

from shmcoll.nki import shared_hbm as tensors_of_hbm
from shmcoll.nki.loops import dynamic_range as dynamic_range
from shmcoll.nki.loops import fori_loop as fori_loop
from shmcoll.nki.loops import while_loop as while_loop

add, minimum, maximum = np.add, np.minimum, np.maximum

bool_, int8, int16, int32, int64 = np.bool_, np.int8, np.int16, np.int32, np.int64
uint8, uint16, uint32 = np.uint8, np.uint16, np.uint32
float16, float32, bfloat16 = np.float16, np.float32, ml_dtypes.bfloat16
float8_e3m4, float8_e4m3, float8_e5m2 = ml_dtypes.float8_e3m4, ml_dtypes.float8_e4m3, ml_dtypes.float8_e5m2
float8_e4m3fn, float8_e8m0fnu = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu

hbm, private_hbm, shared_hbm, sbuf, psum = "hbm", "private_hbm", "shared_hbm", "sbuf", "psum"

NkiTensor = np.ndarray
affine_range = sequential_range = static_range = range


class tile_size:  # NKI's name
    """The largest tiles of the hardware. Kernels cut their loops by these numbers; arrays here may be larger."""

    pmax = 128
    psum_fmax = 512
    gemm_stationary_fmax = 128
    gemm_moving_fmax = 512


def program_id(axis: int) -> int:
    """Return 0.

    Args:
        axis: has no effect.
    """
    return 0


def num_programs(axes: Any = None) -> int:
    """Return 1.

    Args:
        axes: has no effect.
    """
    return 1


def ndarray(shape: Any, dtype: Any, buffer: str = sbuf, name: str = "", address: Any = None) -> np.ndarray:
    """Make an array of any content.

    Args:
        shape: as for `numpy.empty`.
        dtype: as for `numpy.empty`.
        buffer: with `shared_hbm`, an `all_gather` into the array is written once for all ranks; else no effect.
        name: has no effect.
        address: has no effect.
    """
    return tensors_of_hbm.make(shape, dtype) if buffer == shared_hbm else np.empty(shape, dtype)


def zeros(shape: Any, dtype: Any, buffer: str = sbuf, name: str = "") -> np.ndarray:
    """Make an array of zeros.

    Args:
        shape: as for `numpy.zeros`.
        dtype: as for `numpy.zeros`.
        buffer: with `shared_hbm`, an `all_gather` into the array is written once for all ranks; else no effect.
        name: has no effect.
    """
    return tensors_of_hbm.make(shape, dtype) if buffer == shared_hbm else np.zeros(shape, dtype)
