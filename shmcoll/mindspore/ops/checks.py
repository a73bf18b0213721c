"""Checks of settings and arguments, with MindSpore's words."""

from typing import Any

import numpy as np

from shmcoll.mindspore import arrays


def check_type(operation: str, argument: str, value: Any, *types: type) -> None:
    """Raise `TypeError` if a value does not have one of the types. A bool is not an int."""
    if isinstance(value, types) and not isinstance(value, bool):
        return
    wanted = f"one of '{[one.__name__ for one in types]}'" if len(types) > 1 else f"'{types[0].__name__}'"
    raise TypeError(
        f"For '{operation}', the type of '{argument}' should be {wanted}, but got type '{type(value).__name__}'."
    )


def check_is_int(value: Any) -> None:
    """Raise `TypeError` if a value is not an integer. MindSpore's text has the type in place of a name."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"The type of '<class 'int'>' must be 'int', but got '{type(value).__name__}'.")


def check_rank_ids(argument: str, ranks: Any, size: int) -> None:
    """Raise `TypeError` or `ValueError` if one of `ranks` is neither -1 nor a rank of a group of `size`."""
    for rank in ranks:
        if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)):
            raise TypeError(f"The 'rank_id in {argument}' must be 'int',  but got '{type(rank).__name__}'.")
        if not -1 <= rank < size:
            raise ValueError(
                f"The 'rank_id in {argument}' must be in range of [0, {size}), but got {rank} "
                f"with type '{type(rank).__name__}'."
            )


def check_divisible(shape: tuple[int, ...], size: int) -> None:
    """Raise `ValueError` if the first dimension cannot be divided among `size` ranks."""
    if not shape:
        raise ValueError("the shape size of 'input_shape' can not be 0.")
    if shape[0] % size:
        raise ValueError(
            "the first dimension for 'input_shape' must be divided by 'rank_size', "
            f"but got input_shape[0]: {shape[0]}, rank_size: {size}"
        )


def counts(operation: str, argument: str, value: Any) -> Any:
    """Return a list, tuple or tensor of counts as a list or a flat array. Raise `TypeError` if they are not
    integers."""
    if type(value) in (list, tuple) and value:
        for one in value:
            if type(one) is not int:
                break
        else:  # the common call
            return value
    found = np.asarray(arrays.to_numpy(value) if arrays.is_tensor(value) else value).reshape(-1)
    if found.dtype.kind not in "iu":
        raise TypeError(f"For '{operation}', the '{argument}' must be integers, but got {value!r}.")
    return found.astype(np.int64)
