"""A program: MindSpore itself answers the recorded calls, and makes operators. It prints the differences."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import mindspore
import mindspore.common.dtype
import mindspore.common.initializer
from mindspore import ops

from shmcoll.mindspore.common.dtype import DType
from tests.frontends.test_mindspore_operator_refusals import MADE, PRINTED
from tests.support import mindspore_calls


def own(argument: Any) -> Any:
    return getattr(mindspore, argument.name) if isinstance(argument, DType) else argument


known = mindspore_calls.names(mindspore, mindspore.common)
for call, recorded in mindspore_calls.recorded():
    answer = mindspore_calls.answer(call, known)
    if answer != recorded:
        print(f"{call}: {answer} instead of {recorded}")
for name, arguments, text in PRINTED:
    made = repr(getattr(ops, name)(*map(own, arguments)))
    if made != f"Prim[{name}]<{text}>":
        print(f"{name}{arguments}: {made} instead of {text}")
for name, arguments, text in MADE:
    made = mindspore_calls.answer("make()", {"make": lambda: getattr(ops, name)(*map(own, arguments))})  # noqa: B023
    if made != text:
        print(f"{name}{arguments}: {made} instead of {text}")
