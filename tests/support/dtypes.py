"""The element types and reductions that tests draw from: those that the library has."""

from shmcoll.engine.compiler.compile import all_kernels
from shmcoll.engine.kernels.dtypes import BY_NAME, DTYPES, PAIRS, DType

__all__ = ["BY_NAME", "DTYPES", "PAIRS", "DType", "all_kernels"]
