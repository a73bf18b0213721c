"""Files that decide what we do are believed only where nobody else can have written them."""

import grp
import os
import pwd
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from shmcoll.engine.compiler import object_cache
from shmcoll.engine.memory import thresholds
from shmcoll.engine.system import trusted_files
from shmcoll.engine.system.cache_dir import cache_folder
from shmcoll.engine.system.trusted_files import Distrusted
from tests.support.users import as_them, common, give, needs_two_users

__all__ = ["common"]


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path) -> Path:
    """An empty cache. What is said once is said once a test."""
    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(object_cache, "_said", set())
    monkeypatch.setattr(object_cache, "_hints", [])
    return cache_folder()


@pytest.fixture
def kept(folder) -> Path:
    """The file of an object that has been built before."""
    assert object_cache.object_file("name", lambda: b"built", None) == b"built"
    (path,) = folder.glob("*.o")
    return path


def is_replaced(path: Path) -> list[str]:
    """That what is under the name is not believed, and gives way to a file of ours; what was said of it."""
    told: list[str] = []
    assert not object_cache.holds("name")
    assert object_cache.object_file("name", lambda: b"anew", told.append) == b"anew"
    assert object_cache.object_file("name", lambda: b"never", None) == b"anew"
    info = path.lstat()
    assert stat.S_ISREG(info.st_mode)
    assert (stat.S_IMODE(info.st_mode), info.st_uid, info.st_nlink) == (0o600, os.geteuid(), 1)
    assert told.pop() == "compiling name (once per machine)"
    return told


def test_a_file_that_others_may_have_written(kept):
    """The folder was open to all, somebody has put a file there, and our advice has been followed since."""
    kept.chmod(0o666)
    (line,) = is_replaced(kept)
    assert line.startswith("ignored compiled code that somebody else may have put there: others may write ")
    assert line.endswith("(mode 666); chmod go-w it; it is compiled anew")


def test_a_link(kept, tmp_path):
    kept.rename(tmp_path / "elsewhere")
    kept.symlink_to(tmp_path / "elsewhere")
    assert "is a symbolic link" in is_replaced(kept)[0]


def test_a_second_name(kept, tmp_path):
    (tmp_path / "elsewhere").hardlink_to(kept)
    assert "has 2 names (hard links)" in is_replaced(kept)[0]


@pytest.mark.parametrize("suffix", [".o", ".lock"])
def test_a_fifo_is_not_waited_for(kept, suffix):
    kept.unlink()
    path = kept.with_suffix(suffix)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert len(is_replaced(kept)) == (suffix == ".o")


def test_a_directory_is_no_file_and_stays(kept):
    kept.unlink()
    kept.mkdir()
    told: list[str] = []
    assert object_cache.object_file("name", lambda: b"anew", told.append) == b"anew"
    assert "is not a regular file; remove it" in told[0]
    assert "cannot be written: Is a directory" in told[2]


def test_no_link_is_followed_where_something_is_written(folder, tmp_path, monkeypatch):
    """A name that could be foreseen would lead into a file that the link of somebody else chooses."""
    monkeypatch.setattr(os, "urandom", lambda _: b"foreseen")
    (tmp_path / "mine").write_text("precious")
    path = folder / "file"
    path.with_name(f"file.{b'foreseen'.hex()}.tmp").symlink_to(tmp_path / "mine")
    with pytest.raises(FileExistsError):
        trusted_files.write(path, b"other")
    assert (tmp_path / "mine").read_text() == "precious"


def test_what_we_write_is_ours_alone_whatever_the_umask(tmp_path, monkeypatch):
    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(tmp_path / "above" / "cache"))
    before = os.umask(0)
    try:
        assert object_cache.object_file("name", lambda: b"built", None) == b"built"
        thresholds.keep(2, {"flat_bytes": 4096})
    finally:
        os.umask(before)
    made = sorted((tmp_path / "above").rglob("*"))
    modes = {(path.suffix, stat.S_IMODE(path.stat().st_mode)) for path in made}
    assert modes == {("", 0o700), (".o", 0o600), (".lock", 0o600), (".json", 0o600)}
    assert stat.S_IMODE((tmp_path / "above").stat().st_mode) == 0o700


def test_a_lock_of_an_older_release_is_closed_to_others(kept):
    """Who can read a file can hold a lock on it."""
    lock = kept.with_suffix(".lock")
    lock.chmod(0o644)
    kept.unlink()
    assert object_cache.object_file("name", lambda: b"anew", None) == b"anew"
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600


def test_measured_thresholds_are_read_with_the_same_care(monkeypatch, caplog):
    monkeypatch.delenv("SHMCOLL_TUNING")
    path = thresholds.keep(2, {"flat_bytes": 65536})
    for spoil, words in (
        (lambda: path.chmod(0o666), "others may write"),
        (lambda: path.with_name("x").hardlink_to(path), "has 2 names"),
        (lambda: path.with_name("x").replace(path) and path.with_name("y").symlink_to(path), ""),
        (lambda: path.with_name("y").rename(path), "is a symbolic link"),
        (lambda: (path.unlink(), os.mkfifo(path)), "is not a regular file"),
    ):
        spoil()
        if words:
            assert thresholds.known() == {}
            (line,) = caplog.messages
            caplog.clear()
            assert line.startswith(f"ignored {path}: ") and words in line
            path.unlink()
            thresholds.keep(2, {"flat_bytes": 65536})
            assert thresholds.known() == {2: {"flat_bytes": 65536}}


