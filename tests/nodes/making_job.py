"""On each rank: a rank is interrupted at instants of `dup`. Writes what each rank was told.

Arguments: a folder, and how many instants there are from one to the next.
"""

import json
import signal
import sys
from pathlib import Path

import numpy as np

import shmcoll
from shmcoll.communicator import communicator, objects
from shmcoll.nodes import communicator as over_nodes
from shmcoll.nodes import groups, job
from shmcoll.runtime import group_directory, group_registry, group_search
from tests.support.instants import interrupted_where_signals_are_handled

HERE = (communicator, objects, group_directory, group_registry, group_search, groups, job, over_nodes)
FILES = {module.__file__ for module in HERE}


def attempt(victim: int, k: int) -> str:
    """Return what has become of a group; the victim is interrupted at the k-th instant of its call."""
    parent, made = comm.dup(), []
    comm.barrier()
    try:
        if comm.rank == victim:
            interrupted_where_signals_are_handled(k, lambda: made.append(parent.dup()), FILES.__contains__)
        else:
            made.append(parent.dup())
        made[0].barrier()
        return "made"
    except KeyboardInterrupt:
        return "interrupted"
    except shmcoll.RankFailed as error:
        return str(error)
    finally:
        for one in (*made, parent):
            one.close()
        comm.barrier()


comm = shmcoll.init()
signal.signal(signal.SIGINT, signal.default_int_handler)
first: list[shmcoll.Communicator] = []
here = interrupted_where_signals_are_handled(0, lambda: first.append(comm.dup()), FILES.__contains__)
first[0].close()
instants = range(1, int(comm.broadcast(np.array([here]), 0)[0]) + 1, int(sys.argv[2]))
told = [(victim, attempt(victim, k)) for victim in (0, 1, 2) for k in instants]
Path(sys.argv[1], f"rank{comm.rank}.json").write_text(json.dumps(told))
