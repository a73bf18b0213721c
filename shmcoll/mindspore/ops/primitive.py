"""The base of all operators: attributes, the group, and the kinds of tensors that go in and come out.

An operator is made once with its settings. A call runs `_forward` on plain arrays and returns the kind of tensor that
it was given. For MindSpore's own tensors `gradients.recorded` runs it.
"""

from typing import Any

import numpy as np

from shmcoll.communicator import Communicator
from shmcoll.engine.system.tracebacks import shorten
from shmcoll.mindspore import arrays
from shmcoll.mindspore.common.tensor import Tensor
from shmcoll.mindspore.communication import HCCL_WORLD_COMM_GROUP, GlobalComm, communicator
from shmcoll.mindspore.ops import gradients

_view = np.ndarray.view  # `Tensor.view` is MindSpore's


def or_scalar(x: np.ndarray) -> np.ndarray:
    """Return a result of different lengths; a 0-d array if it is empty, as MindSpore's are."""
    return x if x.size else np.zeros((), x.dtype)


class Primitive:
    """An operation with named attributes. In MindSpore they describe it to the compiler of graphs."""

    group: Any
    cell: Any = None  # made by `gradients`

    def __init__(self, **settings: Any):
        if settings.get("group") == HCCL_WORLD_COMM_GROUP:  # it means the world in every backend
            settings["group"] = GlobalComm.WORLD_COMM_GROUP
        self.name = type(self).__name__
        self.attrs = settings
        vars(self).update(settings)

    def add_prim_attr(self, name: str, value: Any) -> "Primitive":
        """Set an attribute and return self. Raises `TypeError` if "fusion" is not an integer."""
        if name == "fusion" and (not isinstance(value, int) or isinstance(value, bool)):
            raise TypeError(f"For '{self.name}', the 'fusion' must be int, but got {type(value).__name__}.")
        self.attrs[name] = value
        return self

    def del_prim_attr(self, name: str) -> "Primitive":
        """Forget an attribute and return self."""
        self.attrs.pop(name, None)
        return self

    def recompute(self, mode: bool = True) -> "Primitive":
        """Set the attribute "recompute" and return self."""
        return self.add_prim_attr("recompute", mode)

    def set_device(self, device_target: str) -> "Primitive":
        """Set the attribute "primitive_target" and return self."""
        return self.add_prim_attr("primitive_target", device_target)

    def set_prim_instance_name(self, name: str) -> "Primitive":
        """Keep a name and return self."""
        self.instance_name = name
        return self

    def set_stage(self, stage: int) -> "Primitive":
        """Set the attribute "stage" and return self."""
        return self.add_prim_attr("stage", stage)

    def shard(self, in_strategy: Any = None, out_strategy: Any = None) -> "Primitive":
        """Set the attributes of these names, if they are not None, and return self."""
        given = {"in_strategy": in_strategy, "out_strategy": out_strategy}
        self.attrs.update((name, value) for name, value in given.items() if value is not None)
        return self

    def get_attr_dict(self) -> dict[str, Any]:
        """Return the attributes by name."""
        return self.attrs

    def __repr__(self) -> str:
        return f"Prim[{self.name}]<{', '.join(f'{name}={value}' for name, value in self.attrs.items())}>"

    @property
    def __parse_method__(self) -> str:
        """Refuse MindSpore's compiler of graphs, which asks for this name first and cannot compile an operator."""
        raise RuntimeError(
            f"For '{self.name}' of shmcoll.mindspore, Graph mode and jit are not supported: use PyNative mode, "
            "mindspore.set_context(mode=mindspore.PYNATIVE_MODE)."
        )

    @property
    def comm(self) -> Communicator:
        """The communicator of the group. Raises `RuntimeError` if the group does not exist."""
        return communicator(self.group)

    def _as_array(self, x: Any) -> np.ndarray:
        if type(x) is Tensor:  # the common call
            return _view(x, np.ndarray)
        if not arrays.is_tensor(x):
            got = "Int64" if type(x) is int else type(x).__name__  # as MindSpore names a number
            raise TypeError(f"For '{self.name}', input must be a Tensor, but got: {got}{arrays.advice(x)}.")
        return arrays.to_numpy(x)

    def _as_arrays(self, xs: Any) -> list[np.ndarray]:
        if not isinstance(xs, (tuple, list)):
            got = f"Tensor[{arrays.dtype_of(xs)}]" if arrays.is_tensor(xs) else type(xs).__name__
            raise TypeError(f"For primitive[{self.name}], the input[0] should be a Tuple, but got {got}.")
        return [_view(x, np.ndarray) if type(x) is Tensor else self._as_array(x) for x in xs]


class Collective(Primitive):
    """An operator of one tensor. If a call has other `arguments`, the operator has a `__call__` that names them."""

    def _call(self, input_x: Any, *arguments: Any) -> Any:
        try:
            kind = type(input_x)
            if kind is Tensor or kind is np.ndarray:  # the common calls take the shortest way
                result = self._forward(_view(input_x, np.ndarray) if kind is Tensor else input_x, *arguments)
                if type(result) is not np.ndarray:
                    result = np.asarray(result)
                return result if kind is np.ndarray else _view(result, Tensor)
            if arrays.is_foreign(input_x):
                return gradients.recorded(self, self._forward, (input_x,), arguments)
            return arrays.like(input_x, self._forward(self._as_array(input_x), *arguments))
        except BaseException as error:
            shorten(error)
            raise

    __call__ = _call

    def _forward(self, x: np.ndarray, *arguments: Any) -> Any:
        """Return the result, an array or a scalar."""
        raise NotImplementedError
