"""Operators that compute: AllReduce, and the names of the operators of reduction."""

from typing import Any

from shmcoll.mindspore import arrays
from shmcoll.mindspore.communication import GlobalComm, communicator
from shmcoll.mindspore.ops.primitive import Primitive


class ReduceOp:
    """The operators of `AllReduce`. AVG is the sum divided by the group's size; not for integers."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    PROD = "prod"
    AVG = "avg"


class AllReduce(Primitive):
    """Reduce the tensors of all ranks element by element, on every rank: `AllReduce(op, group)(input_x)`.

    The call takes a tensor of any shape, of any integer, floating or complex type; shape and type are equal on all
    ranks. It returns a new tensor of that shape and type.

    Args:
        op: one of `ReduceOp`.
        group: the name of the group.

    Raises:
        TypeError: `op` or `group` is not a string. The call raises it for an input that is not a tensor, or is bool.
        ValueError: the call raises it for an `op` that does not exist, as MindSpore leaves
            that to its backend.
        RuntimeError: the call was made before `communication.init`.
    """

    def __init__(self, op: str = ReduceOp.SUM, group: str = GlobalComm.WORLD_COMM_GROUP):
        super().__init__(op=op, group=group, fusion=0, index=0, no_eliminate=True)
        for argument, value in (("op", op), ("group", group)):
            if not isinstance(value, str):
                raise TypeError(f"For '{self.name}', the '{argument}' must be str, but got {type(value).__name__}.")
        self.op = op
        self.group = group

    def __call__(self, input_x: Any) -> Any:
        array = self._as_array(input_x)
        if array.dtype == bool:
            raise TypeError(f"For '{self.name}', the dtype of the input must be a number, but got Bool.")
        return arrays.like(input_x, communicator(self.group).all_reduce(array, self.op))
