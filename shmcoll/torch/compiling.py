"""`torch.compile` stays out of this package, as it stays out of gloo, which is in C++: it breaks its graph at a call,
and runs the call as it is. It can follow neither a communicator nor a thread.

Functional collectives are operators of torch, and do not come here while a graph is made.
"""

import sys
from types import FunctionType
from typing import Any

from torch._C._dynamo import eval_frame

_SKIP = eval_frame._FrameExecStrategy(eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP)


def keep_out(package: str, *, but: tuple[str, ...] = ()) -> None:
    """Keep `torch.compile` out of all functions and methods of the loaded modules of a package.

    Args:
        package: its name.
        but: modules, below the package, that it may follow.
    """
    left = tuple(f"{package}.{module}." for module in but)
    for name, module in sorted(sys.modules.items()):
        if f"{name}.".startswith(f"{package}.") and not f"{name}.".startswith(left):
            for one in list(vars(module).values()):
                if getattr(one, "__module__", None) == name:
                    _keep_out_of(one)


def _keep_out_of(one: Any) -> None:
    if isinstance(one, type):
        for member in list(vars(one).values()):
            _keep_out_of(getattr(member, "fget", member))
    elif isinstance(one, FunctionType):
        one._torchdynamo_disable = True  # type: ignore[attr-defined]  # where the compiler comes to a call
        eval_frame.set_code_exec_strategy(one.__code__, _SKIP)  # where native code calls


__all__ = ["keep_out"]
