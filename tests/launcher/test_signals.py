"""Signals, time limits, and the launcher's own death."""

import fcntl
import os
import signal
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE
from tests.support.waiting import until

# Each rank says that it is ready (a file with its pid, complete by rename), then waits for a signal.
READY = """
    import os, signal, sys, time
    rank = os.environ["RANK"]
    def ready():
        open("pid" + rank + ".tmp", "w").write(str(os.getpid()))
        os.rename("pid" + rank + ".tmp", "pid" + rank)
"""


@pytest.fixture
def pids(shmrun):
    """The ranks' pids, when n of them are ready."""

    def wait(n):
        files = [shmrun.folder / f"pid{r}" for r in range(n)]
        until(lambda: all(file.exists() for file in files))
        return [int(file.read_text()) for file in files]

    return wait


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_sent_on_once(shmrun, pids, signum):
    """The second one is followed by another signal, which has come through when all is over."""
    last = signal.SIGHUP if signum == signal.SIGTERM else signal.SIGTERM
    script = shmrun.write(
        READY
        + f"""
    def note(number, _):
        os.write(log, f"{{number}} ".encode())
    log = os.open("log" + rank, os.O_CREAT | os.O_WRONLY)
    for number in ({signum:d}, {last:d}):
        signal.signal(number, note)
    signal.signal(signal.SIGUSR1, lambda *_: os._exit(0))
    ready()
    while True:
        time.sleep(0.01)  # not `pause`: a signal just before it would wait for the next one
    """
    )
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, and stays so
    job = shmrun.start("-n", 2, script)
    signal.signal(signal.SIGHUP, before)
    ranks = pids(2)

    def logs():
        return [(shmrun.folder / f"log{rank}").read_text() for rank in (0, 1)]

    job.send_signal(signum)
    until(lambda: logs() == [f"{signum:d} "] * 2)
    job.send_signal(signum)
    job.send_signal(last)
    until(lambda: all(f"{last:d} " in log for log in logs()))
    assert logs() == [f"{signum:d} {last:d} "] * 2
    for pid in ranks:
        os.kill(pid, signal.SIGUSR1)
    assert shmrun.finish(job).returncode == 0  # all ranks chose to end well


def test_interrupt(shmrun, pids):
    job = shmrun.start("-n", 3, shmrun.write(READY + "    ready()\n    time.sleep(60)\n"))
    pids(3)
    job.send_signal(signal.SIGINT)
    told = shmrun.finish(job)
    assert (told.returncode, told.stderr) == (130, "shmrun: interrupted by SIGINT\n")


def test_interrupt_reaches_ranks_within_collectives(shmrun, pids):
    script = shmrun.write(
        READY
        + "    import shmcoll\n    c = shmcoll.init()\n    ready()\n    if c.rank: c.barrier()\n    time.sleep(60)\n"
    )
    job = shmrun.start("-n", 3, script)
    pids(3)
    job.send_signal(signal.SIGINT)
    told = shmrun.finish(job)
    assert told.returncode == 130
    # Not all there is: the signal may reach a rank that is ending already, because another was quicker.
    assert told.stderr.splitlines()[-1] == "shmrun: interrupted by SIGINT"


def test_two_interrupts_at_once(shmrun, pids):
    """Whether the launcher sees one or two of them: all is over soon, and the leak check finds nobody."""
    script = shmrun.write(
        READY + "    import shmcoll\n    c = shmcoll.init()\n    ready()\n    while True:\n        c.barrier()\n"
    )
    job = shmrun.start("-n", 3, script)
    pids(3)
    for _ in range(2):
        job.send_signal(signal.SIGINT)
    told = shmrun.finish(job)
    assert told.returncode == 130
    assert told.stderr.splitlines()[-1] == "shmrun: interrupted by SIGINT"


