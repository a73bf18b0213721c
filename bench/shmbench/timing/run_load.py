"""The load of the machine beside a run of `shmbench`: for the JSON, and a line for people on a busy machine."""

import os
import time

import numpy as np

from shmbench.timing.library import Library
from shmbench.timing.other_load import BUSY, Others, in_words, own_seconds

SAMPLE = 0.1  # seconds


class RunLoad:
    """The load of the machine before and during a run. Every rank makes one and ends it. The time that ranks use is not
    load, nor is that of the neighbour of `--disturb`, which is given by its process id."""

    def __init__(self, library: Library, neighbour: int | None = None) -> None:
        self._library = library
        cores = os.sched_getaffinity(os.getppid())  # the launcher's cores: a rank may be bound to one core
        sample = Others(cores, neighbour)
        time.sleep(SAMPLE)  # on all ranks: no rank works then
        self.before, self.stolen_before, self.average_before = sample.share(), sample.stolen(), os.getloadavg()[0]
        self._others, self._began = Others(cores, neighbour), own_seconds()

    def end(self) -> dict[str, float]:
        """Return the keys of the JSON: shares of the cores that others have used, and of these the host of a virtual
        machine; and the load averages."""
        own = float(self._library.exchange(np.array([own_seconds() - self._began])).sum())
        return {
            "others_before": round(self.before, 3),
            "others": round(self._others.share(own), 3),
            "stolen": round(self._others.stolen(), 3),
            "average_before": self.average_before,
            "average_after": os.getloadavg()[0],
        }


def busy_before(load: RunLoad) -> str:
    """Return a line for people if other processes work before anything is measured, else ""."""
    if load.before <= BUSY:
        return ""
    return f"# busy: others use {in_words(load.before, load.stolen_before)}; load {load.average_before:.2f}"
