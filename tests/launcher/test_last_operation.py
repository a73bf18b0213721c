"""What a killed rank did last stands in the verdict."""

import pytest

JOB = """
    import os, signal, threading, time
    import numpy as np
    import shmcoll
    from shmcoll.diagnostics.flight_log import flights
    from shmcoll.engine import layout

    def kill_asleep(group, call):
        # when this rank sleeps, and rank 1, which tells the line, in this call: it may not have left the one before
        def sleep():
            return all(group.arena.load(group.mailbox(rank) + layout.PARKED) for rank in (1, 2))
        while [flight.sequence for flight in flights(group, 1)[-1:]] != [call] or not sleep():
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGKILL)

    comm = shmcoll.init()
    {before}
    if comm.rank == 2:
        {last}
    {after}
"""
KILL = "os.kill(os.getpid(), signal.SIGKILL)"
SOON = "threading.Thread(target=kill_asleep, args=(comm._dispatcher.group, {call})).start()"
CASES = {
    "nothing yet": ("", KILL, "comm.barrier()", "it had called nothing yet"),
    "after a call": ("comm.barrier()", KILL, "comm.barrier()", "its last call, barrier() #1, had returned"),
    "in a call": (
        "comm.barrier()",
        SOON.format(call=2),
        "while comm.rank == 0 and not comm._dispatcher.group.has_ended(): pass\n    comm.all_reduce(np.ones(3))",
        "it was in all_reduce(float64[3], sum) #2, which rank {rank} called at job.py:{line}",
    ),
    "in a message": (
        "",
        f"{SOON.format(call=1)}; comm.recv(source=1, tag=7)",
        "comm.barrier()",
        "it was in recv(source=1, tag=7)",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_killed_rank(shmrun, name):
    before, last, after, words = CASES[name]
    told = shmrun("-n", 3, shmrun.write(JOB.format(before=before, last=last, after=after)))
    verdicts = [
        "shmrun: rank 2 was killed by signal 9 (SIGKILL); "
        + words.format(rank=rank, line=line)
        + "; perhaps by the kernel, for lack of memory: see dmesg"
        for rank, line in ((0, 21), (1, 21))
    ]
    assert told.stderr.splitlines()[-1] in verdicts


def test_a_rank_that_has_not_joined(shmrun):
    told = shmrun("-n", 2, "sh", "-c", "kill -TERM $$")
    assert told.stderr.splitlines()[-1].endswith("was killed by signal 15 (SIGTERM)")
