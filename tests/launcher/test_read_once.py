"""Programs that can be read only once: every rank runs them, or shmrun refuses them."""

import os
import shlex
import subprocess
import sys

import pytest

SHMRUN = shlex.join([sys.executable, "-m", "shmrun", "-n", "2"])
PYTHON = shlex.quote(sys.executable)
CODE = "import os, sys; os.write(1, (os.environ['RANK'] + ' ' + ' '.join(sys.argv[1:]) + chr(10)).encode())"

EVERY_RANK = {
    "substitution": f'{SHMRUN} <(echo "{CODE}") a',
    "our interpreter": f'{SHMRUN} {PYTHON} <(echo "{CODE}") a',
    "fresh": f'{SHMRUN} --fresh <(echo "{CODE}") a',
    "pipe": f'echo "{CODE}" | {SHMRUN} /dev/stdin a',
    "redirected": f"{SHMRUN} /dev/stdin a < job.py",
    "a document": f"{SHMRUN} /dev/stdin a <<X\n{CODE}\nX",
    "fifo": f'mkfifo named; (echo "{CODE}" > named &); {SHMRUN} ./named a',
    "interpreter, -": f"{SHMRUN} {PYTHON} - a < job.py",
    "interpreter alone": f"{SHMRUN} {PYTHON} <<< \"import sys; sys.argv[1:] = 'a'; {CODE}\"",
}
REFUSED = {
    "a shell": (f"{SHMRUN} bash <(echo echo hi)", "'/dev/fd/63' can be read only once"),
    "options before it": (f"{SHMRUN} bash -e <(echo echo hi)", "'/dev/fd/63' can be read only once"),
    "a shell's input": (f"{SHMRUN} sh < job.py", "only rank 0 would have the program on the standard input"),
    "its input by name": (f"{SHMRUN} sh /dev/stdin < job.py", "'/dev/stdin' can be read only once"),
}


def _bash(shmrun, line):
    shmrun.write(CODE)
    process = shmrun.start_process(["bash", "-c", line], dict(os.environ))
    return shmrun.finish(process)


@pytest.mark.parametrize("way", EVERY_RANK)
def test_every_rank_runs_it(shmrun, way):
    told = _bash(shmrun, EVERY_RANK[way])
    assert (told.returncode, told.stderr) == (0, "")
    assert sorted(told.stdout.splitlines()) == ["0 a", "1 a"]


@pytest.mark.parametrize("way", REFUSED)
def test_what_only_one_rank_could_read_is_refused(shmrun, way):
    line, reason = REFUSED[way]
    told = _bash(shmrun, line)
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr.startswith(f"shmrun: {reason}")
    assert told.stderr.count("\n") == 1


def test_one_rank_shares_it_with_nobody(shmrun):
    told = _bash(shmrun, f"{SHMRUN} -n 1 bash <(echo echo hi)")
    assert (told.stdout, told.stderr) == ("hi\n", "")


def test_data_for_a_script_is_its_own_affair(shmrun):
    """One rank may read a pipe and share what it gets."""
    shmrun.write("cat $1; echo", "script.sh")
    told = _bash(shmrun, f"{SHMRUN} sh script.sh <(printf data)")
    assert sorted(told.stdout.split()) == ["data"]


def test_its_traceback_has_its_lines(shmrun):
    """They are not read again, which would wait forever for a FIFO."""
    told = _bash(shmrun, f"mkfifo named; (echo 'raise ValueError(1)  # cause' > named &); {SHMRUN} -n 1 ./named")
    assert "    raise ValueError(1)  # cause\n" in told.stderr


def test_a_caller_that_is_a_pipe(tmp_path):
    """Its functions are sent to the ranks: nothing is read again."""
    text = """
import shmcoll
def rank(): return shmcoll.init().rank
print(shmcoll.run(rank, 2), shmcoll.run(rank, 2, method="spawn"))
"""
    (tmp_path / "caller.py").write_text(text)
    line = f"{PYTHON} <(cat caller.py); {PYTHON} - < caller.py"
    told = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (told.stdout, told.stderr) == ("[0, 1] [0, 1]\n" * 2, "")
