"""A file that hides a module which we import is named, and no compiling waits for itself because of it."""

import os
import subprocess
import sys

import pytest

from tests.support.patience import PATIENCE

JOB = "import shmcoll\nprint(shmcoll.init().all_reduce(1))\n"


def ends(folder, script: str, **variables: str) -> str:
    """Return the last line of what a script prints when Python runs it."""
    command, env = [sys.executable, script], {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"} | variables
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env, timeout=PATIENCE)
    return (done.stdout + done.stderr).strip().rpartition("\n")[2]


@pytest.mark.parametrize("name", ["numpy", "queue", "traceback"])
def test_a_script_that_hides_a_module_is_named(tmp_path, name):
    (tmp_path / f"{name}.py").write_text(JOB)
    hides = f"ImportError: {tmp_path}/{name}.py hides the module {name!r}, which shmcoll needs"
    assert ends(tmp_path, f"{name}.py") == f"{hides}: give the file another name"


def test_a_neighbour_that_hides_a_module_is_named(tmp_path):
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text("x = 1\n")
    (tmp_path / "job.py").write_text("import shmcoll\nshmcoll.jit\n")
    assert f"ImportError: {tmp_path}/numba/__init__.py hides the module 'numba'" in ends(tmp_path, "job.py")


def test_a_call_from_within_its_own_compiling_does_not_wait_for_it(tmp_path):
    (tmp_path / "numba.py").write_text(JOB)
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    end = ends(tmp_path, "numba.py", SHMCOLL_CACHE_DIR=str(cache))
    assert f"{tmp_path}/numba.py hides the module 'numba'" in end


def test_other_failures_stay_as_they_are(tmp_path):
    (tmp_path / "queue.py").write_text("import shmcoll, sys\nsys.modules['numpy'] = None\nshmcoll.init\n")
    assert ends(tmp_path, "queue.py").startswith("ModuleNotFoundError: import of numpy halted")


def test_another_system_is_named(tmp_path):
    (tmp_path / "job.py").write_text("import sys\nsys.platform, sys.modules['fcntl'] = 'win32', None\n" + JOB)
    expected = "ImportError: shmcoll runs on Linux, not on win32: use WSL 2 on Windows, a container elsewhere"
    assert ends(tmp_path, "job.py") == expected


def test_an_older_python_is_named(tmp_path):
    (tmp_path / "job.py").write_text("import sys\nsys.hexversion, sys.modules['numpy'] = 0x030A0000, None\n" + JOB)
    assert ends(tmp_path, "job.py").startswith(
        f"ImportError: shmcoll needs Python 3.11 or later, and {sys.executable} is "
    )
