"""What each rank of a job over nodes runs: the random cases of some collectives, the same as on one machine.

Arguments: seed, folder of the results, collectives. Each rank writes `rankN.json`: by collective, how many cases ran
and what has failed.
"""

import json
import sys
from pathlib import Path

import shmcoll
from tests.support.suite import run_cases
from tests.support.suites import sample


def main() -> None:
    seed, folder, *names = sys.argv[1:]
    comm = shmcoll.init()
    told = {}
    for name in names:
        told[name] = run_cases(comm, sample(name)(int(seed), comm.size, 1))
    (Path(folder) / f"rank{comm.rank}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
