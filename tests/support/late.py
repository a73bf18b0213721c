"""A rank that comes late for certain: scripts of tests begin with `LATE`, and call `until_others_wait`."""

LATE = """
import time
from shmcoll.diagnostics.rank_status import standings

def until_others_wait(comm, seconds):
    '''Return when all others wait in a call, and have done so for some time.'''
    arena = comm._dispatcher.group.arena
    while not all(one.blames for one in standings(arena) if one.rank != comm.rank):
        time.sleep(0.001)
    time.sleep(seconds)
"""