def test_ctrl_c_at_a_terminal_reaches_every_rank_once(shmrun, pids):
    """The terminal does not tell the ranks, for they are in another session; and the launcher does."""
    script = shmrun.write(
        READY
        + """
    def note(*_):
        os.write(log, b"told ")
        if os.path.exists("enough"):
            sys.exit(7)
    log = os.open("log" + rank, os.O_CREAT | os.O_WRONLY)
    signal.signal(signal.SIGINT, note)
    signal.signal(signal.SIGTERM, note)
    ready()
    while True:
        time.sleep(60)
    """
    )
    keyboard, terminal = os.openpty()
    job = shmrun.start("-n", 2, script, stdin=terminal, preexec_fn=lambda: _take_terminal(0))
    os.close(terminal)
    pids(2)
    os.write(keyboard, b"\x03")
    logs = [shmrun.folder / f"log{rank}" for rank in (0, 1)]
    until(lambda: [log.read_text() for log in logs] == ["told "] * 2)
    (shmrun.folder / "enough").touch()
    job.send_signal(signal.SIGTERM)
    assert shmrun.finish(job).returncode == 130
    assert [log.read_text() for log in logs] == ["told told "] * 2
    os.close(keyboard)


def test_rank_0_reads_from_the_terminal(shmrun):
    """Though it is in another session: a process in the background of this one would be stopped."""
    script = shmrun.write("""
        import os
        if os.environ["RANK"] == "0":
            os.write(1, f"{input()} {os.isatty(0)}\\n".encode())
    """)
    keyboard, terminal = os.openpty()
    job = shmrun.start("-n", 2, script, stdin=terminal, preexec_fn=lambda: _take_terminal(0))
    os.close(terminal)
    os.write(keyboard, b"some words\n")
    told = shmrun.finish(job)
    os.close(keyboard)
    assert (told.returncode, told.stdout) == (0, "some words True\n")


def _take_terminal(fd):
    """In the launcher-to-be: lead a session, with this terminal."""
    os.setsid()
    fcntl.ioctl(fd, termios.TIOCSCTTY, 0)


def _state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("limit", [(), ("--timeout", 8)], ids=["", "limited"])
def test_a_job_that_is_stopped_stops_as_a_whole_and_goes_on(shmrun, pids, limit):
    """Ctrl-Z and fg. Nobody has failed meanwhile, and the time does not count."""
    script = shmrun.write(
        READY
        + """
    import numpy, shmcoll
    c = shmcoll.init()
    c.timeout = 0.5
    ready()
    calls = 0
    while not c.all_reduce(numpy.array([os.path.exists("enough")]), "lor")[0]:
        calls += 1
        if calls % 100 == 0:
            open("calls" + rank, "w").write(str(calls))
    """
    )
    job = shmrun.start("-n", 2, *limit, script)
    everybody = [job.pid, *pids(2)]
    for _ in range(2):
        job.send_signal(signal.SIGTSTP)
        until(lambda: [_state(pid) for pid in everybody] == ["T"] * 3)
        time.sleep(1.0)
        for file in shmrun.folder.glob("calls*"):
            file.unlink()
        job.send_signal(signal.SIGCONT)
        until(lambda: len(list(shmrun.folder.glob("calls*"))) == 2)
    (shmrun.folder / "enough").touch()
    told = shmrun.finish(job)
    assert (told.returncode, told.stderr) == (0, "")


def test_the_program_may_end_well_after_an_interrupt(shmrun, pids):
    script = shmrun.write(
        READY
        + """
    try:
        ready()
        time.sleep(60)
    except KeyboardInterrupt:
        pass
    """
    )
    job = shmrun.start("-n", 2, script)
    pids(2)
    job.send_signal(signal.SIGINT)
    told = shmrun.finish(job)
    assert (told.returncode, told.stderr) == (0, "")


