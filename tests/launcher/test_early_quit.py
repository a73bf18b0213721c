"""Ctrl-\\ before the launcher watches the ranks: the table is printed when it does, and nothing else is different."""

import os
import signal
import sys

import pytest

from tests.support.patience import PATIENCE
from tests.support.waiting import until

# shmrun, with a SIGQUIT to the process that imports a module of this name first
EARLY = """
import os, signal, sys

class Quit:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[0]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGQUIT)

sys.argv[:] = sys.argv[1:]
sys.meta_path.insert(0, Quit())
from shmrun.__main__ import main
sys.exit(main())
"""

RANK = """
    import os, signal, time
    print(signal.SIGQUIT in signal.pthread_sigmask(signal.SIG_BLOCK, []))
    while not os.path.exists("enough"):
        time.sleep(0.01)
"""


def _start(shmrun, module, *arguments, **options):
    with (shmrun.folder / "said").open("w") as said:
        command = [sys.executable, "-c", EARLY, module, *arguments]
        return shmrun.start_process(command, dict(os.environ), stderr=said, **options)


@pytest.mark.parametrize(
    "module", ["shmrun.cli.options", "shmrun.start.foreground", "shmrun.start.spawn", "shmrun.watch.supervise"]
)
@pytest.mark.parametrize("fresh", [[], ["--fresh"]], ids=["", "fresh"])
def test_a_quit_in_the_first_moments_shows_where_the_ranks_are(shmrun, module, fresh):
    job = _start(shmrun, module, "-n", 2, *fresh, shmrun.write(RANK))
    until(lambda: "No rank has waited" in (shmrun.folder / "said").read_text() or job.poll() is not None)
    (shmrun.folder / "enough").touch()
    done = shmrun.finish(job)
    said = (shmrun.folder / "said").read_text()
    assert (done.returncode, done.stdout) == (0, "False\n" * 2)  # the ranks can be sent the signal
    assert said.startswith("shmrun: where the ranks are:\n")


def test_subcommands_end_by_it_as_ever(shmrun):
    job = _start(shmrun, "shmrun.commands.ps", "ps")
    assert job.wait(timeout=PATIENCE) == -signal.SIGQUIT
