"""The line in an error is the program's, through whatever it has called us."""

import functools
import sys
from concurrent.futures import ThreadPoolExecutor
from types import FunctionType

import pytest

from shmcoll.diagnostics.call_site import here


def through(file: str) -> FunctionType:
    """A function of this file that calls what it is given."""
    made: dict[str, FunctionType] = {}
    exec(compile("def call(function): return function()", file, "exec"), made)
    return made["call"]


WAYS = {
    "directly": lambda: here(),
    "shmcoll": lambda: through(sys.modules["shmcoll"].__path__[0] + "/torch/calls.py")(here),
    "standard library": lambda: functools.reduce(lambda _, __: through(functools.__file__)(here), [1, 2]),
    "torch": lambda: through("/opt/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py")(here),
    "numba": lambda: through("/usr/lib/python3/dist-packages/numba/core/dispatcher.py")(here),
    "mindspore": lambda: through("/opt/site-packages/mindspore/ops/primitive.py")(here),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_line_is_the_programs(way: str) -> None:
    function = WAYS[way]
    assert here.__module__ and function() == (__file__, function.__code__.co_firstlineno)


def test_a_package_of_the_program_counts() -> None:
    file = "/opt/lib/python3.11/site-packages/solver/steps.py"
    assert through(file)(here) == (file, 1)


def test_a_thread_of_a_framework_has_the_line_of_the_framework() -> None:
    """The program is not on its stack."""
    file = "/opt/site-packages/torch/autograd/graph.py"
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(through(file), here).result() == (file, 1)
