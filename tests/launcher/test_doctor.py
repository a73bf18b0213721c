"""`shmrun doctor` and `shmrun warm`."""

import errno
import os
import re
import resource
from pathlib import Path

import pytest
from shmrun.commands import doctor, installation, machine
from shmrun.commands.findings import Level

from shmcoll.startup.warm import ALL
from tests.support import switches

pytestmark = pytest.mark.slow

SUBJECTS = (
    "libc kernel versions cores waiting /dev/shm memfd memory ulimit arena one native cache routines reductions trial"
)


def subjects(out):
    return {line[9:].split()[0] for line in out.splitlines() if line.startswith(("ok ", "warning ", "error "))}


def levels(check):
    return [finding.level for finding in check()]


def test_a_fit_machine(shmrun):
    shmrun("warm")
    told = shmrun("doctor")
    assert (told.returncode, told.stderr) == (0, ""), told.stdout
    assert subjects(told.stdout) == set(SUBJECTS.split())
    assert told.stdout.splitlines()[-1].startswith(("All is well.", "Ranks can run here; "))
    assert "error " not in told.stdout


def test_what_keeps_ranks_from_running_is_an_error(shmrun):
    told = shmrun("doctor", env={"SHMCOLL_HEAP": "plenty"})
    assert told.returncode == 1
    (line,) = [line for line in told.stdout.splitlines() if line.startswith("error ")]
    assert "SHMCOLL_HEAP='plenty'" in line
    assert "two ranks" not in told.stdout
    assert told.stdout.splitlines()[-1] == "Ranks cannot run here: 1 of the above must be fixed."


def test_a_check_that_breaks_is_an_error(monkeypatch, capsys):
    def broken():
        raise ImportError("no such thing")
        yield

    for name in ("system", "cores", "polling", "shared_memory", "limits", "trial_arena", "one_copy"):
        monkeypatch.setattr(machine, name, broken)
    assert doctor.examine() == 1
    assert capsys.readouterr().out.count("ImportError: no such thing\n") == 7


def test_one_core(monkeypatch):
    monkeypatch.setattr(machine, "usable_cores", lambda: 1)
    assert levels(machine.cores) == [Level.WARNING]
    assert [finding.text.split(" yield")[0] for finding in machine.polling()] == ["2 ranks", "4 ranks", "8 ranks"]
    monkeypatch.setattr(machine, "usable_cores", lambda: 4)
    assert levels(machine.cores) == [Level.OK]
    assert ["poll before they sleep" in finding.text for finding in machine.polling()] == [True, True, False]


def test_a_small_or_missing_shared_memory(monkeypatch):
    class Info:
        f_blocks, f_bavail, f_frsize = 16384, 1, 4096

    monkeypatch.setattr(os, "statvfs", lambda path: Info)
    found = {f.subject: f.level for f in machine.shared_memory()}
    assert (found["memfd"], found["/dev/shm"]) == (Level.OK, Level.WARNING)
    Info.f_bavail = 64 << 8  # what Docker gives
    assert [f.level for f in machine.shared_memory() if f.subject == "/dev/shm"] == [Level.WARNING]
    monkeypatch.setattr(os, "statvfs", lambda path: Path("/surely/missing").stat())
    assert list(machine.shared_memory())[-1].text.startswith("missing (No such file or directory)")
    monkeypatch.setattr(machine, "available", lambda fd: 4096)
    memory = list(machine.shared_memory())[1]
    assert (memory.subject, memory.level) == ("memory", Level.ERROR)


def test_limits(monkeypatch):
    def limit_to(limit):
        monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
        return {finding.subject: (finding.level, finding.text) for finding in machine.limits()}

    assert {level for level, _ in limit_to(resource.RLIM_INFINITY).values()} == {Level.OK}
    few = limit_to(16)
    assert [few[f"ulimit -{letter}"][0] for letter in "vfnul"] == [Level.WARNING] * 4 + [Level.OK]
    assert few["ulimit -n"][1].startswith("16 open files")


def test_a_kernel_without_pidfd_and_an_old_libc(monkeypatch):
    def no_pidfd(pid):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", no_pidfd)
    monkeypatch.setattr(os, "confstr", lambda name: "glibc 2.28")
    assert levels(machine.system) == [Level.ERROR, Level.ERROR]
    monkeypatch.setattr(os, "confstr", lambda name: None)  # musl
    assert next(machine.system()).text == "no glibc"


def test_versions(monkeypatch):
    assert levels(installation.versions) == [Level.OK]
    monkeypatch.setattr(installation, "_DISTRIBUTIONS", ("numpy", "surely-missing"))
    *_, missing = installation.versions()
    assert (missing.level, missing.advice) == (Level.ERROR, "pip install surely-missing")


def test_the_native_entry(monkeypatch):

    for fast, level in ((True, Level.OK), (False, Level.WARNING)):
        switches.use_entry(monkeypatch, fast=fast)
        assert levels(installation.native_entry) == [level]


def test_the_state_of_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(tmp_path / "cache"))
    _, routines, reductions = installation.compiled()
    assert routines.level == Level.WARNING
    assert routines.text.startswith("compiled: 0 of ")
    assert "all_reduce" in routines.text
    assert reductions.text.startswith("compiled: 0 of ")
    (tmp_path / "cache").chmod(0o777)
    (open_to_all,) = installation.compiled()
    assert open_to_all.level == Level.WARNING
    assert "others may write" in open_to_all.text


