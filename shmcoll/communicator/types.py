"""The types in the signatures of the public methods."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex, TypeAlias

from numpy.typing import ArrayLike, DTypeLike, NDArray

if TYPE_CHECKING:
    from shmcoll.engine.compiler.user_operators import Op, PremulSum


class SupportsDLPack(Protocol):
    """An array of another library, by DLPack. Its memory is written in place."""

    def __dlpack__(self) -> Any: ...


class SupportsArrayInterface(Protocol):
    """An array of another library, by numpy's array interface."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


Array: TypeAlias = NDArray[Any]
Out: TypeAlias = "Array | SupportsDLPack | SupportsArrayInterface | bytearray | memoryview | array[Any]"
Outs: TypeAlias = "Out | Sequence[Out]"
Operator: TypeAlias = "str | Op | PremulSum | Callable[..., Any]"
Counts: TypeAlias = "Sequence[SupportsIndex] | NDArray[Any]"
Pairs: TypeAlias = Iterable[Sequence[SupportsIndex]]
Shape: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
Received: TypeAlias = tuple[Array, int, int]

__all__ = [
    "Array",
    "ArrayLike",
    "Counts",
    "DTypeLike",
    "Operator",
    "Out",
    "Outs",
    "Pairs",
    "Received",
    "Shape",
]
