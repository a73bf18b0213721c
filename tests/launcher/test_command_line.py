"""What shmrun understands, and what it says to what it does not."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from shmrun.cli.options import parse
from shmrun.cli.settings import Options

import shmcoll
from tests.support.patience import PATIENCE
from tests.support.small_memory import with_little_memory


@pytest.mark.timing
def test_help_is_instant():
    """A few times what Python itself takes to start, in CPU time: others may use the machine."""

    def seconds(*command: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        told.append(subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True).stdout)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    told: list[str] = []
    pairs = [(seconds("-c", "import argparse"), seconds("-m", "shmrun", "--help")) for _ in range(7)]  # in one moment
    assert min(help_ for _, help_ in pairs) < 5 * min(bare for bare, _ in pairs)
    assert "shmrun -n 4 train.py" in told[-1]


def test_help_imports_nothing_heavy():
    code = "import sys; sys.argv[1:] = ['--help']; from shmrun.__main__ import main\n"
    code += "try: main()\nexcept SystemExit: pass\n"
    code += "print(sorted({'numpy', 'numba', 'llvmlite', 'ctypes', 'socket'} & set(sys.modules)))\n"
    code += "print(sorted(name for name in sys.modules if name.startswith('shmcoll')))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    small = ["shmcoll", "shmcoll.startup", "shmcoll.startup.defaults", "shmcoll.startup.orders"]
    assert told.stdout.splitlines()[-2:] == ["[]", str(small)]


def test_version(shmrun):
    assert shmrun("--version").stdout == f"shmrun {shmcoll.__version__}\n"


def test_options_end_where_the_program_begins():
    told = parse(["-n", "3", "-l", "--timeout", "5", "--grace", "0.5", "job.py", "-n", "9", "--fresh", "--", "-l"])
    command = ("job.py", "-n", "9", "--fresh", "--", "-l")
    assert told == Options(ranks=3, command=command, tag_output=True, timeout=5.0, grace=0.5)


def test_all_behind_the_module_is_its_own():
    told = parse(["-n", "2", "--fresh", "--wait-timeout", "7", "-m", "package.module", "--timeout", "1", "-m", "x"])
    assert (told.command, told.module) == (("package.module", "--timeout", "1", "-m", "x"), True)
    assert (told.fresh, told.timeout, told.wait_timeout) == (True, None, 7.0)


def test_options_of_mpirun_are_ignored():
    told = parse(["--allow-run-as-root", "--oversubscribe", "-np", "2", "--", "ls"])
    assert (told.ranks, told.command) == (2, ("ls",))


def test_wait_timeout_from_the_environment(monkeypatch, capsys):
    monkeypatch.setenv("SHMCOLL_TIMEOUT", "12.5")
    assert parse(["-n", "1", "x"]).wait_timeout == 12.5
    assert parse(["-n", "1", "--wait-timeout", "3", "x"]).wait_timeout == 3.0
    monkeypatch.setenv("SHMCOLL_TIMEOUT", "soon")
    with pytest.raises(SystemExit) as end:
        parse(["-n", "1", "x"])
    assert end.value.code == 2
    assert "SHMCOLL_TIMEOUT" in capsys.readouterr().err


def test_auto_is_the_number_of_usable_cores():
    kept = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(kept)})
        assert parse(["-n", "auto", "x"]).ranks == 1
    finally:
        os.sched_setaffinity(0, kept)
    assert 1 <= parse(["-n", "auto", "x"]).ranks <= len(kept)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "how many ranks"),
        (["-n", "2"], "what shall the ranks run"),
        (["x.py"], "how many ranks"),
        (["-n", "0", "x.py"], "'0' is not a number of ranks"),
        (["-n", "-3", "x.py"], "'-3' is not a number of ranks"),
        (["-n", "many", "x.py"], "'many' is not a number of ranks"),
        (["-n", "70000", "x.py"], "'70000' is not a number of ranks"),
        (["-n", "2", "--timeout", "0", "x.py"], "--timeout"),
        (["-n", "2", "--grace", "nan", "x.py"], "--grace"),
        (["-n", "2", "--wait-timeout", "inf", "x.py"], "--wait-timeout"),
        (["-n", "2", "--wait-timeout", "1e-10", "x.py"], "give at least a microsecond"),
        (["-n", "2", "--timeout"], "--timeout needs a value"),
        (["-n", "2", "-m"], "what shall the ranks run"),
    ],
)
def test_a_wrong_command_line_is_one_clear_line(capsys, arguments, words):
    with pytest.raises(SystemExit) as end:
        parse(arguments)
    told = capsys.readouterr()
    assert (end.value.code, told.out) == (2, "")
    assert words in told.err
    assert told.err.startswith("shmrun: ")
    assert told.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["-n", "0", "x.py"], 2, "'0' is not a number of ranks"),
        (["-n", "2", "missing.py"], 127, "no such script: 'missing.py'"),
        (["-n", "2", "folder"], 126, "'folder' is a directory"),
        (["-n", "2", "./folder"], 126, "'./folder' is a directory"),
        (["-n", "2", "folder.py"], 126, "'folder.py' is a directory"),
        (["-n", "2", "./plain"], 126, "'./plain' is not executable"),
        (["-n", "2", "surely-missing"], 127, "no such program in PATH: 'surely-missing'"),
        (["-n", "2", "plain"], 127, "did you mean ./plain?"),
        (["-n", "2", "train"], 127, "did you mean train.py?"),
        (["-n", "2", "-m", "surely_missing"], 127, "no module named 'surely_missing'"),
    ],
)
def test_what_cannot_be_run_is_one_clear_line(shmrun, arguments, code, words):
    for folder in ("folder", "folder.py"):
        (shmrun.folder / folder).mkdir()
    for file in ("plain", "train.py"):
        (shmrun.folder / file).touch()
    told = shmrun(*arguments)
    assert (told.returncode, told.stdout) == (code, "")
    assert words in told.stderr
    assert told.stderr.startswith("shmrun: ")
    assert told.stderr.count("\n") == 1


def test_a_file_that_the_kernel_cannot_execute(shmrun):
    shmrun.write("echo no interpreter named\n", "plain")
    told = shmrun("-n", 1, "./plain")
    assert told.returncode == 126
    assert "its first line must name the interpreter" in told.stderr
    assert "Traceback" not in told.stderr


def test_too_little_memory_is_one_clear_line(shmrun, tmp_path):
    told = shmrun("-n", 4, "true", env=with_little_memory(tmp_path))
    assert told.returncode == 1
    assert told.stderr.startswith("shmrun: too little shared memory for the arena of 4 ranks: ")
    assert "Start fewer ranks" in told.stderr
    assert told.stderr.count("\n") == 1


def test_no_room_for_the_launcher_is_one_clear_line(shmrun):
    """As with ulimit -u, which does not hold for root."""
    shmrun.write(
        """
        import errno, os, sys
        def fork():
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        os.fork = fork
        sys.argv[1:] = ["-n", "1", "true"]
        from shmrun.__main__ import main
        sys.exit(main())
        """,
        "without.py",
    )
    done = subprocess.run(
        [sys.executable, "without.py"], cwd=shmrun.folder, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 1
    assert done.stderr.startswith("shmrun: cannot start the launcher: ")
    assert "ulimit -u" in done.stderr
    assert done.stderr.count("\n") == 1


def test_no_room_for_processes_is_one_clear_line(shmrun):
    # 20 descriptors do for the launcher, not for 30 ranks
    told = shmrun("-n", 30, "sleep", "60", preexec_fn=_few_descriptors)
    assert told.returncode == 1
    assert told.stderr.startswith("shmrun: 30 ranks need up to ")
    assert "the limit is 20. Start fewer ranks, or raise the limit (ulimit -n).\n" in told.stderr
    assert told.stderr.count("\n") == 1


def _few_descriptors() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))


def test_closed_standard_descriptors(shmrun):
    shmrun.write("import os; open(f'rank{os.environ[\"RANK\"]}', 'w').write('here')\n")
    told = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m shmrun -n 2 job.py <&- >&- 2>&-"], cwd=shmrun.folder, check=False
    )
    assert told.returncode == 0
    assert [Path(shmrun.folder, f"rank{r}").read_text() for r in (0, 1)] == ["here", "here"]
