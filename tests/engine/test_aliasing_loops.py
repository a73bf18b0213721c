"""A kernel has a loop of its own, in vectors, for each way in which its arrays may share memory."""

import re

import pytest

from shmcoll.engine.compiler import compile as code
from shmcoll.engine.kernels import kernels
from shmcoll.engine.kernels.dtypes import BY_NAME

pytestmark = pytest.mark.slow

LOOPS = 4  # STEP; the last step into the source, into the accumulator, and into a third array. JOIN may have its own


@pytest.mark.parametrize(("dtype", "addition"), [("float32", "fadd"), ("int64", "add")])
def test_each_aliasing_has_a_vector_loop(dtype: str, addition: str) -> None:
    kernel = kernels.make_kernel(BY_NAME[dtype], "sum")
    module = str(code.optimised_module({"kernel": (kernel, 6)}))
    bodies = re.split(r"^(?=[\w.]+:)", module, flags=re.MULTILINE)
    loops = [body for body in bodies if re.match(r"vector\.body[\w.]*:", body)]
    element = "float" if dtype == "float32" else "i64"
    adding = [body for body in loops if re.search(rf"= {addition} <\d+ x {element}> %wide", body)]
    assert len(adding) >= LOOPS, [body.splitlines()[0] for body in loops]
