"""Calls that programs around collectives make, in order, as expressions; and how MindSpore or our package answers.

`mindspore_2_10.txt` has the calls, and the answers of MindSpore 2.10 on a CPU.
"""

from pathlib import Path
from typing import Any

import numpy as np

RECORDED = Path(__file__).parent.parent / "frontends/mindspore_2_10.txt"

#: other answers of our package, and the reasons
OTHERWISE = {
    "Tensor.from_numpy(np.ones(2))": (
        "Tensor(shape=[2], dtype=Float64, value= [ 1.00000000e+00,  1.00000000e+00])",
        "MindSpore prints a tensor as numpy does while it shares the memory of an array",
    ),
}


def recorded() -> list[tuple[str, str]]:
    """Return the calls with the answers of MindSpore 2.10."""
    parts = RECORDED.read_text().split(">>> ")[1:]
    return [(call, answer.removesuffix("\n")) for call, _, answer in (part.partition("\n") for part in parts)]


def names(ms: Any, common: Any) -> dict[str, Any]:
    """Return the names that the expressions use.

    Args:
        ms: MindSpore or our package.
        common: its `common`.
    """
    nn, Tensor = ms.nn, ms.Tensor
    cell: Any = nn.Cell

    class Twice(cell):
        def construct(self, x: Any) -> Any:
            return x * 2

    class Net(cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = ms.Parameter(Tensor([1.0, 2.0]), name="w")
            self.b = ms.Parameter(Tensor([0.0]), requires_grad=False)
            self.inner = Inner()
            self.twice = Twice()

    class Inner(cell):
        def __init__(self) -> None:
            super().__init__()
            self.v = ms.Parameter(Tensor([[1, 2]]))

    return {
        "ms": ms, "np": np, "nn": nn, "ops": ms.ops, "mint": ms.mint, "context": ms.context,
        "Tensor": Tensor, "Parameter": ms.Parameter,
        "One": common.initializer.One, "Constant": common.initializer.Constant, "Twice": Twice, "net": Net(),
        "initializer": common.initializer.initializer, "mstype": common.dtype,
        "x": Tensor(np.arange(6.0).reshape(2, 3), ms.float32), "y": Tensor([1.0, 2.0]),
        "i": Tensor([1, 2, 3]), "i3": Tensor([1, 2, 3], ms.int32),
    }  # fmt: skip


def answer(expression: str, known: dict[str, Any]) -> str:
    """Return how an expression is answered, in words that do not depend on the package's name."""
    try:
        found = eval(expression, known)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return repr(found).replace("shmcoll.mindspore", "mindspore")
