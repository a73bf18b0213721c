"""What the tests of the examples share."""

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.patience import PATIENCE

EXAMPLES = Path(__file__).parents[2] / "examples"


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _printed(name: str, n: int, *arguments: object) -> str:
    command = [sys.executable, "-m", "shmrun", "-n", str(n), str(EXAMPLES / f"{name}.py"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture
def load() -> Callable[[str], ModuleType]:
    """`load(name)`: the example as a module, to call its functions."""
    return _load


@pytest.fixture
def printed() -> Callable[..., str]:
    """`printed(name, n, *arguments)`: what the example prints on n ranks under the launcher."""
    return _printed
