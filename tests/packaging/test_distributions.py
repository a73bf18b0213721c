"""The wheel contains the three packages and nothing else; the sdist contains the project and builds the same wheel.

Here wheels are built without compiled code: with it, see `test_installation.py` and `test_build_hook.py`.
"""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PACKAGES = [ROOT / "shmcoll", ROOT / "launcher" / "shmrun", ROOT / "bench" / "shmbench"]
FOR_DEVELOPERS = (".ci/", ".github/")


def build(source: Path, into: Path, *kinds: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(into)]
    for kind in kinds:
        command += ["-t", kind]
    environment = os.environ | {"SHMCOLL_BUILD_OBJECTS": "0"}
    subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel, the sdist, and the sdist unpacked."""
    folder = tmp_path_factory.mktemp("built")
    build(ROOT, folder, "wheel", "sdist")
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    return folder


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_has_the_packages_and_nothing_else(built: Path) -> None:
    found = contents(next(built.glob("*.whl")))
    expected = {
        str(path.relative_to(folder.parent))
        for folder in PACKAGES
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in found if ".dist-info/" not in name} == expected
    assert "shmcoll/py.typed" in found
    assert not any(name.startswith(("tests/", "bench/", "docs/")) for name in found)


def test_the_wheel_describes_itself(built: Path) -> None:
    found = contents(next(built.glob("*.whl")))
    metadata = next(text.decode() for name, text in found.items() if name.endswith(".dist-info/METADATA"))
    assert "Requires-Python: >=3.11\n" in metadata
    assert "License-Expression: Apache-2.0\n" in metadata
    for version in ("3.11", "3.12", "3.13", "3.14"):
        assert f"Classifier: Programming Language :: Python :: {version}\n" in metadata
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in found)


def test_the_sdist_has_every_file_of_the_project(built: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    if listed.returncode:
        pytest.skip("this is not a git checkout, so nothing says which files there must be")
    (unpacked,) = (built / "unpacked").iterdir()
    tracked = {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}
    missing = {name for name in tracked if not (unpacked / name).is_file() and not name.startswith(FOR_DEVELOPERS)}
    assert missing == set()


def test_the_sdist_builds_the_same_wheel(built: Path, tmp_path: Path) -> None:
    (unpacked,) = (built / "unpacked").iterdir()
    build(unpacked, tmp_path, "wheel")
    assert contents(next(tmp_path.glob("*.whl"))) == contents(next(built.glob("*.whl")))
