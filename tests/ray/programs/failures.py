"""Actors that die, do not come, call something else, or are elsewhere. Prints a line for each: what the others see."""

import json
import os
import sys

import members
import numpy as np
import ray
import ray.util.collective as collective
from members import die, failing, joined, sum_of_ones

import shmcoll.ray


def wrong_call():
    collective.broadcast(np.ones(3), 0)
    collective.barrier()  # the root has run ahead, and learns of it here


def destroy():
    collective.destroy_collective_group()


def of_gloo():
    shmcoll.ray.gather(np.ones(1), group_name="gloo")


def of_a_short_list():
    shmcoll.ray.alltoall([np.ones(1)], [np.ones(1)])


def tell(what, *outcomes):
    print(json.dumps([what, *outcomes]))


members.start()
one, two, three = joined(members.members(3, max_restarts=1))
tell("a short list", failing(one.run.remote(of_a_short_list)))
waiting = [one.run.remote(sum_of_ones), three.run.remote(sum_of_ones)]
two.run.options(max_task_retries=0).remote(die)
tell("dies while others wait", *(failing(call) for call in waiting))
tell("later", failing(one.run.remote(sum_of_ones)))

for actor in (one, three):
    ray.get(actor.run.remote(destroy))
ray.get(two.run.options(max_task_retries=-1).remote(os.getpid))  # Ray has started it again
joined([one, two, three])
waiting = [actor.run.remote(sum_of_ones) for actor in (one, two, three)]
tell("after its restart", *(failing(call) for call in waiting))

waiting = [one.run.remote(wrong_call), two.run.remote(sum_of_ones), three.run.remote(sum_of_ones)]
tell("another call", *(failing(call) for call in waiting))

late = members.Member.options(runtime_env={"env_vars": {"SHMCOLL_JOIN_TIMEOUT": "1"}}).remote()
tell("does not come", failing(late.join.remote(2, 0, "late")), failing(late.join.remote(2, 1, "later")))

here = members.Member.options(name="here").remote()
there = members.Member.options(name="there", runtime_env={"env_vars": {"SHMCOLL_NODE": "b"}}).remote()
waiting = [here.join.remote(2, 0, "far"), there.join.remote(2, 1, "far")]
tell("elsewhere", *(failing(call) for call in waiting))

if "torch" in sys.argv:
    ray.get(here.join.remote(1, 0, "gloo", "gloo"))
    tell("another backend", failing(here.run.remote(of_gloo)))
