"""Defaults in the environment and in pyproject.toml."""

import dataclasses
import subprocess
import sys

import pytest
from shmrun.cli.options import parse
from shmrun.cli.settings import SETTINGS, Options

EVERY = """
[project]
name = "x"
[tool.shmrun]
ranks = 3
tag-output = true
log_dir = "logs"
dump = "kept"
tee = true
timeout = 5
wait-timeout = 7.5
on-failure = "continue"
grace = 0
bind-to = "numa"
threads = 2
env = { A = "a", NUMBER = 4, YES = true }
stdin = "none"
report = true
report-json = "report.json"
trace = "trace.json"
stats = "stats.json"
log-level = "error"
heap = "1.5G"
stall-warning = 9
fresh = true
check = true
mindspore = true
nki = true
mpi = true
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for setting in SETTINGS.values():
        monkeypatch.delenv(setting.variable or "NONE", raising=False)
    return tmp_path


def refused(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        parse(list(arguments))
    assert end.value.code == 2
    return capsys.readouterr().err


def test_every_option_may_stand_in_pyproject(folder):
    (folder / "pyproject.toml").write_text(EVERY)
    expected = Options(
        ranks=3, command=("x.py",), module=False, tag_output=True, timeout=5.0, wait_timeout=7.5, fresh=True, grace=0.0,
        log_dir=str(folder / "logs"), dump=str(folder / "kept"), tee=True, bind_to="numa",
        env=(("A", "a"), ("NUMBER", "4"), ("YES", "true")),
        on_failure="continue", stdin="none", report=True, heap=3 << 29, check=True,
        report_json=str(folder / "report.json"), trace=str(folder / "trace.json"), stats=str(folder / "stats.json"),
        log_level="error", stall_warning=9.0, mindspore=True, nki=True, mpi=True, threads=2,
    )  # fmt: skip
    assert parse(["x.py"]) == expected
    default = parse(["-n", "1", "--no-report", "x.py"])
    settable = {field.name for field in dataclasses.fields(Options)} - {"command", "module", "msrun"}
    assert settable == {name.replace("-", "_") for name in SETTINGS}
    assert (default.ranks, default.report, default.fresh) == (1, False, True)


def test_every_option_may_stand_in_the_environment(folder, monkeypatch):
    texts = {
        "SHMCOLL_RANKS": "3", "SHMCOLL_TAG_OUTPUT": "1", "SHMCOLL_LOG_DIR": "logs", "SHMCOLL_TEE": "on",
        "SHMCOLL_JOB_TIMEOUT": "5", "SHMCOLL_TIMEOUT": "7.5", "SHMCOLL_ON_FAILURE": "continue", "SHMCOLL_GRACE": "0",
        "SHMCOLL_BIND_TO": "numa", "SHMCOLL_STDIN": "none", "SHMCOLL_REPORT": "true", "SHMCOLL_FRESH": "yes",
        "SHMCOLL_HEAP": "1.5G", "SHMCOLL_CHECK": "1", "SHMCOLL_REPORT_JSON": "report.json",
        "SHMCOLL_STALL_WARNING": "9", "SHMCOLL_SHARE_ARRAYS": "1", "SHMCOLL_MINDSPORE": "1", "SHMCOLL_NKI": "true",
        "SHMCOLL_MPI": "1", "SHMCOLL_TRACE": "trace.json", "SHMCOLL_STATS": "yes", "SHMCOLL_LOG_LEVEL": "Warning",
        "SHMCOLL_DUMP": "kept", "SHMCOLL_THREADS": "2",
    }  # fmt: skip
    assert set(texts) == {setting.variable for setting in SETTINGS.values()} - {""}
    for name, text in texts.items():
        monkeypatch.setenv(name, text)
    expected = Options(
        ranks=3, command=("x.py",), module=False, tag_output=True, timeout=5.0, wait_timeout=7.5, fresh=True, grace=0.0,
        log_dir="logs", tee=True, bind_to="numa", env=(), on_failure="continue", stdin="none", report=True,
        heap=3 << 29, check=True, report_json="report.json", stall_warning=9.0, share_arrays=True, mindspore=True,
        nki=True, mpi=True, trace="trace.json", stats=True, log_level="warning", dump="kept", threads=2,
    )  # fmt: skip
    assert parse(["x.py"]) == expected


def test_a_switch_that_may_have_a_value(folder, capsys):
    def read(*words):
        options = parse(["-n", "1", *words, "x.py"])
        return options.stats, options.command

    assert read("--stats") == (True, ("x.py",))
    assert read("--stats=s.json") == ("s.json", ("x.py",))
    assert read("--stats=off") == read("--stats", "--no-stats") == (False, ("x.py",))
    assert "'no/s.json' is not a file in a directory that exists" in refused(capsys, "--stats=no/s.json", "x.py")
    (folder / "pyproject.toml").write_text("[tool.shmrun]\nstats = true\n")
    assert read() == (True, ("x.py",))


def test_help_lists_them_all():
    command = [sys.executable, "-m", "shmrun", "--help"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for setting in SETTINGS.values():
        assert f"--{setting.name}{setting.metavar if setting.switch else ''}" in told
        assert f"[{setting.variable}]" in told or not setting.variable
    assert "[tool.shmrun]" in told
    assert max(map(len, told.splitlines())) <= 120


def test_command_line_before_environment_before_pyproject(folder, monkeypatch):
    (folder / "pyproject.toml").write_text("[tool.shmrun]\nranks = 2\ngrace = 2\ntimeout = 2\n")
    monkeypatch.setenv("SHMCOLL_RANKS", "3")
    monkeypatch.setenv("SHMCOLL_GRACE", "3")
    monkeypatch.setenv("SHMCOLL_JOB_TIMEOUT", "")
    told = parse(["-n", "4", "x.py"])
    assert (told.ranks, told.grace, told.timeout) == (4, 3.0, 2.0)


def test_variables_of_both_places_add_up(folder):
    (folder / "pyproject.toml").write_text('[tool.shmrun.env]\nA = "a"\nB = "b"\n')
    told = parse(["-n", "1", "--env", "B=1", "--env", "C=x=y", "--env", "B=2", "x.py"])
    assert dict(told.env) == {"A": "a", "B": "2", "C": "x=y"}


def test_the_nearest_file_that_has_the_table(folder, monkeypatch):
    (folder / "pyproject.toml").write_text("[tool.shmrun]\nranks = 5\n")
    below = folder / "one" / "two"
    below.mkdir(parents=True)
    (folder / "one" / "pyproject.toml").write_text("[project]\nname = 'shmrun'\n")
    monkeypatch.chdir(below)
    assert parse(["x.py"]).ranks == 5
    (folder / "one" / "pyproject.toml").write_text("[tool.shmrun]\nranks = 6\n")
    assert parse(["x.py"]).ranks == 6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ranks = 'many'", "pyproject.toml, [tool.shmrun] ranks: 'many' is not a number of ranks"),
        ("ranks = 1.5", "'1.5' is not a number of ranks"),
        ("ranks = 2\nbind-to = 'x'", "[tool.shmrun] bind-to: 'x' is not one of none, core, numa"),
        ("ranks = 2\non_failure = 'x'", "[tool.shmrun] on_failure: 'x' is not one of stop, continue"),
        ("ranks = 2\nstdin = 'all'", "'all' is not one of rank0, none"),
        ("ranks = 2\nreport = 'maybe'", "'maybe' is neither true nor false"),
        ("ranks = [2]", "[tool.shmrun] ranks: expected a string or a number, got [2]"),
        ("ranks = 2\nenv = 'A=1'", "[tool.shmrun] env: expected a table"),
        ("ranks = 2\nenv = { A = [] }", "[tool.shmrun] env.A: expected a string or a number, got []"),
        ("ranks = 2\nlog-dir = ''", "[tool.shmrun] log-dir: the name of a directory is missing"),
        ("ranks = ", "pyproject.toml cannot be read: Invalid value (at line 2"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(folder, capsys, text, words):
    (folder / "pyproject.toml").write_text(f"[tool.shmrun]\n{text}\n")
    err = refused(capsys, "x.py")
    assert words in err
    assert str(folder) in err
    assert err.count("\n") == 1


def test_a_wrong_variable_is_named(folder, capsys, monkeypatch):
    monkeypatch.setenv("SHMCOLL_GRACE", "long")
    err = refused(capsys, "-n", "1", "x.py")
    assert err.startswith("shmrun: environment variable SHMCOLL_GRACE: 'long' is not a number of seconds")
    monkeypatch.delenv("SHMCOLL_GRACE")
    assert "--env: 'A' is not NAME=VALUE" in refused(capsys, "-n", "1", "--env", "A", "x.py")


def test_an_unknown_key_is_named(folder, capsys):
    (folder / "pyproject.toml").write_text("[tool.shmrun]\nranks = 2\nrnks = 3\n")
    assert parse(["x.py"]).ranks == 2
    assert capsys.readouterr().err.endswith("pyproject.toml, [tool.shmrun] rnks: no such option, ignored\n")


def test_a_job_from_pyproject_and_environment(shmrun):
    shmrun.write("[tool.shmrun]\nranks = 3\ntag-output = true\nenv = { WORD = 'here' }\n", "pyproject.toml")
    told = shmrun("sh", "-c", "echo $WORD $RANK", env={"SHMCOLL_RANKS": "2"})
    assert sorted(told.stdout.splitlines()) == ["[0] here 0", "[1] here 1"]
