"""The notebook runs from top to bottom and prints what it holds."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

NOTEBOOK = Path(__file__).parents[2] / "examples" / "jacobi.ipynb"
NEEDED = ("nbclient", "nbformat", "ipykernel", "matplotlib", "cloudpickle")
missing = [name for name in NEEDED if find_spec(name) is None]

# In a process of its own: a notebook's client leaves threads, sockets and event loops to the end of its process.
EXECUTE = """
import sys
import nbformat
from nbclient import NotebookClient

source, folder, result = sys.argv[1:]
notebook = nbformat.read(source, as_version=4)
NotebookClient(notebook, timeout=60, resources={"metadata": {"path": folder}}).execute()
nbformat.write(notebook, result)
"""


def outputs(path: Path) -> list[dict]:
    return [output for cell in json.loads(path.read_text())["cells"] for output in cell.get("outputs", ())]


def text(output: dict) -> str:
    return "".join(output["text"] if "text" in output else output["data"]["text/plain"])


@pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}; pip install 'shmcoll[test]'")
def test_the_notebook_runs_and_prints_what_it_holds(tmp_path):
    result = tmp_path / "executed.ipynb"
    command = [sys.executable, "-c", EXECUTE, NOTEBOOK, NOTEBOOK.parent, result]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert list(map(text, outputs(result)))[:2] == list(map(text, outputs(NOTEBOOK)))[:2]
    assert "image/png" in outputs(result)[-1]["data"]


def test_the_notebook_holds_its_results():
    printed, same, picture = outputs(NOTEBOOK)
    assert "iterations; the other ranks returned [None, None, None]" in text(printed)
    assert text(same) == "True"
    assert 10_000 < len(picture["data"]["image/png"]) < 100_000
