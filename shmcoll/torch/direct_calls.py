"""The arguments of calls that a program makes on a group itself, such as `group.allreduce(tensor, op)`.

torch's functions pass an object of options. Its groups in C++ also take what the options would hold, by position or by
name. A limit of one such call has no effect here; that of the group counts.
"""

from collections.abc import Sequence
from typing import Any

import torch


def options(kind: Any, given: Any, **fields: Any) -> Any:
    """Return the options of a call: those given, or others with these fields; a field that is None has its default."""
    if hasattr(given, "asyncOp"):
        return given
    made = kind()
    for name, value in fields.items():
        if value is not None:
            setattr(made, name, value)
    return made


def first(named: Any, positional: Any) -> Any:
    """Return the argument that was passed by name or by position."""
    return positional if named is None else named


def listed(tensors: Any) -> Sequence[torch.Tensor]:
    """Return a list of tensors, of which a program may pass one."""
    return [tensors] if isinstance(tensors, torch.Tensor) else tensors


__all__ = ["first", "listed", "options"]
