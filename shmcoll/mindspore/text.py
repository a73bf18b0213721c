"""The `repr` of a tensor, character by character as MindSpore 2.10 writes it (its `ir/tensor_data.h`).

Floating elements have a fixed width and are always in scientific notation; integers are padded to the widest one shown;
complex numbers are not padded. Of a long dimension only the first and last three entries are shown. A tensor of one
dimension breaks its line after every 12 elements, 24 where they are short, the last one included.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from shmcoll.mindspore.common.dtype import DType

EDGE = 3  # shown at either end of a long dimension
LONG = 2 * EDGE
LONG_ALONE = 1000  # of a tensor of one dimension
LINE = {"f": 12, "b": 12}
LINE_OTHERWISE = 24


def describe(array: np.ndarray, dtype: DType) -> str:
    """Return a text such as `Tensor(shape=[2], dtype=Float32, value= [ 0.00000000e+00,  1.00000000e+00])`."""
    lead = "\n" if array.ndim > 1 else " "
    return f"Tensor(shape={list(array.shape)}, dtype={dtype}, value={lead}{_value(array)})"


def _value(array: np.ndarray) -> str:
    if array.size == 0:
        return ""
    if array.ndim == 0:
        return _short([array.item()], array.dtype.kind)[0]
    cut = [extent > (LONG_ALONE if array.ndim == 1 else LONG) for extent in array.shape]
    both_ends = [*range(EDGE), *range(-EDGE, 0)]
    shown = array[np.ix_(*(both_ends if short else range(n) for short, n in zip(cut, array.shape, strict=True)))]
    texts = np.array(_padded(shown.reshape(-1)), object).reshape(shown.shape)
    if array.ndim == 1 and not cut[0]:
        return f"[{_lines(texts, LINE.get(array.dtype.kind, LINE_OTHERWISE))}]"
    return _nested(texts, cut, 1)


def _nested(texts: np.ndarray, cut: Sequence[bool], depth: int) -> str:
    """Return the text of one dimension with all below it. cut: which dimensions have a gap in the middle."""
    if texts.ndim == 1:
        rows, comma, gap = list(texts), ", ", " ... "
    else:
        indent = "\n" + " " * depth
        rows, comma, gap = [_nested(row, cut[1:], depth + 1) for row in texts], "," + indent, f",{indent}...{indent}"
    if cut[0]:
        return f"[{comma.join(rows[:EDGE])}{gap}{comma.join(rows[EDGE:])}]"
    return f"[{comma.join(rows)}]"


def _lines(texts: np.ndarray, length: int) -> str:
    written = [text + ", " for text in texts[:-1]] + [texts[-1]]
    if len(texts) > EDGE:
        written[length - 1 :: length] = [text + "\n " for text in written[length - 1 :: length]]
    return "".join(written)


def _padded(array: np.ndarray) -> list[str]:
    """Return the texts of the elements of a flat array, padded to the width that they have in a row."""
    kind, values = array.dtype.kind, array.tolist()
    if kind == "f":
        width, digits = (11, 4) if array.dtype.itemsize == 2 else (15, 8)
        return [f"{value:{width}.{digits}e}" for value in values]
    if kind == "b":
        return [f"{value!s:>5}" for value in values]
    texts = _short(values, kind)
    return texts if kind == "c" else [text.rjust(max(map(len, texts))) for text in texts]


def _short(values: list[Any], kind: str) -> list[str]:
    """Return elements as C++ streams write them by default: floating ones with six significant digits."""
    if kind in "bui":
        return [str(value) for value in values]
    if kind == "c":
        return [f"{value.real:g}{value.imag:+g}j" for value in values]
    return [f"{float(value):g}" for value in values]
