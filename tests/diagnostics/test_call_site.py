"""The line in an error is the program's, through whatever it has called us."""

import asyncio
import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FunctionType
from typing import Any

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
    "a wrapper around torch": lambda: through("/opt/site-packages/typing_extensions.py")(here),
    "mindspore": lambda: through("/opt/site-packages/mindspore/ops/primitive.py")(here),
}


class Decorated:
    """Functions of the program between the line and us."""

    @staticmethod
    def decorator(function: Callable[[], Any]) -> Callable[[], Any]:
        @functools.wraps(function)
        def call() -> Any:
            return function()

        return call

    @contextlib.contextmanager
    def block() -> Iterator[Any]:  # type: ignore[misc]
        yield here()


async def in_coroutine() -> Any:
    return here()


NESTED: dict[str, Callable[[], Any]] = {
    "partial": lambda: functools.partial(here)(),
    "decorator": Decorated.decorator(lambda: here()),
    "list comprehension": lambda: [here() for _ in range(2)][1],
    "generator": lambda: next(here() for _ in range(1)),
    "contextlib": lambda: contextlib.ExitStack().__enter__().callback(here)(),
    "ThreadPoolExecutor": lambda: ThreadPoolExecutor(1).submit(lambda: here()).result(),
    "sort key": lambda: sorted([1], key=lambda _: here())[0] and here(),
    "cached property": lambda: functools.lru_cache(lambda: here())(),
}


@pytest.mark.parametrize("way", NESTED)
def test_the_line_is_the_innermost_of_the_program(way: str) -> None:
    function = inspect.unwrap(NESTED[way])
    assert NESTED[way]() == (__file__, function.__code__.co_firstlineno)


def test_the_line_in_a_coroutine_and_in_a_context_manager() -> None:
    assert asyncio.run(in_coroutine()) == (__file__, in_coroutine.__code__.co_firstlineno + 1)
    with Decorated.block() as site:  # type: ignore[misc]
        assert site == (__file__, Decorated.block.__wrapped__.__code__.co_firstlineno + 2)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "file",
    ["<stdin>", "<string>", "<ipython-input-3-0f>", "/tmp/ipykernel_7/1.py", "/tmp/app.zip/__main__.py", "m.py"],
)
def test_code_without_a_file_is_the_programs(file: str) -> None:
    assert through(file)(here) == (file, 1)


@pytest.mark.parametrize("file", ["<frozen runpy>", "<decorator-gen-12>", "<attrs generated init m.C>"])
def test_generated_code_of_libraries_is_not_the_programs(file: str) -> None:
    def call() -> Any:
        return through(file)(here)

    assert call() == (__file__, call.__code__.co_firstlineno + 1)


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
