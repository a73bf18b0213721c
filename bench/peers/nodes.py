"""One rank of `shmbench compare --nodes`: times flat MPI and shmcoll over nodes in turn. Its argument is JSON.

A round of a line is a loop of one library and then a loop of the other, over the same kinds of arrays, each after a
barrier of its own. Every result is checked.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from mpi import MPI, Mpi
from shmbench.collectives import Case, Counts
from shmbench.collectives.payload import dtype_of
from shmbench.collectives.table import COLLECTIVES
from shmbench.report.json_report import machine
from shmbench.timing.library import Shmcoll
from shmbench.timing.measure import Bench, Plan, cases, sized

import shmcoll

#: in a round. Short rounds keep both libraries in the same conditions; but in the first milliseconds Linux makes up for
#: the time that ranks on one core had to wait for it before
MOST_ITERATIONS = 1000


def lines(asked: dict[str, Any], benches: dict[str, Bench]) -> list[dict[str, Any]]:
    """Return the seconds of all rounds, for each collective and size."""
    found = []
    like = Case(dtype_of("float32"), "sum", 0, MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size, Counts(0, 0))
    for name in asked["collectives"]:
        collective = COLLECTIVES[name]
        for case in sized(collective, like, asked["sizes"]):
            found.append(line(name, next(cases(collective, case)), asked["rounds"], benches))
    return found


def line(name: str, case: Case, rounds: int, benches: dict[str, Bench]) -> dict[str, Any]:
    seconds: dict[str, list[float]] = {who: [] for who in benches}
    iterations: dict[str, int | None] = dict.fromkeys(benches)
    wrong = 0
    for _ in range(rounds):
        for who, bench in benches.items():
            bench.collective = bench.library.collective(name)
            timing = bench.measure(case, Plan(iterations[who], warmup=1, rounds=1, check=True, buffers=1))
            iterations[who] = min(timing.iterations, MOST_ITERATIONS)
            seconds[who].append(timing.seconds)
            wrong += timing.wrong or 0
    return {"collective": name, "size": case.counts.size * case.dtype.itemsize, **seconds, "wrong": wrong}


class OverNodes(Shmcoll):
    """shmcoll over MPI's simulated nodes."""

    def __init__(self) -> None:
        self.version = shmcoll.__version__
        self.comm = shmcoll.from_mpi(MPI.COMM_WORLD)
        self.rank, self.size = self.comm.rank, self.comm.size

    def exchange(self, values: np.ndarray) -> np.ndarray:
        return self.comm.all_gather(values).reshape(self.size, -1)


def main() -> None:
    asked = json.loads(sys.argv[1])
    flat, ours = Mpi(), OverNodes()
    found_nodes = len(getattr(ours.comm, "nodes", [()]))
    if found_nodes != asked["nodes"]:
        sys.exit(f"MPI finds {found_nodes} nodes and not {asked['nodes']}: it does not simulate them")
    barrier = COLLECTIVES["barrier"]
    measured = lines(asked, {"flat": Bench(flat, barrier), "shmcoll": Bench(ours, barrier)})
    if flat.rank == 0:
        document = {
            "format": 1,
            "nodes": found_nodes,
            "ranks": flat.size,
            "rounds": asked["rounds"],
            "mpi": f"{flat.name} {flat.version}",
            "shmcoll": ours.version,
            "machine": machine(),
            "lines": measured,
        }
        Path(asked["out"]).write_text(json.dumps(document))


if __name__ == "__main__":
    main()