def test_a_second_interrupt_kills(shmrun, pids):
    script = shmrun.write(
        READY
        + """
    signal.signal(signal.SIGINT, lambda *_: open("interrupted" + rank, "w"))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ready()
    while True:
        time.sleep(0.01)
    """
    )
    job = shmrun.start("-n", 2, "--grace", "60", script)
    ranks = pids(2)
    job.send_signal(signal.SIGINT)
    until(lambda: len(list(shmrun.folder.glob("interrupted*"))) == 2)
    assert all(_alive(pid) for pid in ranks)
    job.send_signal(signal.SIGINT)
    told = shmrun.finish(job)
    first, *table, last = told.stderr.splitlines()
    assert (told.returncode, first, last) == (130, "shmrun: where the ranks are:", "shmrun: interrupted by SIGINT")
    assert sum("in <module>" in line for line in table) == 2


def test_where_ranks_are_that_outlive_an_interrupt(shmrun, pids):
    script = shmrun.write(
        READY + "    signal.signal(signal.SIGINT, signal.SIG_IGN)\n    ready()\n    time.sleep(600)\n"
    )
    job = shmrun.start("-n", 2, "--grace", "0.2", script)
    pids(2)
    job.send_signal(signal.SIGINT)
    table = [job.stderr.readline()]
    while not table[-1].startswith("No rank "):
        table.append(job.stderr.readline())
    assert table[0] == "shmrun: where the ranks are:\n"
    assert sum("in <module>" in line for line in table) == 2
    job.send_signal(signal.SIGINT)
    assert shmrun.finish(job).stderr == "shmrun: interrupted by SIGINT\n"  # it is printed once


def test_terminate(shmrun, pids):
    job = shmrun.start("-n", 2, shmrun.write(READY + "    ready()\n    time.sleep(60)\n"))
    pids(2)
    job.send_signal(signal.SIGTERM)
    told = shmrun.finish(job)
    assert (told.returncode, told.stderr) == (143, "shmrun: interrupted by SIGTERM\n")


def test_signals_reach_what_a_rank_has_started(shmrun, pids):
    """The rank is a shell that waits for its child; both get the signal, and the leak check finds neither."""
    shmrun.write(READY + "    ready()\n    time.sleep(60)\n", "inner.py")
    shmrun.write("#!/bin/sh\npython3 inner.py\nexit 4\n", "outer")
    job = shmrun.start("-n", 2, "./outer")
    inner = pids(2)
    job.send_signal(signal.SIGTERM)
    assert shmrun.finish(job).returncode == 143
    assert not any(_alive(pid) for pid in inner)


