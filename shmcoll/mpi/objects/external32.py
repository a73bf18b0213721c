"""external32: the standard's form of data for files and other machines. Bytes go from high to low, and some basic types
have other sizes than here.

A quadruple number is what the standard has for a long double. Where that has 80 bits, its parts are moved: the sign and
the exponent are as long, and the fraction has 63 bits for 112.
"""

from collections.abc import Iterator

import numpy as np

from shmcoll.mpi.objects.datatypes import BY_NAME, Datatype

_SHORTER: dict[Datatype, np.dtype] = {
    BY_NAME["LONG"]: np.dtype("i4"),
    BY_NAME["UNSIGNED_LONG"]: np.dtype("u4"),
    BY_NAME["WCHAR"]: np.dtype("u2"),
}
_COMPLEX = {"c8": "f4", "c16": "f8", "G": "g"}
_QUADRUPLE = np.dtype([("high", ">u8"), ("low", ">u8")])
_FRACTION = np.uint64((1 << 63) - 1)


def size_of(datatype: Datatype) -> int:
    """Return how many bytes an element has."""
    return sum(length // own * other for length, own, other, _ in _sections(datatype))


def to_external(datatype: Datatype, packed: np.ndarray) -> np.ndarray:
    """Return packed elements in this form."""
    return _converted(datatype, packed, is_external=False)


def from_external(datatype: Datatype, data: np.ndarray) -> np.ndarray:
    """Return elements in this form as packed ones."""
    return _converted(datatype, data, is_external=True)


def _converted(datatype: Datatype, data: np.ndarray, *, is_external: bool) -> np.ndarray:
    size, other = datatype.size, size_of(datatype)
    if is_external:
        size, other = other, size
    rows = data.reshape(-1, size) if size else data.reshape(0, 0)
    result = np.empty((len(rows), other), np.uint8)
    read = written = 0
    for length, here, there, basic in _sections(datatype):
        n = length // here
        given, needed = (there, here) if is_external else (here, there)
        part = np.ascontiguousarray(rows[:, read : read + n * given])
        result[:, written : written + n * needed] = _section(part, basic, is_external).reshape(len(rows), -1)
        read, written = read + n * given, written + n * needed
    return result.ravel()


def _sections(datatype: Datatype) -> Iterator[tuple[int, int, int, Datatype]]:
    """Yield, for packed bytes of one basic type: how many, the size of that type here and there, the type."""
    for length, basic in datatype.sections:
        yield length, basic.size, _SHORTER[basic].itemsize if basic in _SHORTER else basic.size, basic


def _section(data: np.ndarray, basic: Datatype, is_external: bool) -> np.ndarray:
    """Return bytes of one basic type in the other form."""
    own = _scalar(basic)
    if own == np.dtype("g"):
        return (_from_quadruple if is_external else _to_quadruple)(data)
    other = np.dtype(_SHORTER.get(basic, own)).newbyteorder(">")
    given, needed = (other, own) if is_external else (own, other)
    return np.ascontiguousarray(data.view(given).astype(needed)).view(np.uint8)


def _scalar(basic: Datatype) -> np.dtype:
    """Return the dtype whose bytes change their order."""
    if basic.dtype is None:
        return np.dtype({2: "u2", 4: "u2"}.get(basic.size, "u1"))  # bfloat16, and a complex number of two float16
    code = {np.dtype(a): b for a, b in _COMPLEX.items()}.get(basic.dtype)
    return np.dtype(code) if code else np.dtype(f"u{basic.size}") if basic.dtype.kind == "b" else basic.dtype


def _to_quadruple(data: np.ndarray) -> np.ndarray:
    if np.finfo(np.longdouble).nmant == 112:
        return np.ascontiguousarray(data.reshape(-1, 16)[:, ::-1])
    words = data.reshape(-1).view(np.uint64).reshape(-1, 2)
    fraction, head = words[:, 0] & _FRACTION, words[:, 1] & np.uint64(0xFFFF)
    made = np.empty(len(words), _QUADRUPLE)
    made["high"] = head << np.uint64(48) | fraction >> np.uint64(15)
    made["low"] = fraction << np.uint64(49)
    return made.view(np.uint8)


def _from_quadruple(data: np.ndarray) -> np.ndarray:
    if np.finfo(np.longdouble).nmant == 112:
        return np.ascontiguousarray(data.reshape(-1, 16)[:, ::-1])
    given = data.reshape(-1).view(_QUADRUPLE)
    high, low = given["high"].astype(np.uint64), given["low"].astype(np.uint64)
    head = high >> np.uint64(48)
    is_normal = (head & np.uint64(0x7FFF) != 0).astype(np.uint64)  # of 80 bits, the first is stored
    words = np.zeros((len(given), 2), np.uint64)
    fraction = (high & np.uint64((1 << 48) - 1)) << np.uint64(15) | low >> np.uint64(49)
    words[:, 0] = fraction | is_normal << np.uint64(63)
    words[:, 1] = head
    return words.view(np.uint8)