def test_a_folder_below_one_that_others_may_write(tmp_path, monkeypatch):
    """They could put another in its place."""
    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(tmp_path / "above" / "cache"))
    folder = cache_folder()
    folder.parent.chmod(0o777)
    with pytest.raises(Distrusted, match=f"others may write {folder.parent} "):
        cache_folder()
    folder.parent.chmod(0o1777)  # there they cannot
    assert cache_folder() == folder


def test_a_folder_behind_links(tmp_path, monkeypatch):
    """The directories that hold the links decide, too, and `..` is that of where the link leads."""
    places = [tmp_path / name for name in ("links", "far/real/cache", "far/other")]
    for place in places:
        place.mkdir(parents=True)
    (tmp_path / "links" / "one").symlink_to("../far/real")
    (tmp_path / "two").symlink_to(tmp_path / "links" / "one")
    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(tmp_path / "two" / "cache"))
    assert cache_folder() == tmp_path / "two" / "cache"
    for place in (tmp_path / "links", tmp_path / "far"):
        place.chmod(0o777)
        with pytest.raises(Distrusted, match=f"others may write {place} "):
            cache_folder()
        place.chmod(0o755)
    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(tmp_path / "two" / ".." / "other"))
    assert cache_folder().resolve() == tmp_path / "far" / "other"
    (tmp_path / "far" / "other").chmod(0o777)
    with pytest.raises(Distrusted, match="others may write"):
        cache_folder()


def test_links_that_go_round(tmp_path):
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        trusted_files.check_way(tmp_path / "round" / "x")


def test_the_private_group_of_a_user(monkeypatch, tmp_path):
    """One that bears the user's name and lists no other member; a group of root, or one with members, is others."""
    gid = 41003 if os.geteuid() == 0 else os.getegid()
    path = tmp_path / "file"
    path.touch()
    path.chmod(0o664)
    os.chown(path, -1, gid)
    user = SimpleNamespace(pw_name="me", pw_gid=gid)
    monkeypatch.setattr(pwd, "getpwuid", lambda _: user)

    def judged(name: str, members: list[str]) -> bool:
        trusted_files._is_private.cache_clear()
        monkeypatch.setattr(grp, "getgrgid", lambda _: SimpleNamespace(gr_name=name, gr_mem=members))
        try:
            return trusted_files.read(path) == b""
        except Distrusted:
            return False

    assert judged("me", []) and judged("me", ["me"])
    assert not judged("me", ["me", "them"]) and not judged("staff", [])
    monkeypatch.setattr(os, "getxattr", lambda *_: b"an access list")
    assert not judged("me", [])
    monkeypatch.undo()
    trusted_files._is_private.cache_clear()
    assert not trusted_files._is_private(0)
    trusted_files._is_private.cache_clear()


@needs_two_users
def test_a_file_of_another_user(kept):
    give(kept)
    assert "belongs to uid 41002, not to uid 0" in is_replaced(kept)[0]


@needs_two_users
def test_what_another_user_has_planted_while_the_folder_was_open(common, monkeypatch):
    """The attack: a valid object file, a link and a lock of theirs, then our `chmod go-w`."""
    folder = common / "cache"
    folder.mkdir()
    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(folder))
    path = folder / f"name-{object_cache._fingerprint('name')}.o"
    folder.chmod(0o777)
    with pytest.raises(Distrusted, match="chmod go-w it"):
        cache_folder()
    evil = object_cache.hashlib.sha256(b"evil").digest() + b"evil"

    def plant() -> None:
        for name, data in ((path, evil), (path.with_suffix(".lock"), b"")):
            with open(name, "wb") as file:
                file.write(data)

    as_them(plant)
    folder.chmod(0o755)
    assert "belongs to uid 41002" in is_replaced(path)[0]


@needs_two_users
def test_nothing_is_made_where_another_user_decides(common, monkeypatch):
    """As root with that user's HOME, say: their link would choose where a directory of root comes into being."""
    (common / "theirs").mkdir()
    (common / "ours").mkdir()
    (common / "theirs" / "link").symlink_to(common / "ours")
    give(common / "theirs")
    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(common / "theirs" / "link" / "above" / "cache"))
    with pytest.raises(Distrusted, match=f"{common}/theirs belongs to uid 41002"):
        cache_folder()
    assert list((common / "ours").iterdir()) == []


@needs_two_users
@pytest.mark.parametrize("theirs", ["above", "above/link"])
def test_a_way_that_another_user_decides(common, monkeypatch, theirs):
    (common / "above" / "cache").mkdir(parents=True, mode=0o700)
    (common / "above" / "link").symlink_to("cache")
    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(common / "above" / "link"))
    assert cache_folder()
    give(common / theirs)
    with pytest.raises(Distrusted, match=f"{common / theirs} belongs to uid 41002, not to uid 0 or root"):
        cache_folder()


@needs_two_users
def test_root_that_a_user_namespace_does_not_know(tmp_path):
    """There its files show the owner nobody: the way to our own leads through them all the same."""
    code = "from shmcoll.engine.system import trusted_files; print(sorted(trusted_files._roots()))"
    command = ["unshare", "--user", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and "unshare" in done.stderr:
        pytest.skip(f"no user namespaces here: {done.stderr.strip()}")
    assert (done.stdout, sorted(trusted_files._roots())) == ("[0, 65534]\n", [0])
