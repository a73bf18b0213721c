"""A job at a terminal, under an interactive shell: it reads in the foreground, and is stopped in the background."""

import fcntl
import os
import re
import shlex
import signal
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE

SHMRUN = shlex.join([sys.executable, "-m", "shmrun"])
READER = """
    import os
    if os.environ["RANK"] == "0":
        print("asks", flush=True)
        print("<" + input() + ">", flush=True)
"""


class Shell:
    """`bash -i` on a terminal of its own. text: all that it has written."""

    def __init__(self, started, command=("bash", "--norc", "--noprofile", "-i")):
        self._keyboard, theirs = os.openpty()
        settings = termios.tcgetattr(theirs)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(theirs, termios.TCSANOW, settings)
        environment = {**os.environ, "PS1": "$ ", "TERM": "dumb", "HISTFILE": ""}
        own = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        self.process = started.start_process(command, environment, **own, preexec_fn=_lead)
        os.close(theirs)
        os.set_blocking(self._keyboard, False)
        self.text = ""

    def type(self, text):
        self.text = ""
        os.write(self._keyboard, text.encode())

    def until(self, pattern):
        """Wait for what the terminal shows since the last `type`."""
        self.wait(lambda: re.search(pattern, self.text))

    def wait(self, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, self.text
            try:
                self.text += os.read(self._keyboard, 1 << 16).decode().replace("\r", "")
            except OSError:  # nothing there, or the shell has ended
                time.sleep(0.002)

    def until_stopped(self):
        """Wait until the shell says that its job is stopped, which it does before a prompt."""
        asked = time.monotonic()

        def is_stopped():
            nonlocal asked
            if time.monotonic() > asked:
                asked += 0.1
                os.write(self._keyboard, b"\n")
            return "Stopped" in self.text

        self.wait(is_stopped)

    def foreground(self):
        return os.tcgetpgrp(self._keyboard)

    def is_lent(self):
        """Whether rank 0 has the terminal: the launcher is in the group that has it, and which its child leads."""
        group = self.foreground()
        try:
            parent = int(Path(f"/proc/{group}/stat").read_text().rpartition(")")[2].split()[1])
            return os.getpgid(parent) == group
        except OSError:
            return False

    def until_lent(self):
        self.wait(self.is_lent)

    def close(self):
        if self._keyboard >= 0:
            os.close(self._keyboard)
        self._keyboard = -1


def _lead():
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup`, under which the tests may run, has it ignored
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def shell(shmrun):
    shell = Shell(shmrun)
    shell.until(r"\$ ")
    shell.type("bind 'set enable-bracketed-paste off'; stty -echo; set +o history; echo be''gin\n")
    shell.until("begin")
    yield shell
    if shell.process.poll() is None:
        shell.type("exit\n")
        shell.process.wait(PATIENCE)
    shell.close()


WAYS = {
    "fork": ["-n", "2", "reader.py"],
    "one rank": ["-n", "1", "reader.py"],
    "fresh": ["-n", "2", "--fresh", "reader.py"],
    "executable": ["-n", "2", "sh", "-c", '[ $RANK = 1 ] || { echo asks; read x; echo "<$x>"; }'],
    "tagged": ["-n", "2", "-l", "reader.py"],
}


@pytest.mark.parametrize("way", WAYS)
def test_a_job_in_the_background_that_reads_is_stopped(shmrun, shell, way):
    """It gets nothing of what is typed for the shell. After `fg` it reads on."""
    shmrun.write(READER, "reader.py")
    command = f"{SHMRUN} {shlex.join(WAYS[way])}"
    shell.type(f"{command}{' | cat' * (way == 'one rank')} &\n")
    if way != "one rank":  # `cat` may be stopped before it has written that
        shell.until("asks")
    shell.until_stopped()
    shell.type("echo te''xt\n")
    shell.until("text")
    shell.type("fg\nwords\n")
    shell.until("<words>")
    shell.type("echo code $?\n")
    shell.until("code 0")
    # From the foreground to the background while it reads, and back
    shell.type(f"{command}\n")
    shell.until("asks")
    shell.until_lent()
    shell.type("\x1a")
    shell.until("Stopped")
    shell.type("bg\n")
    shell.until_stopped()
    shell.type("echo te''xt\n")
    shell.until("text")
    shell.type("fg\nmore words\n")
    shell.until("<more words>")


@pytest.mark.slow
def test_keys_while_rank_0_reads(shmrun, shell):
    """Ctrl-C and Ctrl-\\ reach every rank once, and the script that has started the job."""
    shmrun.write(
        """
        import os, signal, sys, time
        rank, got = os.environ["RANK"], []
        def note(*_):
            got.append(1)
            open("got" + rank, "w").write(str(len(got)))
        signal.signal(signal.SIGINT, note)
        if rank == "0":
            print("asks", flush=True)
            print("<" + input() + ">", flush=True)
        else:
            while not os.path.exists("enough"):
                time.sleep(0.01)
        """,
        "noter.py",
    )
    traps = "trap 'echo the script as well' INT; trap : QUIT"
    shmrun.write(f'{traps}\n{SHMRUN} -n 2 noter.py\nread x; echo "[$x]"\n', "script.sh")
    shell.type("sh script.sh\n")
    shell.until("asks")
    shell.until_lent()
    shell.type("\x1c")
    shell.until(r"where the ranks are:(.|\n)*noter.py:10")
    shell.type("\x03")
    got = [shmrun.folder / f"got{rank}" for rank in (0, 1)]
    shell.wait(lambda: all(file.exists() for file in got))
    shell.type("words\n")
    shell.until("<words>")
    # Rank 0 has ended, so the terminal is the script's again, whose keys reach rank 1.
    shell.wait(lambda: not shell.is_lent())
    shell.type("\x1c")
    shell.until(r"where the ranks are:")
    (shmrun.folder / "enough").touch()
    shell.until("the script as well")
    assert [file.read_text() for file in got] == ["1", "1"]
    shell.type("for the script\n")
    shell.until(r"\[for the script\]")


def test_ctrl_c_ends_a_reading_job(shmrun, shell):
    shell.type(f"{SHMRUN} -n 2 {shmrun.write(READER)}; echo code $?\n")
    shell.until("asks")
    shell.until_lent()
    shell.type("\x03")
    shell.until("shmrun: interrupted by SIGINT\ncode 130")


def test_a_job_in_the_background_that_does_not_read_goes_on(shmrun, shell):
    """But with `stty tostop` a background job may not write, either."""
    shmrun.write(
        """
        import os, time
        for i in range(2):
            while not os.path.exists(f"go{i}"):
                time.sleep(0.01)
            print("rank", os.environ["RANK"], "writes", i, flush=True)
        """,
        "writer.py",
    )
    shell.type(f"{SHMRUN} -n 2 writer.py &\n")
    (shmrun.folder / "go0").touch()
    shell.until("rank 0 writes 0")
    shell.until("rank 1 writes 0")
    shell.type("stty tostop\n")
    shell.until(r"\$ ")
    (shmrun.folder / "go1").touch()
    shell.until_stopped()
    assert "writes 1" not in shell.text
    shell.type("fg\n")
    shell.until("rank 0 writes 1")
    shell.until("rank 1 writes 1")


def test_a_rank_may_ask_for_a_password(shmrun, shell):
    """That opens the terminal and changes its settings. Only rank 0 has it; no other rank is stopped."""
    script = """
        import getpass, os, warnings
        warnings.simplefilter("ignore")
        try:
            print("<" + getpass.getpass(f"Password of rank {os.environ['RANK']}? ") + ">", flush=True)
        except EOFError:
            print("rank", os.environ["RANK"], "has no terminal", flush=True)
    """
    shell.type(f"{SHMRUN} -n 2 {shmrun.write(script)}\n")
    shell.until("rank 1 has no terminal")
    shell.until(r"Password of rank 0\? ")  # until then, it throws away what is typed
    shell.until_lent()
    shell.type("secret\n")
    shell.until("<secret>")


def test_a_terminal_that_is_closed_ends_the_job(shmrun, shell):
    """The read of rank 0 may end before the shell has its signal, so rank 0 goes on: only the signal ends the job."""
    script = """
        import contextlib, os, time
        if os.environ["RANK"] == "0":
            print("asks", flush=True)
            with contextlib.suppress(EOFError, OSError):
                input()
        time.sleep(600)
    """
    shell.type(f"{SHMRUN} -n 2 {shmrun.write(script)} 2>said\n")
    shell.until("asks")
    shell.until_lent()
    shell.close()
    shell.process.wait(PATIENCE)
    shell.wait(lambda: "SIGHUP" in (shmrun.folder / "said").read_text())


def test_a_reading_job_that_no_shell_can_continue_ends(shmrun, shell):
    """The shell that has started it in the background is gone, so nobody could bring it to the foreground."""
    job = f"{SHMRUN} -n 2 {shmrun.write(READER)} 2>said </dev/tty; echo code $? >code"
    shell.type(f"(({job}) &)\n")
    shell.wait(lambda: (shmrun.folder / "code").exists() and (shmrun.folder / "code").read_text())
    assert (shmrun.folder / "said").read_text().endswith("shmrun: interrupted by SIGHUP\n")


@pytest.mark.slow
def test_a_killed_launcher_gives_the_terminal_back(shmrun, shell):
    script = READER.replace("input()", "(os.kill(os.getppid(), 9), input())[1] if input() else ''")
    shmrun.write(f'{SHMRUN} -n 2 {shmrun.write(script)}\nread x; echo "[$x]"\n', "script.sh")
    shell.type("sh script.sh\n")
    shell.until("asks")
    shell.until_lent()
    rank_0 = shell.foreground()
    shell.type("kill\n")
    shell.wait(lambda: shell.foreground() != rank_0)
    shell.type("words\n")
    shell.until(r"\[words\]")


def test_a_call_from_a_script_in_the_background_takes_nothing(shmrun, shell):
    """Ranks of `shmcoll.run` have no terminal. The script itself is stopped, as any program is."""
    shmrun.write(
        """
        import sys, shmcoll
        print(shmcoll.run(lambda: sys.stdin.read(), 2), flush=True)
        print("<" + input() + ">", flush=True)
        """,
        "caller.py",
    )
    shell.type(f"{sys.executable} caller.py &\n")
    shell.until(r"\['', ''\]")
    shell.until_stopped()
    shell.type("fg\nwords\n")
    shell.until("<words>")
