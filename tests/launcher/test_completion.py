"""Completion: what bash and zsh offer for the beginnings of command lines.

bash is asked as readline asks it, through `complete` and the function that is registered there; both shells are also
asked by a key at a terminal.
"""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from shmbench.cli.options import COLLECTIVES
from shmbench.cli.options import SUBCOMMANDS as OF_SHMBENCH
from shmrun.cli.settings import SETTINGS
from shmrun.cli.subcommands import SUBCOMMANDS

from tests.support.patience import PATIENCE

ASK = """
source "$1"; shift
[[ $(complete -p "$1") == *"-F _$1 $1" ]] || exit 1
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_"$1"
printf '%s\\n' "${COMPREPLY[@]}"
"""
needs_zsh = pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory):
    """`script(program, shell)`: the file with what the program prints."""
    folder = tmp_path_factory.mktemp("scripts")

    def write(program: str, shell: str) -> Path:
        path = folder / f"{program}.{shell}"
        if not path.exists():
            command = [sys.executable, "-m", program, "--completion", shell]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
            assert done.stderr == ""
            path.write_text(done.stdout)
        return path

    return write


def offered(script: Path, *words: str) -> set[str]:
    """What bash offers for the last word."""
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK, "bash", script, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("shmrun d", {"doctor"}),
        ("shmrun ", set(SUBCOMMANDS)),
        ("shmrun doctor --", {"--json", "--help"}),
        ("shmrun inspect -", {"-v", "--stacks", "--watch", "--json", "-h", "--help"}),
        ("shmrun --bind", {"--bind-to"}),
        ("shmrun -n 4 --bind-to ", {"none", "core", "numa"}),
        ("shmrun -n 4 --bind-to = n", {"none", "numa"}),  # the words of --bind-to=n
        ("shmrun -n 4 --bind-to = ", {"none", "core", "numa"}),
        ("shmrun --on-failure c", {"continue"}),
        ("shmrun -n 4 --stats ", set()),  # a program: a value follows = only
        ("shmrun --sta", {"--stats", "--stall-warning"}),
        ("shmrun --no-rep", {"--no-report"}),
        ("shmrun -n 4 d", set()),  # a file: no subcommand stands there
        ("shmrun -n 4 --log-dir = logs --repo", {"--report", "--report-json"}),
        ("shmrun -n 4 train.py --rep", set()),  # the program's own
        ("shmrun -n 4 -m module --rep", set()),
        ("shmrun -n 4 -- --rep", set()),
        ("shmrun --completion ", {"bash", "zsh"}),
        ("shmbench all_red", {"all_reduce"}),
        ("shmbench di", {"diff"}),
        ("shmbench diff --f", {"--fail-above"}),
        ("shmbench all_reduce -d bfl", {"bfloat16"}),
        ("shmbench compare --json x all_t", {"all_to_all", "all_to_all_v"}),
    ],
)  # fmt: skip
def test_what_bash_offers(script, line: str, expected: set[str]) -> None:
    words = line.split(" ")
    assert offered(script(words[0], "bash"), *words) == expected


def test_every_flag_is_offered(script) -> None:
    of_shmrun = offered(script("shmrun", "bash"), "shmrun", "-")
    assert {f"--{name}" for name in SETTINGS} | {s.short for s in SETTINGS.values() if s.short} <= of_shmrun
    assert {*COLLECTIVES, *OF_SHMBENCH} <= offered(script("shmbench", "bash"), "shmbench", "")


@pytest.mark.parametrize("program", ["shmrun", "shmbench"])
def test_a_shell_that_is_not_known(program: str) -> None:
    command = [sys.executable, "-m", program, "--completion", "fish"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--completion" in done.stderr and "'fish'" in done.stderr and done.stderr.count("\n") == 1


SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source {}"),
    "zsh": (["zsh", "-f", "-i"], "autoload -Uz compinit && compinit -u -D && source {}"),
}


@pytest.mark.parametrize("shell", ["bash", pytest.param("zsh", marks=needs_zsh)])
@pytest.mark.parametrize(
    ("begun", "expected"),
    [
        ("shmrun --bind-to co\t", "--bind-to core"),
        ("shmrun insp\t", "shmrun inspect"),
        ("shmbench diff --fa\t", "--fail-above"),
    ],
)
def test_a_key_at_a_terminal(script, shell: str, begun: str, expected: str) -> None:
    command, setup = SHELLS[shell]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, {**os.environ, "TERM": "dumb", "PS1": "$ "})
    try:
        os.write(terminal, f"{setup.format(script(begun.split()[0], shell))}; echo re''ady\n".encode())
        read_until(terminal, "ready")
        os.write(terminal, begun.encode())
        read_until(terminal, expected)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


def read_until(terminal: int, expected: str) -> None:
    text, end = "", time.monotonic() + 30
    while expected not in text:
        assert time.monotonic() < end and select.select([terminal], [], [], 30)[0], text
        text += os.read(terminal, 4096).decode(errors="replace")
