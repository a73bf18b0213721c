"""Running shmbench for real."""

import subprocess
import sys
from typing import Any

from tests.support.patience import PATIENCE


def shmbench(*arguments: Any, expect: int = 0) -> subprocess.CompletedProcess[str]:
    """`shmbench arguments`, which must end with that exit code."""
    command = [sys.executable, "-m", "shmbench", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == expect, done.stdout + done.stderr
    return done
