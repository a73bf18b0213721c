"""Output of shmrun, shmbench and ranks for a reader that has ended, a full disk or closed descriptors: no traceback."""

import os
import signal
import subprocess
import sys

import pytest

from tests.support.waiting import until

COMMANDS = {
    "help": ("shmrun", "--help"),
    "version": ("shmrun", "--version"),
    "help of a subcommand": ("shmrun", "inspect", "--help"),
    "ps": ("shmrun", "ps"),
    "doctor": ("shmrun", "doctor"),
}


def finish(command: tuple[str, ...], stdout: int) -> tuple[int, str]:
    told = subprocess.run(
        [sys.executable, "-m", *command], stdout=stdout, stderr=subprocess.PIPE, text=True, check=False
    )
    return told.returncode, told.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_reader_that_has_gone(name):
    read, write = os.pipe()
    os.close(read)
    code, words = finish(COMMANDS[name], write)
    os.close(write)
    assert words == ""
    assert code in (-signal.SIGPIPE, 0)  # argparse itself passes over it


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in COMMANDS if COMMANDS[name][0] == "shmrun"])
def test_a_full_disk(name):
    with open("/dev/full", "w") as full:
        told = finish(COMMANDS[name], full.fileno())
    assert told == (1, "shmrun: cannot write the output: No space left on device\n")


@pytest.mark.slow
def test_inspect(shmrun):
    script = shmrun.write("""
        import time, shmcoll
        comm = shmcoll.init()
        comm.barrier()
        open("ready", "w").close()
        time.sleep(60)
    """)
    job = shmrun.start("-n", 2, script)
    until(lambda: (shmrun.folder / "ready").exists())
    read, write = os.pipe()
    os.close(read)
    told = finish(("shmrun", "inspect", str(job.pid)), write)
    os.close(write)
    assert told == (-signal.SIGPIPE, "")
    job.send_signal(signal.SIGINT)
    shmrun.finish(job)


@pytest.mark.slow
def test_a_benchmark():
    read, write = os.pipe()
    os.close(read)
    code, words = finish(("shmbench", "barrier", "-n", "1"), write)
    os.close(write)
    assert (code, words) == (128 + signal.SIGPIPE, "")


@pytest.mark.slow
def test_a_benchmark_whose_output_is_closed():
    told = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m shmbench barrier -n 1 >&-"], capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stderr) == (0, "")


PRINTS = "for i in range(20000): print('line', i)"
JOBS = {
    "one rank": ["-n", "1", "-c", PRINTS],
    "several": ["-n", "2", "-c", PRINTS],
    "marked": ["-n", "2", "-l", "-c", PRINTS],
    "at its end": ["-n", "1", "-c", "print(1)"],
    "fresh": ["-n", "1", "--fresh", "-c", "print(1)"],
    "executable": ["-n", "2", "yes"],
    "exit": ["-n", "1", "-c", "import sys; print(1); sys.exit(0)"],
    "in a collective": [
        "-n",
        "2",
        "-c",
        f"import shmcoll; c=shmcoll.init(); {'c.rank or print(); c.barrier(); ' * 9}",
    ],
}


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("also_errors", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_job_whose_reader_has_gone_ends_without_a_word(shmrun, job, also_errors):
    """As `yes | head` does. All that is said would be of no use."""
    read, write = os.pipe()
    os.close(read)
    told = shmrun.finish(shmrun.start(*JOBS[job], stdout=write, **({"stderr": write} if also_errors else {})))
    os.close(write)
    assert (told.returncode, told.stderr) == (128 + signal.SIGPIPE, None if also_errors else "")


def test_a_failure_is_told_though_nobody_reads_the_output(shmrun):
    read, write = os.pipe()
    os.close(read)
    told = shmrun.finish(shmrun.start("-n", 2, "-c", "1 / 0", stdout=write))
    assert told.returncode == 1
    assert told.stderr.endswith("ZeroDivisionError: division by zero\n")
    told = shmrun.finish(shmrun.start("-n", 2, "sh", "-c", "exit 3", stderr=write))
    os.close(write)
    assert told.returncode == 3


def test_a_full_disk_loses_the_output_and_not_the_job(shmrun):
    with open("/dev/full", "w") as full:
        told = shmrun.finish(shmrun.start("-n", 2, "-c", PRINTS + "\nopen('done', 'w')", stdout=full))
    assert (shmrun.folder / "done").exists()
    said = "shmrun: cannot write the output: No space left on device; the job goes on, and the rest is dropped\n"
    assert (told.returncode, told.stderr) == (1, said)


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors(shmrun, closed):
    """What is for standard error does not go to standard output."""
    line = f"{sys.executable} -m shmrun -n 2 sh -c 'echo out; exit 3' {closed}"
    told = shmrun.finish(shmrun.start_process(["sh", "-c", line], dict(os.environ)))
    assert told.returncode == 3
    assert told.stdout == ("" if ">&-" in closed.split() else "out\n" * 2)
    assert bool(told.stderr) == ("2>&-" not in closed)
