"""A home directory that is missing, or takes no files, stops no job. Compiled code is kept elsewhere."""

import os
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount file systems"),
]

#: how the folder `home` becomes the home directory of the processes that follow
HOMES = {
    "not set, no entry in passwd": "for i in passwd nsswitch.conf; do mount --bind /dev/null /etc/$i; done; unset HOME",
    "does not exist": "rmdir home",
    "is a file": "rmdir home; touch home",
    "is a loop of links": "rmdir home; ln -s home home",
    "is read-only": "mount -t tmpfs -o ro none home",
    "is full": "mount -t tmpfs -o nr_inodes=1 none home",
    "belongs to another user": "chown 41002 home",
}

JOB = """
import shmcoll
print("joined", shmcoll.init().size)
"""

CALL = """
import shmcoll
if __name__ == "__main__":
    print("joined", *shmcoll.run(lambda: shmcoll.init().size, 2))
"""

RANK = "LOCAL_WORLD_SIZE=2 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 RANK={} {python} job.py"

#: what a user types, with what each answers
COMMANDS = {
    "{python} -m shmrun -n 2 job.py": "joined 2\njoined 2\n",
    "{python} call.py": "joined 2 2\n",
    f"{RANK.format(1, python='{python}')} & {RANK.format(0, python='{python}')}; wait": "joined 2\njoined 2\n",
    "{python} -m shmrun ps": "",
    "{python} -m shmrun doctor": "",
    "{python} -m shmrun --help": "",
}


@pytest.mark.parametrize("home", HOMES)
def test_commands_and_jobs_work(tmp_path: Path, home: str) -> None:
    for i, (command, wanted) in enumerate(COMMANDS.items()):
        done = _at(tmp_path / str(i), home, command)
        assert done.returncode == 0, (command, done)
        assert "Traceback" not in done.stderr and wanted in done.stdout, (command, done)


@pytest.mark.parametrize("home", HOMES)
def test_code_is_kept_where_temporary_files_are(tmp_path: Path, home: str) -> None:
    script = "from shmcoll.engine.system.cache_dir import cache_folder; print(cache_folder())"
    done = _at(tmp_path, home, f"{{python}} -c {shlex.quote(script)}")
    assert done.stdout == f"{tmp_path}/tmp/shmcoll-0\n", done


def test_with_no_place_at_all_one_line_says_so(tmp_path: Path) -> None:
    command = 'SHMCOLL_CACHE_DIR= TMPDIR="$PWD/home" {python} -m shmrun -n 2 meets.py'
    done = _at(tmp_path, "is read-only", command)
    assert done.returncode == 0, done
    assert [line for line in done.stderr.splitlines() if "cannot be kept" in line][1:] == [], done
    assert "compiled code cannot be kept" in done.stderr and "SHMCOLL_CACHE_DIR" in done.stderr


def _at(folder: Path, home: str, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the shell with such a home."""
    (folder / "home").mkdir(parents=True)
    (folder / "tmp").mkdir()
    for name, text in (("job.py", JOB), ("call.py", CALL), ("meets.py", f"{JOB}shmcoll.init().barrier()\n")):
        (folder / name).write_text(textwrap.dedent(text))
    lines = ["set -e", 'export HOME="$PWD/home" TMPDIR="$PWD/tmp"', HOMES[home], command.format(python=sys.executable)]
    environment = {k: v for k, v in os.environ.items() if k not in ("SHMCOLL_CACHE_DIR", "XDG_CACHE_HOME")}
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", "\n".join(lines)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
