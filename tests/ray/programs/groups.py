"""The ways to make a group, several groups of one actor, and groups that follow each other. Prints what is wrong."""

import os

import members
import ray
import ray.experimental.collective
import ray.util.collective as collective
from members import joined, on_all, sum_of_ones


def destroy(name="default"):
    collective.destroy_collective_group(name)


def jobs():
    """How many jobs, each with an arena, this process has joined."""
    from shmcoll.ray.join import _jobs

    return len(_jobs)


def rank_in(name):
    import shmcoll.ray

    comm = shmcoll.ray.communicator(name)
    return comm.rank, comm.all_gather_object(os.getpid())


def check(what, found, wanted):
    if found != wanted:
        print(f"{what}: {found} is not {wanted}")


members.start()
actors = members.members(4)

collective.create_collective_group(actors, 4, [0, 1, 2, 3], backend="shmcoll")
check("declared by the driver", on_all(actors, sum_of_ones), [[4.0] * 3] * 4)

handle = ray.experimental.collective.create_collective_group(actors[:2], backend="shmcoll", name="controlled")
check("made by the driver", on_all(actors[:2], sum_of_ones, "controlled"), [[2.0] * 3] * 2)
ray.experimental.collective.destroy_collective_group(handle)

pids = on_all(actors, os.getpid)
parts = [joined(actors[::2], "even"), joined(actors[1::2], "odd"), joined(actors[2:0:-1], "backwards")]
sums = [on_all(part, sum_of_ones, name) for part, name in zip(parts, ("even", "odd", "backwards"), strict=True)]
check("sums in parts", sums, [[[2.0] * 3] * 2] * 3)
check("an order of its own", on_all(parts[2], rank_in, "backwards"), [(rank, [pids[2], pids[1]]) for rank in range(2)])

for _ in range(20):
    joined(actors[:3], "again")
    check("made again", on_all(actors[:3], sum_of_ones, "again"), [[3.0] * 3] * 3)
    on_all(actors[:3], destroy, "again")
check("jobs after groups made again and again", on_all(actors, jobs), [1, 2, 2, 1])

on_all(actors, destroy)
joined(actors[::-1])
check("the default group in another order", on_all(actors, collective.get_rank), [3, 2, 1, 0])
check("its sums", on_all(actors, sum_of_ones), [[4.0] * 3] * 4)
