"""Commands that run where /dev/shm has a few MiB, in a mount namespace of their own, and what errors say of amounts."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.patience import PATIENCE


def in_small_memory(folder: Path, mib: float, command: list[str], **environment: str) -> Any:
    """Run a command where /dev/shm has so many MiB. The test is skipped where nobody may mount."""
    mount = f'mount -t tmpfs -o size={int(mib * 1024)}k tmpfs /dev/shm || exit 99; exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mount, "sh", *command],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode == 99 or "unshare" in done.stderr:
        pytest.skip(f"nobody may mount here: {done.stderr.strip()}")
    return done


def with_little_memory(folder: Path, **environment: str) -> dict[str, str]:
    """An environment whose Python programs believe that the machine has 1 MiB left: too little for any job."""
    (folder / "little").mkdir(exist_ok=True)
    told = """
from shmcoll.engine.memory import available_memory

room = available_memory._memory_room()
available_memory._memory_room = lambda: room._replace(free=1 << 20)
"""
    (folder / "little" / "sitecustomize.py").write_text(told)
    path = [str(folder / "little"), environment.get("PYTHONPATH") or os.environ.get("PYTHONPATH", "")]
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, path))}


def without_memfd(folder: Path) -> dict[str, str]:
    """An environment whose Python programs are refused a memfd for the arena, as in a sandbox: it is in /dev/shm."""
    (folder / "refused").mkdir(exist_ok=True)
    (folder / "refused" / "sitecustomize.py").write_text("""
import os

make = os.memfd_create

def memfd_create(name, *flags):
    if name == "shmcoll":
        raise PermissionError(1, "Operation not permitted")
    return make(name, *flags)

os.memfd_create = memfd_create
""")
    path = [str(folder / "refused"), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, path))}


def amounts(text: str) -> tuple[float, float]:
    """MiB needed and MiB available."""
    found = re.search(r"([\d,.]+) MiB needed, ([\d,.]+) MiB available", text)
    assert found, text
    needed, available = (float(amount.replace(",", "")) for amount in found.groups())
    return needed, available