def test_an_ignored_signal_stays_ignored(shmrun, pids):
    """As under nohup: the launcher does not end, and does not send the signal on."""
    job = shmrun.start(
        "-n",
        1,
        shmrun.write(READY + "    ready()\n    time.sleep(60)\n"),
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    (rank,) = pids(1)
    job.send_signal(signal.SIGHUP)
    os.kill(rank, signal.SIGHUP)
    os.kill(rank, signal.SIGTERM)
    assert shmrun.finish(job).stderr == "shmrun: rank 0 was killed by signal 15 (SIGTERM)\n"


IN_BACKGROUND = {"preexec_fn": lambda: [signal.signal(s, signal.SIG_IGN) for s in (signal.SIGINT, signal.SIGQUIT)]}


def test_an_interrupt_by_a_process_ends_a_job_in_the_background(shmrun, pids):
    """A script's `shmrun ... &` has these two signals ignored. Ranks can catch the interrupt."""
    script = shmrun.write(
        READY
        + """
    try:
        ready()
        time.sleep(60)
    except KeyboardInterrupt:
        print("caught")
        raise
    """
    )
    job = shmrun.start("-n", 2, script, **IN_BACKGROUND)
    pids(2)
    job.send_signal(signal.SIGINT)
    done = shmrun.finish(job)
    assert (done.returncode, done.stdout) == (130, "caught\n" * 2)
    assert done.stderr == "shmrun: interrupted by SIGINT\n"


def test_a_quit_by_a_process_shows_where_a_job_in_the_background_is(shmrun, pids):
    """And a shell's `&` for real: the pid is that of shmrun."""
    shmrun.write(READY + "    ready()\n    while not os.path.exists('enough'): time.sleep(0.01)\n")
    line = f"{sys.executable} -m shmrun -n 2 job.py 2>where & echo $! >pid.tmp; mv pid.tmp pid; wait $!"
    script = shmrun.start_process(["sh", "-c", line], dict(os.environ))
    pids(2)
    until(lambda: (shmrun.folder / "pid").exists())
    os.kill(int((shmrun.folder / "pid").read_text()), signal.SIGQUIT)
    until(lambda: "job.py:" in (shmrun.folder / "where").read_text())
    (shmrun.folder / "enough").touch()
    assert script.wait(timeout=PATIENCE) == 0
    assert (shmrun.folder / "where").read_text().startswith("shmrun: where the ranks are:\n")


def test_what_is_typed_does_not_reach_a_job_in_the_background(shmrun, pids):
    """Ctrl-C interrupts the script alone, as the shell that started the job has arranged."""
    script = shmrun.write(READY + "    ready()\n    time.sleep(60)\n")
    keyboard, terminal = os.openpty()

    def begin():
        _take_terminal(0)
        IN_BACKGROUND["preexec_fn"]()

    job = shmrun.start("-n", 1, script, stdin=terminal, preexec_fn=begin)
    os.close(terminal)
    pids(1)
    os.write(keyboard, b"\x03")
    assert os.read(keyboard, 2) == b"^C"  # the terminal has sent the signal, which comes before the next one
    job.send_signal(signal.SIGTERM)
    assert shmrun.finish(job).stderr == "shmrun: interrupted by SIGTERM\n"
    os.close(keyboard)


def test_time_limit_names_who_still_ran(shmrun):
    script = shmrun.write("#!/bin/sh\n[ $RANK = 1 ] && exit 0\nexec sleep 60\n", "job")
    told = shmrun("-n", 4, "--timeout", "0.5", f"./{script}")
    assert told.returncode == 124
    assert told.stderr == "shmrun: the limit of 0.5 s (--timeout) is over; still running: ranks 0, 2, 3\n"


def test_time_limit_kills_who_does_not_listen(shmrun):
    told = shmrun("-n", 2, "--timeout", "0.3", "--grace", "0.1", "sh", "-c", "trap '' TERM; sleep 60; sleep 60")
    assert told.returncode == 124


def test_time_limit_does_not_touch_a_job_that_is_done_in_time(shmrun):
    told = shmrun("-n", 2, "--timeout", "60", "true")
    assert (told.returncode, told.stderr) == (0, "")


@pytest.mark.parametrize("way", ["fork", "--fresh", "executable"])
def test_no_rank_outlives_a_killed_launcher(shmrun, pids, way):
    body = (
        READY
        + "    import signal\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    ready()\n    time.sleep(60)\n"
    )
    if way == "executable":
        command = ["sh", "-c", "echo $$ > t$RANK; mv t$RANK pid$RANK; exec sleep 60"]
    else:
        command = [*["--fresh"][: way == "--fresh"], shmrun.write(body)]
    job = shmrun.start("-n", 3, *command)
    ranks = pids(3)
    job.kill()
    job.wait()
    until(lambda: not any(_alive(pid) for pid in ranks))


def test_a_stopped_rank_can_be_killed(shmrun, pids):
    script = shmrun.write(READY + "    ready()\n    time.sleep(60)\n")
    job = shmrun.start("-n", 2, "--grace", "0.1", script)
    first, second = pids(2)
    os.kill(first, signal.SIGSTOP)
    os.kill(second, signal.SIGKILL)
    told = shmrun.finish(job)
    assert told.returncode == 137
    assert told.stderr.splitlines()[0] == "rank 0: did not end within 0.1 s (--grace), ended by SIGKILL"
