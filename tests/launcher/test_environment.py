"""What a rank finds: variables, standard input, session, descriptors."""

import json
import os
import subprocess
import sys

import pytest

TELL = """
import json, os
names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE RANK_ID RANK_SIZE DEVICE_ID"
names += " MASTER_ADDR MASTER_PORT OMP_NUM_THREADS"
line = json.dumps({name: os.environ.get(name) for name in names.split()})
os.write(1, line.encode() + b"\\n")
"""


def _told(result):
    assert result.returncode == 0, result.stderr
    return sorted((json.loads(line) for line in result.stdout.splitlines()), key=lambda told: int(told["RANK"]))


@pytest.mark.parametrize("way", ["fork", "--fresh", "executable"])
def test_variables(shmrun, way):
    script = shmrun.write("#!/usr/bin/env python3" + TELL, "job.py" if way != "executable" else "job")
    told = _told(shmrun("-n", 3, *["--fresh"][: way == "--fresh"], f"./{script}"))
    assert [int(t["RANK"]) for t in told] == [0, 1, 2]
    for t in told:
        assert t["RANK"] == t["LOCAL_RANK"] == t["RANK_ID"] == t["DEVICE_ID"]
        assert t["WORLD_SIZE"] == t["LOCAL_WORLD_SIZE"] == t["RANK_SIZE"] == "3"
        assert t["MASTER_ADDR"] == "127.0.0.1"
        assert 0 < int(t["MASTER_PORT"]) < 1 << 16
        assert t["OMP_NUM_THREADS"] == "1"
    assert len({t["MASTER_PORT"] for t in told}) == 1


def test_programs_for_mpi_find_the_variables_of_mpich(shmrun):
    """Packages look at them to find out whether they are to use MPI at all."""
    pytest.importorskip("mpi4py")
    script = shmrun.write("""
        import os, subprocess, sys
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        for rank, size in (("PMI_RANK", "PMI_SIZE"), ("MPI_LOCALRANKID", "MPI_LOCALNRANKS")):
            assert (int(os.environ[rank]), int(os.environ[size])) == (comm.rank, comm.size)
        child = "import shmcoll; print(shmcoll.init().size)"
        assert subprocess.check_output([sys.executable, "-c", child]) == b"1\\n"
    """)
    done = shmrun("-n", 2, "--mpi", script)
    assert done.returncode == 0, done.stderr
    for told in _told(shmrun("-n", 2, shmrun.write(TELL.replace('"RANK ', '"PMI_RANK RANK ')))):
        assert told["PMI_RANK"] is None


def test_what_the_user_has_set_is_kept(shmrun):
    env = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500", "OMP_NUM_THREADS": "2", "RANK": "77"}
    for told in _told(shmrun("-n", 2, shmrun.write(TELL), env=env)):
        assert [told[name] for name in ("MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS")] == ["10.0.0.1", "29500", "2"]
        assert told["RANK"] in "01"


@pytest.mark.parametrize("way", [(), ("--fresh",)])
def test_rank_0_reads_standard_input_and_the_others_none(shmrun, way):
    script = shmrun.write("""
        import os, sys
        os.write(1, f"{os.environ['RANK']} {sys.stdin.read()!r}\\n".encode())
    """)
    told = shmrun("-n", 3, *way, script, given="some words")
    assert sorted(told.stdout.splitlines()) == ["0 'some words'", "1 ''", "2 ''"]


def test_ranks_lead_groups_in_one_session_that_is_not_the_callers(shmrun):
    """A session each would make them yield their cores to nobody, see `shmrun/start/foreground.py`."""
    script = shmrun.write('import os; os.write(1, f"{os.getpgid(0) == os.getpid()} {os.getsid(0)}\\n".encode())')
    told = [line.split() for line in shmrun("-n", 3, script).stdout.splitlines()]
    assert [leads for leads, _ in told] == ["True"] * 3
    assert len({session for _, session in told}) == 1
    assert int(told[0][1]) != os.getsid(0)


@pytest.mark.parametrize("way", ["fork", "tagged", "--fresh", "executable"])
def test_no_descriptor_of_the_launcher_but_the_arena(shmrun, way):
    """A rank of many has seen the pipes of those before it. In Python ranks its own report pipe is left, and
    the file that it would write its stacks to."""
    text = """#!/usr/bin/env python3
import os
def link(fd):
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""  # the listing's own
links = {link(fd).partition(":")[0].partition("#")[0] for fd in os.listdir("/proc/self/fd") if int(fd) > 2}
os.write(1, (" ".join(sorted(links)).strip() + "\\n").encode())
"""
    script = shmrun.write(text, "job" if way == "executable" else "job.py")
    options = {"tagged": ["-l"], "--fresh": ["--fresh"]}.get(way, [])
    told = shmrun("-n", 4, *options, f"./{script}")
    lines = {line.partition("] ")[2] if way == "tagged" else line for line in told.stdout.splitlines()}
    assert lines == ({"/memfd"} if way == "executable" else {"/memfd pipe"})


def test_descriptors_of_the_caller_pass_through(shmrun):
    script = shmrun.write(
        "import os; os.write(1, os.environ['THROUGH'].encode() + os.read(int(os.environ['THROUGH']), 9))"
    )
    read, write = os.pipe()
    try:
        os.write(write, b" is here")
        told = shmrun("-n", 1, script, pass_fds=[read], env={"THROUGH": str(read)})
    finally:
        os.close(read)
        os.close(write)
    assert told.stdout == f"{read} is here"


def test_the_launcher_loads_numpy_for_the_ranks_and_not_before():
    """BLAS starts its threads when it is loaded, by variables that the launcher sets for the ranks first. A fork of a
    process with such threads would be no rank, so each rank would need an interpreter of its own."""
    loads = "import sys; from shmrun.watch import failure_summary, supervise; from shmrun.start import prepare, spawn"
    told = subprocess.run(
        [sys.executable, "-c", f"{loads}; print([name for name in ('numpy', 'llvmlite') if name in sys.modules])"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout == "[]\n"
