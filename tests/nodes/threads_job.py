"""What each rank of a job over nodes runs to try two threads at once. Its argument: the folder for the results."""

import json
import sys
from pathlib import Path

import shmcoll
from tests.runtime import test_two_threads as threads

comm = shmcoll.init()
pair = comm.subgroup([0, 2]) if comm.rank in (0, 2) else None  # on two nodes
told = [threads.each_as_the_second(pair), threads.each_as_the_first(pair)] if pair else []
(Path(sys.argv[1]) / f"rank{comm.rank}.json").write_text(json.dumps(told))
