"""From the command to its end: `shmrun` of a script that imports shmcoll and does one barrier."""

import tempfile
import time
from pathlib import Path

from shmbench.features.script import run
from shmbench.timing.ab_timing import Row, Settings

ASKED = {8: 0.5, 64: 1.2}
SCRIPT = "import shmcoll\nshmcoll.init().barrier()\n"


def rows(settings: Settings) -> list[Row]:
    counts = {settings.ranks(usual): asked for usual, asked in ASKED.items()}
    seconds: dict[int, list[float]] = {ranks: [] for ranks in counts}
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "barrier.py"
        script.write_text(SCRIPT, encoding="utf-8")
        for _ in range(1 + settings.rounds):  # the first warms up
            for ranks in counts:
                start = time.perf_counter()
                run(script, ranks)
                seconds[ranks].append(time.perf_counter() - start)
    return [
        Row(f"shmrun -n {ranks}: import, a barrier, the end", seconds[ranks][1:], asked=asked)
        for ranks, asked in counts.items()
    ]
