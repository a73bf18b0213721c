"""What shmrun and shmbench print themselves, for a reader that goes away or on a full disk: no traceback."""

import os
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

COMMANDS = {
    "help": ("shmrun", "--help"),
    "version": ("shmrun", "--version"),
    "help of a subcommand": ("shmrun", "inspect", "--help"),
    "ps": ("shmrun", "ps"),
    "doctor": ("shmrun", "doctor"),
    "predict": ("shmbench", "predict", "--help"),
}


def finish(command: tuple[str, ...], stdout: int) -> tuple[int, str]:
    told = subprocess.run(
        [sys.executable, "-m", *command], stdout=stdout, stderr=subprocess.PIPE, text=True, check=False
    )
    return told.returncode, told.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_a_reader_that_has_gone(name):
    read, write = os.pipe()
    os.close(read)
    code, words = finish(COMMANDS[name], write)
    os.close(write)
    assert words == ""
    assert code in (-signal.SIGPIPE, 0)  # argparse itself passes over it


@pytest.mark.parametrize("name", [name for name in COMMANDS if COMMANDS[name][0] == "shmrun"])
def test_a_full_disk(name):
    with open("/dev/full", "w") as full:
        told = finish(COMMANDS[name], full.fileno())
    assert told == (1, "shmrun: cannot write the output: No space left on device\n")


def test_inspect(shmrun, until):
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


def test_a_benchmark():
    read, write = os.pipe()
    os.close(read)
    code, words = finish(("shmbench", "barrier", "-n", "1"), write)
    os.close(write)
    assert code == 128 + signal.SIGPIPE
    killed = "shmrun: rank 0 was killed by signal 13 (SIGPIPE); it had called nothing yet"
    assert words == f"{killed}; whoever should read its output has gone\n"


def test_a_benchmark_whose_output_is_closed():
    told = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m shmbench barrier -n 1 >&-"], capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stderr) == (0, "")
