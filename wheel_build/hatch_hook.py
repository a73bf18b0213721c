"""Hatchling's hook: a wheel carries the compiled code, an editable installation does not.

SHMCOLL_BUILD_OBJECTS=0    build a wheel without compiled code, in seconds, for any machine. Jobs then compile what
                           they call, once per machine

Without that, a wheel in which anything is missing is never built: the build fails and says why.
"""

import os
import platform
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_WITHOUT = "set SHMCOLL_BUILD_OBJECTS=0 to build a wheel without compiled code"
_MACHINES = ("x86_64", "aarch64")


class ObjectsHook(BuildHookInterface):
    """Compile all routines and kernels, and add them to the wheel as shmcoll/objects."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        choice = os.environ.get("SHMCOLL_BUILD_OBJECTS", "1")
        if choice not in ("0", "1"):
            raise ValueError(f"SHMCOLL_BUILD_OBJECTS={choice!r} is neither 0 nor 1")
        if version == "editable" or choice == "0":
            return
        machine = platform.machine()
        if sys.platform != "linux" or machine not in _MACHINES:
            raise RuntimeError(f"shmcoll runs on Linux on {' and '.join(_MACHINES)}, not on {sys.platform} {machine}")
        self._folder = TemporaryDirectory(prefix="shmcoll-objects-")
        self.app.display_info("compiling for all levels of this architecture; this takes some minutes")
        try:
            _compile(Path(self.root), Path(self._folder.name))
        except BaseException:
            self._folder.cleanup()
            raise
        build_data["force_include"][self._folder.name] = "shmcoll/objects"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_30_{machine}"  # glibc 2.30: the oldest with sem_clockwait

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_folder"):
            self._folder.cleanup()


def _compile(root: Path, folder: Path) -> None:
    """Fill the folder. Raise `RuntimeError` if that fails."""
    command = [sys.executable, str(root / "wheel_build" / "compile_objects.py"), str(folder)]
    environment = os.environ | {"PYTHONHASHSEED": "0"}  # numba goes through sets: the code comes out the same each time
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(f"compiling failed with exit code {done.returncode}; {_WITHOUT}\n{done.stderr}")
