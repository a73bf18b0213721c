"""Machines that lack something. On each, two ranks that shmrun, `shmcoll.run` or torchrun starts work, or say why not.

`test_refused_calls.py` has the system calls that a machine may refuse, and `test_odd_homes.py` the home directories.
"""

import os
import shutil
import stat
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from shmcoll.engine.system.cache_dir import cache_folder
from tests.support import ways
from tests.support.ways import WAYS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount file systems, and be another user"),
]

_USER = 41002  # without an entry in passwd
_AS_USER = f"setpriv --reuid={_USER} --regid={_USER} --clear-groups"
_ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
_DEVICES = "mount -t tmpfs none /dev && mknod -m 666 /dev/urandom c 1 9"
_NO_SHM = ("cannot create shared memory in /dev/shm: ", "start them with shmrun")


@dataclass(frozen=True)
class Machine:
    """before: commands of the shell that make it. within: a command that runs the programs. fails: for some ways, the
    words that say what is missing. may_fail: the words, where any way either works or says them."""

    before: str = ""
    within: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    fails: dict[str, tuple[str, ...]] = field(default_factory=dict)
    may_fail: tuple[str, ...] = ()


MACHINES = {
    "no home": Machine("for i in passwd nsswitch.conf; do mount --bind /dev/null /etc/$i; done; unset HOME"),
    "foreign user": Machine(within=_AS_USER),
    "read-only root": Machine("mount -o remount,ro,bind /"),
    "small /dev/shm": Machine("mount -t tmpfs -o size=64m none /dev/shm"),
    "read-only /dev/shm": Machine("mount -t tmpfs -o ro none /dev/shm", fails={"torchrun": _NO_SHM}),
    "noexec /dev/shm": Machine("mount -t tmpfs -o noexec none /dev/shm"),
    "full /dev/shm": Machine(
        "mount -t tmpfs -o size=4m none /dev/shm && head -c 3M /dev/zero > /dev/shm/full",
        fails={"torchrun": ("needed, 1.0 MiB available; /dev/shm has 4.0 MiB, 3.0 MiB in use. ", "--shm-size")},
    ),
    "no /dev/shm": Machine(f"{_DEVICES} && mknod -m 666 /dev/null c 1 3", fails={"torchrun": _NO_SHM}),
    "no /dev/null": Machine(
        f"{_DEVICES} && mkdir /dev/shm && mount -t tmpfs none /dev/shm",
        fails=dict.fromkeys(("shmrun", "run"), ("/dev/null cannot be opened (No such file or directory). Mount /dev",)),
    ),
    "no /proc": Machine("mount -t tmpfs none /proc", fails=dict.fromkeys(WAYS, ("/proc is not mounted",))),
    "ASCII": Machine(environment=_ASCII),
    **{f"{n} descriptors": Machine(within=f"prlimit --nofile={n}", may_fail=("ulimit -n",)) for n in (10, 16, 24, 64)},
    **{
        f"{n} MiB of addresses": Machine(within=f"prlimit --as={n << 20}", may_fail=("ulimit -v",))
        for n in (500, 800, 2000)
    },
    **{
        f"{n} processes": Machine(
            within=f"{_AS_USER} prlimit --nproc={n}",
            environment={"OMP_NUM_THREADS": "1"},  # numpy's threads count
            may_fail=("ulimit -u",),
        )
        for n in (1, 2, 3)
    },
}


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Copies of the compiled code, by the user that owns them."""
    found = {user: tmp_path_factory.mktemp("cache") / "of_a_user" for user in (os.geteuid(), _USER)}
    for user, folder in found.items():
        shutil.copytree(cache_folder(), folder)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, user, user)
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MACHINES)
def test_two_ranks(tmp_path: Path, caches: dict[int, Path], name: str, way: str) -> None:
    machine = MACHINES[name]
    cache = caches[_USER if _AS_USER in machine.within else os.geteuid()]
    # other users cannot reach the folders by their names
    before = f"chmod 755 . && mkdir cache && mount --bind . /mnt && cd /mnt && mount --bind {cache} cache"
    if _AS_USER in machine.within:
        before += f"{_reachable(sys.base_prefix)} && {_AS_USER} {{python}} -c pass"
    if machine.before:
        before += f" && {machine.before}"
    done = ways.start(
        tmp_path,
        way,
        before=before,
        within=machine.within,
        unshare="--mount",
        SHMCOLL_CACHE_DIR="/mnt/cache",
        **machine.environment,
    )
    if words := machine.fails.get(way):
        assert ways.says(done, *words), done
    elif machine.may_fail and not ways.works(done):
        assert ways.says(done, *machine.may_fail), done
    else:
        assert ways.works(done), done


def _reachable(folder: str) -> str:
    """Return commands by which other users reach a folder, although one above it is closed to them, such as /root."""
    closed = [above for above in Path(folder).parents if not above.stat().st_mode & stat.S_IXOTH]
    if not closed:
        return ""
    covered = f"mount -t tmpfs -o mode=755 none {closed[-1]} && mkdir -p {folder}"
    return f" && mkdir python && mount --bind {folder} python && {covered} && mount --move python {folder}"
