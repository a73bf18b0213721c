"""From a notebook: functions of a cell, what ranks print appears below it, tracebacks show its lines."""

from typing import Any

import pytest

pytestmark = pytest.mark.slow

NOTEBOOK = """
import logging
import nbclient, nbformat

logging.disable()
cell = '''
import shmcoll

def work(scale):
    comm = shmcoll.init()
    print("rank", comm.rank)
    return comm.rank * scale

shmcoll.run(work, 2, 10)
'''
items = '''
import warnings

warnings.simplefilter("error")
print(shmcoll.map(abs, [-1, -2, -3], n=2, progress=True))
'''
failing = '''
def fail():
    return 1 // 0  # the guilty line

shmcoll.run(fail, 1)
'''
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in (cell, failing, items)])
nbclient.NotebookClient(notebook, timeout=60, allow_errors=True).execute()
[error] = [o for o in notebook.cells[1].outputs if o["output_type"] == "error"]
print(error["ename"], any("in fail\\n    return 1 // 0  # the guilty line" in text for text in error["traceback"]))
outputs = notebook.cells[2].outputs
print("3/3" in str(outputs), "[1, 2, 3]" in str(outputs))
outputs = notebook.cells[0].outputs
print(outputs[-1]["data"]["text/plain"])
print("".join(o["text"] for o in outputs if o.get("name") == "stdout"), end="")
"""


def test_cell(scripts: Any) -> None:
    for module in ("nbclient", "nbformat", "ipykernel"):
        pytest.importorskip(module)
    script = scripts.start(NOTEBOOK)
    out, err = script.communicate(timeout=120)
    assert script.returncode == 0, err
    assert sorted(out.splitlines()) == ["True True", "ZeroDivisionError True", "[0, 10]", "rank 0", "rank 1"]
