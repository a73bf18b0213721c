"""Tracebacks of ranks show the lines of functions that are in no file."""

import linecache
from typing import Any

import pytest

import shmcoll
from tests.support.patience import PATIENCE

CELL = """\
def inner(x):
    return 1 // x  # the guilty line

class Divider:
    def divide(self, x):
        return inner(x)

def fail():
    return Divider().divide(0)
"""


def cell(number: int, text: str = CELL) -> dict[str, Any]:
    """What a notebook's cell defines, and keeps the lines of."""
    name = f"<ipython-input-{number}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), names)
    return names


def shown(call: Any) -> str:
    with pytest.raises(ZeroDivisionError) as caught:
        call()
    return str(caught.value.__cause__)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_lines_of_a_cell(method: str) -> None:
    text = shown(lambda: shmcoll.run(cell(1)["fail"], 1, method=method))
    for line, code, function in ((9, "return Divider().divide(0)", "fail"), (6, "return inner(x)", "divide")):
        assert f'File "<ipython-input-1>", line {line}, in {function}\n    {code}\n' in text
    assert "line 2, in inner\n    return 1 // x  # the guilty line\n" in text


def test_lines_of_an_item_and_of_an_argument() -> None:
    fail = cell(2)["fail"]
    assert "# the guilty line" in shown(lambda: shmcoll.map(lambda f: f(), [fail]))
    assert "# the guilty line" in shown(lambda: shmcoll.run(lambda f: f(), 1, fail))


def test_lines_of_each_call_of_ranks_that_stay() -> None:
    with shmcoll.ranks(1) as r:
        for number in (3, 4):
            text = CELL.replace("guilty line", f"line of cell {number}")
            assert f"# the line of cell {number}" in shown(lambda text=text, n=number: r.run(cell(n, text)["fail"]))


def test_a_function_without_lines_fails_as_it_does_here() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(CELL, "<string>", "exec"), names)
    assert 'File "<string>", line 2, in inner\n' in shown(lambda: shmcoll.run(names["fail"], 1))


INTERACTIVE = """
import code
console = code.InteractiveConsole()
for line in ('import shmcoll', 'def fail():', '    return 1 // 0', '', 'shmcoll.run(fail, 1)'):
    console.push(line)
"""


def test_a_function_of_a_prompt(scripts: Any) -> None:
    script = scripts.start(INTERACTIVE)
    _, err = script.communicate(timeout=PATIENCE)
    assert "ZeroDivisionError" in err
    assert "in fail\n" in err
