"""`shmrun ps` shows the ranks of `shmcoll.run` under the name of what called it."""

import signal
import subprocess
import sys
from typing import Any

import pytest
from shmrun.commands import ps

from tests.support.patience import PATIENCE

CALLER = """
    import time, shmcoll

    def work():
        shmcoll.init().barrier()
        wait()

    def wait(*_):
        print("running")
        time.sleep(600)

    {call}
"""
CALLS = ("shmcoll.run(work, 2)", "shmcoll.ranks(2).run(work)", "shmcoll.map(wait, range(1))")


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_a_script(scripts: Any, call: str) -> None:
    script = scripts.start(CALLER.format(call=call))
    assert script.stdout.readline() == "running\n", script.stderr.read()
    command = [sys.executable, "-m", "shmrun", "ps"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout.splitlines()
    assert any(line.endswith("  shmcoll.run: script0.py") for line in lines), lines
    command[-1:] = ["inspect", str(script.pid)]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
    assert told.splitlines()[0].split()[:3] == ["rank", "pid", "state"]
    script.send_signal(signal.SIGKILL)
    script.communicate(timeout=PATIENCE)


def test_a_notebook() -> None:
    line = "import time; print(flush=True); time.sleep(600)"
    command = [sys.executable, "-c", line, "-m", "ipykernel_launcher", "-f", "kernel.json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as kernel:
        assert kernel.stdout is not None
        kernel.stdout.readline()
        server = subprocess.Popen(
            [sys.executable, "-c", line, "-m", "shmcoll.runner", "13", str(kernel.pid)], stdout=subprocess.PIPE
        )
        assert server.stdout is not None
        server.stdout.readline()
        assert ps.command_of(server.pid) == "shmcoll.run: notebook"
        kernel.kill()
        kernel.wait()
        assert ps.command_of(server.pid) == "shmcoll.run: its caller has ended"
        server.kill()
        server.communicate()
