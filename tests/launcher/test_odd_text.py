"""Text that is not UTF-8, or cannot be printed, destroys no report and ends no job.

Each program has a name that is not UTF-8, quotes such a name in its errors, and runs where the locale says ASCII.
"""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.launched import Shmrun
from tests.support.patience import PATIENCE
from tests.support.waiting import until

NAME = os.fsdecode(b"pr\xe9cis.py")  # Latin-1
SHOWN = r"pr\udce9cis.py"

#: environments of the launcher and its ranks
LOCALES = {
    "UTF-8": {"LC_ALL": "C.UTF-8"},
    "ASCII": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}
EVERY_LOCALE = pytest.mark.parametrize("locale", ["UTF-8", pytest.param("ASCII", marks=pytest.mark.slow)])

#: ends of a job: the program, and what is reported for rank 0, which survives until rank 1 is the cause
ENDS = {
    "raises": (
        r"""
        if comm.rank == 1:
            raise ValueError("na\udcefve.dat \u2192")
        comm.barrier()
        """,
        "RankFailed: barrier #1 on rank 0: rank 1 raised ValueError: na\\udcefve.dat ",
    ),
    "disagrees": (
        """
        comm.barrier() if comm.rank else comm.all_reduce(np.ones(1))
        """,
        f"CollectiveMismatch: the ranks disagree in operation #1: rank 0 called all_reduce(float64[1], sum) at {SHOWN}",
    ),
    "is late": (
        """
        comm.timeout = 0.5
        if comm.rank == 0:
            comm.barrier()
        import time
        time.sleep(600)  # the launcher ends it
        """,
        f"CollectiveTimeout: barrier #1 on rank 0 at {SHOWN}",
    ),
    "waits in a circle": (
        """
        comm.recv(source=1 - comm.rank)
        """,
        f"at {SHOWN}",
    ),
    "exits with a message": (
        r"""
        if comm.rank == 1:
            sys.exit("na\udcefve.dat")
        comm.barrier()
        """,
        "na\\udcefve.dat",
    ),
}

START = """
import sys
import numpy as np
import shmcoll
comm = shmcoll.init()
"""


@EVERY_LOCALE
@pytest.mark.parametrize("end", ENDS)
def test_odd_names_are_reported(shmrun: Shmrun, end: str, locale: str) -> None:
    program, wanted = ENDS[end]
    shmrun.write(START + textwrap.dedent(program), NAME)
    job = shmrun("-n", 2, NAME, env=LOCALES[locale])
    assert job.returncode == 1, job
    assert wanted in job.stderr, job.stderr
    assert "UnicodeEncodeError" not in job.stderr and "UnicodeDecodeError" not in job.stderr, job.stderr


@EVERY_LOCALE
def test_processes_with_odd_names_are_listed(shmrun: Shmrun, locale: str) -> None:
    program = START + "open(str(comm.rank), 'w').close()\nsys.stdin.read()\n"
    name = "脚" * 8 + ".sh"  # the kernel keeps 15 bytes of it, which end within a character
    shmrun.write(program)
    shmrun.write(f'#!/bin/sh\n"{sys.executable}" job.py\n', name)
    job = shmrun.start("-n", 2, f"./{name}", "two\nlines\x1b", stdin=subprocess.PIPE, env=LOCALES["UTF-8"])
    until(lambda: all((shmrun.folder / rank).exists() for rank in "01"))
    pid = str(job.pid)
    listed, shown = (shmrun(*command, env=LOCALES[locale]) for command in (["ps"], ["inspect", pid]))
    assert listed.returncode == shown.returncode == 0, (listed, shown)
    (line,) = [line for line in listed.stdout.splitlines() if line.split()[0] == pid]
    assert line.endswith(r" two\nlines\x1b") and "rank" in shown.stdout, (listed, shown)
    job.communicate("", timeout=PATIENCE)
    assert job.returncode == 0


#: the caller's stdout -> how it is made
OUTPUTS = {
    "ASCII": "",
    "does not block": "import os; os.set_blocking(1, False)",
    "closed": "import os; os.close(1)",
    "None": "import sys; sys.stdout = None",
    "broken": "import os, sys; r, w = os.pipe(); os.close(r); sys.stdout = open(w, 'w')",
    "closed object": "import sys; sys.stdout = open(sys.argv[0]); sys.stdout.close()",
}


@pytest.mark.parametrize("output", OUTPUTS)
def test_output_that_cannot_be_printed_loses_no_result(shmrun: Shmrun, output: str) -> None:
    shmrun.write(
        f"""
        import sys
        import shmcoll

        def print_much():
            comm = shmcoll.init()
            for i in range(2000):
                print("\\u2192 \\udcef", "x" * 100)
            return comm.rank

        {OUTPUTS[output]}
        sys.stderr.write(str(shmcoll.run(print_much, 2)))
        sys.stderr.flush()
        import os
        os._exit(0)  # the interpreter's own flush of the stream that the test has broken would fail
        """
    )
    environment = {**os.environ, "PYTHONIOENCODING": "ascii" if output == "ASCII" else "utf-8"}
    command = [sys.executable, "job.py"]
    job = subprocess.run(
        command, cwd=shmrun.folder, env=environment, capture_output=True, timeout=PATIENCE, check=False
    )
    assert (job.returncode, job.stderr) == (0, b"[0, 1]"), job
    if output in ("ASCII", "does not block"):
        arrow = b"\\u2192" if output == "ASCII" else "→".encode()
        assert job.stdout.count(arrow + b" \\udcef " + b"x" * 100) == 4000


#: the variables of torchrun
PLACED = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}


def test_ranks_start_below_processes_with_odd_names(tmp_path: Path) -> None:
    name = "脚" * 8 + ".sh"
    (tmp_path / "job.py").write_text("import shmcoll\nprint(shmcoll.init().all_reduce_object(1))\n")
    (tmp_path / name).write_text(f'#!/bin/sh\n"{sys.executable}" job.py\n')
    (tmp_path / name).chmod(0o755)
    ranks = [
        subprocess.Popen(
            [f"./{name}"],
            cwd=tmp_path,
            env={**os.environ, **PLACED, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    assert [rank.communicate(timeout=PATIENCE)[0] for rank in ranks] == ["2\n", "2\n"]
