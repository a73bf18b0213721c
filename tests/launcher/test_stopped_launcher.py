"""The inner launcher stopped and continued by its own pid: the job ends, and with it the process that stands for it."""

import os
import signal
from pathlib import Path

import pytest

from tests.support.waiting import until

pytestmark = pytest.mark.slow

WAITS = """
    import os, time
    open("pid" + os.environ["RANK"], "w").close()
    while not os.path.exists("enough"):
        time.sleep(0.01)
"""


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.fixture
def job(shmrun):
    """A running job: the process that was started, and the launcher."""
    process = shmrun.start("-n", 2, shmrun.write(WAITS))
    until(lambda: len(list(shmrun.folder.glob("pid*"))) == 2)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 1
    return process, int(children[0])


def finish(shmrun, process) -> None:
    (shmrun.folder / "enough").touch()
    told = shmrun.finish(process)
    assert (told.returncode, told.stdout, told.stderr) == (0, "", "")


def test_stopped_by_its_pid(shmrun, job):
    process, launcher = job
    for _ in range(3):
        os.kill(launcher, signal.SIGSTOP)
        until(lambda: state(launcher) == "T")
        os.kill(launcher, signal.SIGCONT)
    finish(shmrun, process)


def test_stopped_by_ctrl_z_and_continued_by_its_pid(shmrun, job):
    process, launcher = job
    for _ in range(3):
        process.send_signal(signal.SIGTSTP)
        until(lambda: state(launcher) + state(process.pid) == "TT")
        os.kill(launcher, signal.SIGCONT)
        until(lambda: "T" not in state(launcher) + state(process.pid))
    finish(shmrun, process)


def test_stopped_by_ctrl_z_continued_and_stopped_by_its_pid(shmrun, job):
    process, launcher = job
    process.send_signal(signal.SIGTSTP)
    until(lambda: state(launcher) + state(process.pid) == "TT")
    process.send_signal(signal.SIGCONT)
    until(lambda: "T" not in state(launcher) + state(process.pid))
    os.kill(launcher, signal.SIGSTOP)
    until(lambda: state(launcher) == "T")
    os.kill(launcher, signal.SIGCONT)
    finish(shmrun, process)
