"""The build backend: hatchling's, which is told that compiling code for a wheel takes what running shmcoll takes.

Only a wheel needs that. An editable installation stays quick: it does not install numba twice.
"""

import os
import tomllib
from pathlib import Path
from typing import Any

from hatchling.build import *  # noqa: F403
from hatchling.build import get_requires_for_build_wheel as _hatchling_requires


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """Return hatchling's requirements, and the project's own if the wheel carries compiled code."""
    requirements = list(_hatchling_requires(config_settings))
    if os.environ.get("SHMCOLL_BUILD_OBJECTS", "1") != "0":
        requirements += tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    return requirements
