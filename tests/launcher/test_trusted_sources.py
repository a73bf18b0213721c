"""A pyproject.toml that somebody else may have written is named and ignored: it would run their code in every rank."""

import os
import sys
from pathlib import Path

import pytest
from shmrun.cli.options import parse
from shmrun.cli.settings import SETTINGS

from tests.support.users import common, give, needs_two_users

pytestmark = pytest.mark.slow

__all__ = ["common"]

TABLE = "[tool.shmrun]\nranks = 5\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for setting in SETTINGS.values():
        monkeypatch.delenv(setting.variable or "NONE", raising=False)
    return tmp_path


def ignored(capsys) -> str:
    """What is said of the file that is ignored, in one line, when the command line has the options."""
    assert parse(["-n", "1", "x.py"]).ranks == 1
    said = capsys.readouterr().err
    assert said.count("\n") == said.count("shmrun: ignored ") == 1, said
    return said


def below(folder: Path, *names: str) -> Path:
    path = folder.joinpath(*names)
    path.mkdir(parents=True)
    return path


@pytest.mark.parametrize("mode", [0o777, 0o1777, pytest.param(0o775, marks=needs_two_users)])
def test_a_current_directory_that_others_may_write(folder, capsys, mode):
    (folder / "pyproject.toml").write_text(TABLE)
    if mode == 0o775:
        os.chown(folder, -1, 41003)  # a group that others may be in
    folder.chmod(mode)
    why = f"others may write {folder} (mode {mode:o}); chmod go-w it"
    assert f"ignored {folder}/pyproject.toml: {why}" in ignored(capsys)


def test_a_file_that_others_may_write(folder, capsys):
    (folder / "pyproject.toml").write_text(TABLE)
    (folder / "pyproject.toml").chmod(0o666)
    assert f"others may write {folder}/pyproject.toml (mode 666)" in ignored(capsys)


def test_a_directory_between_the_current_one_and_that_of_the_file(folder, capsys, monkeypatch):
    (folder / "pyproject.toml").write_text(TABLE)
    monkeypatch.chdir(below(folder, "open", "mine"))
    assert parse(["x.py"]).ranks == 5
    (folder / "open").chmod(0o1777)
    assert f"ignored {folder}/pyproject.toml: others may write {folder}/open" in ignored(capsys)


def test_a_file_that_is_ignored_gives_way_to_no_other(folder, capsys, monkeypatch):
    (folder / "pyproject.toml").write_text(TABLE)
    open_one = below(folder, "open")
    (open_one / "pyproject.toml").write_text("[tool.shmrun]\nranks = 6\n")
    open_one.chmod(0o777)
    monkeypatch.chdir(below(open_one, "mine"))
    assert f"ignored {open_one}/pyproject.toml: " in ignored(capsys)


def test_a_directory_above_that_others_may_write_hides_nothing(folder, capsys, monkeypatch):
    """It is above the file's own: a search from here ends before, and in a sticky one nobody can replace ours."""
    mine = below(folder, "sticky", "mine")
    (mine / "pyproject.toml").write_text(TABLE)
    mine.parent.chmod(0o1777)
    monkeypatch.chdir(mine)
    assert parse(["x.py"]).ranks == 5
    assert capsys.readouterr().err == ""
    mine.parent.chmod(0o777)
    assert f"others may write {mine.parent} (mode 777)" in ignored(capsys)


def test_nothing_is_said_of_a_file_that_has_no_options(folder, capsys):
    (folder / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    folder.chmod(0o777)
    assert parse(["-n", "1", "x.py"]).ranks == 1
    assert capsys.readouterr().err == ""


def test_a_link_counts_as_what_it_leads_to(folder, capsys, monkeypatch):
    shared = below(folder, "shared")
    (shared / "common.toml").write_text(TABLE)
    here = below(folder, "here")
    (here / "pyproject.toml").symlink_to("../shared/common.toml")
    monkeypatch.chdir(here)
    assert parse(["x.py"]).ranks == 5
    shared.chmod(0o777)
    assert f"ignored {here}/pyproject.toml: others may write {shared}" in ignored(capsys)


def test_a_second_name_of_a_file(folder, capsys):
    (folder / "elsewhere").write_text(TABLE)
    (folder / "pyproject.toml").hardlink_to(folder / "elsewhere")
    assert "has 2 names (hard links)" in ignored(capsys)


def test_what_is_no_file_is_passed_over(folder, capsys, monkeypatch):
    """A FIFO would be waited for."""
    (folder / "pyproject.toml").write_text(TABLE)
    here = below(folder, "here")
    os.mkfifo(here / "pyproject.toml")
    monkeypatch.chdir(here)
    assert parse(["x.py"]).ranks == 5
    (here / "pyproject.toml").unlink()
    (here / "pyproject.toml").mkdir()
    assert parse(["x.py"]).ranks == 5
    assert capsys.readouterr().err == ""


def test_a_file_that_is_longer_than_memory(folder, capsys):
    """Anybody can make one of any length in /tmp, above all who work there."""
    with open(folder / "pyproject.toml", "w") as file:
        file.write(TABLE)
        file.truncate(1 << 43)
    (folder / "pyproject.toml").chmod(0o666)
    assert "others may write" in ignored(capsys)


def test_a_current_directory_that_has_been_removed(folder, capsys, monkeypatch):
    gone = below(folder, "gone")
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert parse(["-n", "2", "x.py"]).ranks == 2
    assert capsys.readouterr().err == ""


@needs_two_users
@pytest.mark.parametrize("theirs", [".", "mine", "mine/pyproject.toml"])
def test_what_belongs_to_another_user(common, monkeypatch, capsys, theirs):
    mine = below(common, "mine")
    (mine / "pyproject.toml").write_text(TABLE)
    monkeypatch.chdir(mine)
    assert parse(["x.py"]).ranks == 5
    give(common / theirs)
    assert f"ignored {mine}/pyproject.toml: {common / theirs} belongs to uid 41002, not to uid 0" in ignored(capsys)


@needs_two_users
def test_a_link_of_another_user(common, monkeypatch, capsys):
    mine = below(common, "mine")
    (mine / "elsewhere.toml").write_text(TABLE)
    (mine / "pyproject.toml").symlink_to("elsewhere.toml")
    monkeypatch.chdir(mine)
    assert parse(["x.py"]).ranks == 5
    give(mine / "pyproject.toml")
    assert f"ignored {mine}/pyproject.toml: {mine}/pyproject.toml belongs to uid 41002" in ignored(capsys)


@needs_two_users
def test_their_code_does_not_run_in_our_ranks(shmrun, common):
    """The attack: a directory of theirs, and in it a pyproject.toml that has every rank load their module."""
    (common / "sitecustomize.py").write_text(f"open({str(common / 'ran')!r}, 'w')")
    (common / "pyproject.toml").write_text(f"[tool.shmrun]\nenv = {{ PYTHONPATH = {str(common)!r} }}\n")
    for path in (common, common / "pyproject.toml", common / "sitecustomize.py"):
        give(path)
    shmrun.folder = common
    told = shmrun("-n", 2, sys.executable, "-c", "print('ours')")
    assert (told.returncode, told.stdout) == (0, "ours\nours\n")
    assert f"shmrun: ignored {common}/pyproject.toml: " in told.stderr
    assert not (common / "ran").exists()
