"""`shmrun --check` and its variable, and how a job without shmrun gets the check."""

import pytest

CHANGED = """
import threading
import numpy as np, shmcoll
comm = shmcoll.init()
x, go_on = np.ones(1000), threading.Event()
comm._dispatcher.worker.submit(go_on.wait)
work = comm.all_reduce(x, async_op=True)
x[comm.rank] = 2
go_on.set()
try:
    work.wait()
    print("nothing")
except shmcoll.BufferChanged as error:
    print(str(error).partition(" while")[0])
"""


@pytest.mark.parametrize("way", [(), pytest.param(("--fresh",), marks=pytest.mark.slow)], ids=["fork", "fresh"])
def test_the_option_turns_it_on(shmrun, way):
    script = shmrun.write(CHANGED)
    told = shmrun("-n", 2, "--check", *way, script)
    assert told.returncode == 0, told.stderr
    wanted = [f"all_reduce at {script}:7 on rank {rank}: x was changed" for rank in range(2)]
    assert sorted(told.stdout.splitlines()) == wanted
    assert shmrun("-n", 2, *way, script).stdout.splitlines() == ["nothing"] * 2


@pytest.mark.slow
@pytest.mark.parametrize(("value", "is_on"), [("1", True), ("0", False), ("", False), ("yes", True)])
def test_the_variable_turns_it_on(shmrun, monkeypatch, value, is_on):
    monkeypatch.setenv("SHMCOLL_CHECK", value)
    told = shmrun("-n", 1, shmrun.write(CHANGED))
    assert told.returncode == 0, told.stderr
    assert ("x was changed" in told.stdout) == is_on
