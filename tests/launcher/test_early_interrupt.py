"""Ctrl-C in the first moments: at any import, each command ends by SIGINT, says nothing, and leaves nothing behind."""

import signal
import subprocess
import sys

import pytest

# Each argument is a module and its arguments. A fork of this process runs it as `python -m` does, and sends itself a
# SIGINT at its k-th import, for some k. Of a job, the imports of ranks do not count.
EARLY = """
import mmap, os, runpy, signal, sys

class Interrupt:
    def __init__(self, at, seen):
        self.at, self.seen, self.begun = at, seen, False

    def find_spec(self, name, path=None, target=None):
        if self.begun and "SHMCOLL_ARENA" not in os.environ:
            self.seen[0:4] = (count := int.from_bytes(self.seen[0:4], "little") + 1).to_bytes(4, "little")
            if count == self.at:
                os.kill(os.getpid(), signal.SIGINT)
        self.begun = self.begun or name.endswith("__main__")

def imports(words, at):
    "Return the wait status, what it has said, and how many imports there were."
    seen = mmap.mmap(-1, 4)
    said = os.memfd_create("said")
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        os.dup2(said, 2)
        sys.meta_path.insert(0, Interrupt(at, seen))
        sys.argv = words
        runpy._run_module_as_main(words[0])
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    text = os.pread(said, 1 << 20, 0).decode()
    os.close(said)
    return status, text, int.from_bytes(seen[0:4], "little")

for command in sys.argv[1:]:
    words = command.split()
    status, said, count = imports(words, 0)
    print(command, "has", count, "imports:", status, said)
    for at in sorted({1, 2, count, *range(1, count, count // 8 + 1)}):
        status, said, _ = imports(words, at)
        if os.WIFEXITED(status) or os.WTERMSIG(status) != signal.SIGINT or said:
            print(command, "at", at, "of", count, ":", status, said)
            sys.exit(1)
"""


@pytest.mark.parametrize(
    "command",
    [
        "shmrun --help",
        "shmrun -n 2 -c pass",
        pytest.param("shmrun ps", marks=pytest.mark.slow),
        pytest.param("shmrun doctor", marks=pytest.mark.slow),
        "shmbench --help",
        pytest.param("shmbench diff --help", marks=pytest.mark.slow),
    ],
)
def test_an_interrupt_at_any_import(command):
    told = subprocess.run([sys.executable, "-c", EARLY, command], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    assert int(told.stdout.split(" has ")[1].split()[0]) > 0


def test_an_interrupt_while_a_new_interpreter_starts(shmrun):
    """A rank with `--fresh` gets it when its program runs."""
    shmrun.write(
        """
        import os, signal
        if "SHMCOLL_ARENA" in os.environ:
            with open(f"/proc/{os.getppid()}/stat") as stat:
                front = int(stat.read().rpartition(")")[2].split()[1])
            os.kill(front, signal.SIGINT)
            while signal.SIGINT not in signal.sigpending():
                pass
        """,
        "early/sitecustomize.py",
    )
    path = {"PYTHONPATH": str(shmrun.folder / "early")}
    told = shmrun("-n", 1, "--fresh", "-c", "import time; time.sleep(60)", env=path)
    assert (told.returncode, told.stderr) == (130, "shmrun: interrupted by SIGINT\n")


def test_ranks_have_the_usual_action(shmrun):
    code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    for way in ([], ["--fresh"]):
        assert shmrun("-n", 2, *way, "-c", code).stdout == "True\n" * 2
    line = "kill -INT $$; echo not here"
    assert shmrun("-n", 1, "sh", "-c", line).returncode == 128 + signal.SIGINT
