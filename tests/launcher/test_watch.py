"""shmrun inspect --watch: a running job, shown again and again until it ends."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import termios
import threading

import pytest
from shmrun.commands import dispatch

from shmcoll.diagnostics import observer
from shmcoll.diagnostics.rank_status import process_state
from shmcoll.engine import layout
from tests.support.patience import PATIENCE
from tests.support.waiting import until

LOOP = """
    import os, signal, sys, time
    import numpy as np
    import shmcoll

    comm = shmcoll.init()
    x = np.ones(1000)
    while comm.all_reduce(int(os.path.exists("go")), "max") == 0:
        for _ in range(100):
            comm.all_reduce(x)
        open(f"ready{comm.rank}", "w").close()
        time.sleep(0.01)
    how = open("go").read()
    if comm.rank == 1 and how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if comm.rank == 1 and how == "exit":
        sys.exit(4)
"""


@pytest.fixture
def job(shmrun):
    job = shmrun.start("-n", 2, shmrun.write(LOOP), "two\nlines\x1b[2J")
    until(lambda: (shmrun.folder / "ready1").exists())
    return job


def go(shmrun, how):
    (shmrun.folder / "new").write_text(how)
    (shmrun.folder / "new").rename(shmrun.folder / "go")


@pytest.mark.parametrize(
    ("how", "code", "last"),
    [
        pytest.param("", 0, "Job {} has ended.", marks=pytest.mark.slow),
        ("die", 3, "Job {} has failed: rank 1 was killed by signal 9 (SIGKILL)."),
        pytest.param("exit", 3, "Job {} has failed: rank 1 exited with code 4.", marks=pytest.mark.slow),
    ],
)
def test_it_ends_as_the_job_ends(shmrun, job, how, code, last):
    """Two at once, one for people and one for programs. The first may have any number of blocks."""
    watching = [shmrun.start("inspect", job.pid, "--watch=0.1", *more) for more in ([], ["--json"])]
    blocks, documents = [], []
    for found, process in ((blocks, watching[0]), (documents, watching[1])):
        until(lambda f=found, p=process: f.append(p.stdout.readline()) or any(map(has_rates, f)))
    go(shmrun, how)
    people, programs = (shmrun.finish(one) for one in watching)
    assert (people.returncode, programs.returncode, people.stderr, programs.stderr) == (code, code, "", "")
    assert people.stdout.splitlines()[-1] == last.format(job.pid)
    assert "\x1b" not in people.stdout
    told = [json.loads(line) for line in [*documents, *programs.stdout.splitlines()]]
    assert [one["ended"] for one in told] == [None] * (len(told) - 1) + [code == 0]
    rates = [one["ranks"][0] for one in told if one["ended"] is None][-1]
    assert rates["calls_per_second"] > 0 and 4000 < rates["bytes_per_second"] / rates["calls_per_second"] < 8001
    shmrun.finish(job)


@pytest.mark.slow
def test_ranks_that_record_their_calls_say_how_long_they_wait(shmrun):
    """Rank 1 is late for every call, and rank 0 waits for it."""
    shmrun.write("""
        import time
        import numpy as np
        import shmcoll

        comm = shmcoll.init()
        while True:
            time.sleep(0.02 * comm.rank)
            comm.all_reduce(np.ones(1000))
    """)
    job = shmrun.start("-n", 2, "--stats", "job.py")
    until(lambda: "all_reduce" in shmrun("inspect", job.pid).stdout, pause=0.2)
    watching = shmrun.start("inspect", job.pid, "--watch=0.3", "--json")
    found = [json.loads(watching.stdout.readline()) for _ in range(3)]
    job.kill()
    assert shmrun.finish(watching).returncode == 3
    waits, late = found[-1]["ranks"]
    assert 0.1 < waits["waiting"] <= 1 and late["waiting"] < waits["waiting"]
    assert waits["bytes_per_second"] / waits["calls_per_second"] == pytest.approx(8000)
    assert found[0]["ranks"][0]["waiting"] is None


def has_rates(line):
    return bool(re.search(r"KiB|MiB", line) or re.search(r'"calls_per_second": [\d.]+', line))


class Terminal:
    """A terminal in which a process runs; `text` is what has been written to it."""

    def __init__(self, rows, columns):
        self.main, self.its = pty.openpty()
        self.resize(rows, columns)
        self.text, self._is_over = "", False
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def resize(self, rows, columns):
        fcntl.ioctl(self.main, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _read(self):
        while not self._is_over:
            if select.select([self.main], [], [], 0.02)[0]:
                self.text += os.read(self.main, 1 << 16).decode()

    def close(self):
        self._is_over = True
        self._reader.join(PATIENCE)
        os.close(self.its)
        os.close(self.main)

    @property
    def screens(self):
        return self.text.split("\x1b[H")[1:]


@pytest.fixture
def terminal():
    terminal = Terminal(rows=6, columns=60)
    yield terminal
    terminal.close()


def watch(shmrun, terminal, job, *more):
    process = shmrun.start(
        "inspect", job.pid, "--watch=0.1", *more, stdout=terminal.its, env={"TERM": "xterm"}, start_new_session=True
    )
    until(lambda: len(terminal.screens) >= 2)
    return process


def test_in_place_in_a_terminal_of_any_size(shmrun, job, terminal):
    watching = watch(shmrun, terminal, job, "-v")
    shown = [re.sub(r"\x1b\[\d*[KJ]", "", one) for one in terminal.screens[:-1]]
    assert all(len(one.split("\r\n")) <= 6 and max(map(len, one.split("\r\n"))) <= 60 for one in shown)
    assert all("more lines" in one and "No rank has waited" in one for one in shown)
    seen = len(terminal.screens)
    terminal.resize(40, 200)
    watching.send_signal(signal.SIGWINCH)
    until(lambda: any("last operations" in one for one in terminal.screens[seen:]))
    seen = len(terminal.screens)
    terminal.resize(0, 0)  # as of a terminal that nobody has told its size
    watching.send_signal(signal.SIGWINCH)
    until(lambda: len(terminal.screens) > seen + 2)
    assert f"job {job.pid} of 2 ranks" in terminal.screens[-2] and "more lines" not in terminal.screens[-2]
    go(shmrun, "")
    assert shmrun.finish(watching).returncode == 0
    until(lambda: "has ended." in terminal.text)
    assert terminal.text.count("\x1b[?1049h") == terminal.text.count("\x1b[?1049l") == 1
    after = terminal.text.rpartition("\x1b[?1049l")[2]
    assert after.startswith(f"job {job.pid} of 2 ranks") and after.endswith(f"Job {job.pid} has ended.\r\n")
    shmrun.finish(job)


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_gives_the_screen_back(shmrun, job, terminal, signum):
    watching = watch(shmrun, terminal, job)
    watching.send_signal(signal.SIGTSTP)
    until(lambda: process_state(watching.pid) in ("T", "Z"))
    assert watching.poll() is None, watching.stderr.read()
    until(lambda: terminal.text.count("\x1b[?1049l") == 1)  # the terminal passes it on later
    watching.send_signal(signal.SIGCONT)
    until(lambda: terminal.text.count("\x1b[?1049h") == 2)
    watching.send_signal(signum)
    assert shmrun.finish(watching).returncode == {signal.SIGINT: -2, signal.SIGTERM: 128 + 15}[signum]
    until(lambda: terminal.text.endswith("\x1b[?25h\x1b[?1049l"))
    go(shmrun, "")
    assert shmrun.finish(job).returncode == 0


def test_no_such_job_and_wrong_seconds(capsys):
    assert dispatch.run("inspect", "1", "--watch") == 1
    assert capsys.readouterr().err.startswith("shmrun: no job 1 of this user")
    for text in ("0", "soon", "-1", ""):
        assert dispatch.run("inspect", f"--watch={text}") == 2
        assert capsys.readouterr().err.startswith("shmrun: --watch: ")


def test_a_job_of_another_version(ranks, board, shmrun):
    job = ranks.start(2, lambda comm: until(lambda: board[0]))
    job.until(lambda: all(job.arena.load(layout.record_offset(2, rank, 0)) for rank in range(2)), "ranks have joined")
    job.arena.store(layout.JOB_VERSION, layout.VERSION + 1)
    told = shmrun("inspect", job.pids[1], "--watch")
    assert (told.returncode, told.stdout) == (1, "")
    assert f"the arena has layout version {layout.VERSION + 1}, this shmcoll has {layout.VERSION}" in told.stderr
    job.arena.store(layout.JOB_VERSION, layout.VERSION)
    with observer.jobs() as jobs:
        assert any(one.is_meant(str(job.pids[1])) for one in jobs)
    board[0] = 1
    job.finish()


@pytest.mark.slow
def test_ranks_of_another_launcher_that_are_killed(ranks, board, shmrun):
    job = ranks.start(2, lambda comm: until(lambda: board[0]), tell=True)
    watching = shmrun.start("inspect", job.pids[1], "--watch=0.1")
    until(watching.stdout.readline)
    os.kill(job.pids[1], signal.SIGKILL)
    board[0] = 1
    job.finish()
    told = shmrun.finish(watching)
    assert told.returncode == 3 and "has failed: rank 1 was killed by signal 9" in told.stdout