def test_no_trial_where_it_would_have_to_compile(shmrun, tmp_path):
    told = shmrun("doctor", env={"SHMCOLL_CACHE_DIR": str(tmp_path / "cache")})
    assert told.returncode == 0
    assert "shmrun warm" in told.stdout
    assert "trial" not in subjects(told.stdout)


def test_a_trial_that_fails_is_quoted(monkeypatch):
    monkeypatch.setenv("SHMCOLL_FLAT_BYTES", "some")
    (finding,) = installation.trial()
    assert finding.level == Level.ERROR
    assert "SHMCOLL_FLAT_BYTES='some'" in finding.text


def test_warm_says_what_is_ready_and_where(shmrun):
    told = shmrun("warm")
    assert told.returncode == 0
    assert told.stdout.startswith("shmrun: ready in ")
    assert f": {len(ALL)} routines (" in told.stdout
    assert shmrun("warm").stderr == ""  # nothing was left to compile


def test_warm_compiles_what_is_named(shmrun):
    told = shmrun("warm", "all_reduce", "sum_float32")
    assert told.returncode == 0
    assert ": 1 routine and 1 reduction (" in told.stdout
    told = shmrun("warm", "allreduce")
    assert told.returncode == 2
    assert told.stderr.startswith("shmrun: nothing called 'allreduce' is compiled; did you mean all_reduce? (see ")


def test_what_came_with_shmcoll(monkeypatch, capsys):
    """As in an installation from a wheel."""
    from shmrun.commands import warm

    from shmcoll.engine.compiler import object_cache

    monkeypatch.setattr(object_cache, "_packaged", lambda name, progress=None: b"code")
    monkeypatch.setenv("SHMCOLL_CACHE_DIR", "/proc/cache")  # which is not asked
    assert warm.warm(everything=True) == 0
    count = len(ALL)
    assert capsys.readouterr().out.startswith(f"shmrun: nothing to compile: {count} routines and ")
    monkeypatch.delenv("SHMCOLL_CACHE_DIR")
    texts = {finding.subject: finding.text for finding in installation.compiled()}
    assert texts["routines"] == f"nothing to compile: all {count} came with shmcoll"
    assert texts["reductions"].startswith("nothing to compile: all ")


@pytest.mark.stress
def test_warm_compiles_the_only_routine_that_is_missing(monkeypatch, tmp_path, capsys):
    """As a single core would compile them all: in one process."""
    from shmcoll.engine.compiler import object_cache
    from shmcoll.startup import warm

    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(tmp_path / "cache"))
    told: list[str] = []
    warm.fill_cache([warm.GATE], told.append)
    assert object_cache.holds(warm.GATE)
    assert told == ["compiling 1 routine for this machine, once", "compiled gate: 1 of 1"]


def test_warm_compiles_reductions_and_says_so(monkeypatch, tmp_path):
    from shmcoll.engine.compiler import object_cache
    from shmcoll.startup import warm

    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(tmp_path / "cache"))
    said: list[str] = []
    warm.fill_cache(["min_int8", "max_int8"], said.append)
    assert object_cache.holds("min_int8")
    assert object_cache.holds("max_int8")
    assert not object_cache.holds("sum_int8")
    begin, *lines = said
    assert begin == "compiling 2 reductions for this machine, once"
    assert sorted(line.split(":")[0] for line in lines) == ["compiled max_int8", "compiled min_int8"]
    assert re.search(r": 1 of 2, about \d+ s left$", lines[0])
    assert lines[1].endswith(": 2 of 2")


def test_all_reductions_have_names_that_the_cache_knows():
    from shmcoll.engine.compiler.compile import all_kernels
    from shmcoll.startup import warm

    assert len(warm.kernels()) == len(all_kernels())
    assert not set(warm.kernels()) & set(warm.ALL)
    assert {"sum_float32", "avg_bfloat16", "prod_bool"} <= set(warm.kernels())


def test_a_cache_that_cannot_be(shmrun):
    told = shmrun("warm", "--all", env={"SHMCOLL_CACHE_DIR": "/proc/cache"})
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.startswith("shmrun: cannot compile ahead: ")
    assert told.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["doctor", "warm"])
def test_a_program_of_that_name_is_not_shadowed(shmrun, name):
    shmrun.write("#!/bin/sh\necho mine\n", name)
    path = f"{shmrun.folder}:{os.environ['PATH']}"
    assert shmrun("-n", 1, name, env={"PATH": path}).stdout == "mine\n"
    assert shmrun(f"./{name}", env={"SHMCOLL_RANKS": "1"}).stdout == "mine\n"
    told = shmrun(name, "--mine")
    assert told.returncode == 2
    assert told.stderr.startswith(f"shmrun: shmrun {name} takes no --mine; to run a program of that name: ")
    assert shmrun(name, "--help").stdout.startswith(f"usage: shmrun {name}")


@pytest.mark.parametrize(("answer", "level", "text"), [
    (None, Level.OK, "ranks can read each other's memory, so long arrays are copied once"),
    (-errno.EPERM, Level.WARNING, "ranks cannot read each other's memory (Operation not permitted), so long private"),
])  # fmt: skip
def test_whether_ranks_can_read_each_other(monkeypatch, answer, level, text):
    if answer is not None:
        monkeypatch.setattr(machine.atomics, "read_memory", lambda *_: answer)
    (finding,) = machine.one_copy()
    assert finding.level is level
    assert finding.text.startswith(text)
