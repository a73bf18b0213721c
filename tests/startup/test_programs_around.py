"""Programs that a rank starts are no ranks, and programs between launcher and rank do no harm."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import shmcoll
from shmcoll.startup import launchers, marks
from tests.rendezvous.test_find_placement import BY_HAND, HYDRA, MSRUN, OPEN_MPI, SRUN, TORCHRUN
from tests.support.launched import shmrun
from tests.support.patience import PATIENCE

__all__ = ["shmrun"]

ROOT = Path(__file__).parents[2]
OTHERS = Path(os.environ.get("SHMCOLL_LAUNCHERS") or ROOT / ".launchers")

TOOL = "import numpy, shmcoll; c = shmcoll.init(); print(c.size, c.all_reduce(numpy.ones(1))[0], c.launcher)"

#: tells the size of the job that each kind of child finds itself in; at last all ranks become another program
RANK = f"""
import multiprocessing, os, subprocess, sys, shmcoll

comm = shmcoll.init()  # at the top: what multiprocessing starts anew comes here, too
tool = [sys.executable, "-c", {TOOL!r}]

def size():
    return str(shmcoll.init().size)

if __name__ == "__main__":
    told = {{"of all ranks": subprocess.check_output(tool, text=True)}}
    if comm.rank == 0:
        told["of one, by a shell that ends"] = subprocess.check_output(["sh", "-c", '"$0" "$@" &', *tool], text=True)
        for method in ("spawn", "forkserver"):
            with multiprocessing.get_context(method).Pool(1) as pool:
                told[method] = pool.apply(size)
    wrong = {{kind: text for kind, text in told.items() if text.strip() not in ("1 1.0 none", "1")}}
    os.write(1, f"{{comm.size}} {{wrong}}\\n".encode())
    comm.barrier()
    os.execv(sys.executable, tool)
"""


# --- what a rank starts -----------------------------------------------------------------------------------------------

PLACES = {
    "torchrun": (TORCHRUN, {"TORCHELASTIC_RUN_ID": "7"}),
    "openmpi": (OPEN_MPI, {"PMIX_NAMESPACE": "7"}),
    "openmpi on several machines": ({**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, {"PMIX_NAMESPACE": "7"}),
    "hydra": (HYDRA, {"PMI_SIZE": "3", "MPI_LOCALNRANKS": "3"}),
    "srun": (SRUN, {"SLURM_STEP_ID": "7"}),
    "mpiexec in srun": ({**SRUN, **HYDRA}, {"PMI_RANK": "1"}),
    "msrun": (MSRUN, {"MS_SCHED_PORT": "7"}),
    "PMI": ({"PMI_RANK": "0", "PMI_SIZE": "2"}, {"PMI_SIZE": "3"}),
    "by hand": (BY_HAND, {"WORLD_SIZE": "7"}),
}


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`marked(variables)`: have this process joined under them."""

    def join(variables: dict[str, str], job: str | None = None) -> None:
        for name in {name for one in launchers._LAUNCHERS for name in one.names} | {marks.NAME}:
            monkeypatch.setenv(name, "")  # so that it is restored
            monkeypatch.delenv(name)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        launchers.mark_children(job)

    return join


def placed(**more: str) -> str:
    """Who has started this process."""
    try:
        place = launchers.find_placement({**os.environ, **more})
    except shmcoll.ShmcollError as error:
        return getattr(error, "launcher", str(error))
    return place.launcher if place else "nobody"


def in_a_child(**more: str) -> str:
    """Who has started a child of this process, by its own account."""
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            os.write(write, placed(**more).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read) as answer:
        text = answer.read()
    os.wait()
    return text


@pytest.mark.parametrize("case", PLACES)
def test_a_launcher_is_that_of_one_process_until_another_one_sets_its_variables(marked: Any, case: str) -> None:
    variables, others = PLACES[case]
    marked(variables)
    launcher = placed()
    assert launcher != "nobody"  # the process itself, where it executes another program
    assert in_a_child() == "nobody"
    assert in_a_child(**others) == launcher
    another, name = (OPEN_MPI, "openmpi") if launcher == "torchrun" else (TORCHRUN, "torchrun")
    assert in_a_child(**another) == name


def test_what_the_rank_sets_for_other_libraries_makes_no_ranks(marked: Any) -> None:
    marked(OPEN_MPI)
    assert in_a_child(RANK="2", WORLD_SIZE="3", MASTER_PORT="77") == "nobody"
    marked(BY_HAND)
    assert marks.NAME in in_a_child(MASTER_PORT="77")  # a rank of another job, or none: only the user knows


@pytest.mark.parametrize("text", ["", "7", "[]", '[1,2,"",[]]', '[1,2,"",{"srun":[]}]', "[" * 9999])
def test_a_mark_that_makes_no_sense_is_ignored(marked: Any, text: str) -> None:
    marked(BY_HAND)
    assert in_a_child(**{marks.NAME: text}) == "environment"


def test_a_child_that_gives_the_name_of_its_ranks_job_is_told(marked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    marked({}, job="mine")
    monkeypatch.setattr(os, "getpid", lambda: 1)
    with pytest.raises(shmcoll.CallNotAllowed, match="a rank of job 'mine', has started this process"):
        shmcoll.startup.join._explicit(1, 2, "mine")
    assert shmcoll.startup.join._explicit(1, 2, "other").rank == 1


@pytest.mark.parametrize("launcher", ["shmrun", *(pytest.param(n, marks=pytest.mark.slow) for n in
                                      ("fresh", "torchrun", "openmpi", "hydra", "by hand"))])  # fmt: skip
def test_children_of_ranks_are_jobs_of_one(shmrun: Any, launcher: str) -> None:
    shmrun.write(RANK)
    me = [sys.executable, "job.py"]
    command = {
        "shmrun": [sys.executable, "-m", "shmrun", "-n", "2", "job.py"],
        "fresh": [sys.executable, "-m", "shmrun", "-n", "2", "--fresh", "job.py"],
        "torchrun": [OTHERS / "torch/bin/torchrun", "--standalone", "--nproc-per-node", "2", "--no-python", *me],
        "openmpi": [OTHERS / "openmpi/bin/mpiexec", "--allow-run-as-root", "--oversubscribe", "-n", "2", *me],
        "hydra": [OTHERS / "mpich/bin/mpiexec", "-n", "2", *me],
        "by hand": ["sh", "-c", f"RANK=0 {' '.join(me)} & RANK=1 {' '.join(me)}; wait"],
    }[launcher]
    if not shutil.which(command[0]):
        pytest.skip(f"{launcher} is not installed; make test-launchers does it")
    more = {"WORLD_SIZE": "2", "MASTER_PORT": "1"} if launcher == "by hand" else {}
    process = shmrun.start_process(command, {**os.environ, **more, "PYTHONPATH": str(ROOT)})
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    name = {"fresh": "environment", "shmrun": "environment", "by hand": "environment"}.get(launcher, launcher)
    assert sorted(out.splitlines()) == ["2 2.0 " + name] * 2 + ["2 {}"] * 2, err


def start_tool() -> str:
    shmcoll.init()
    return subprocess.check_output([sys.executable, "-c", TOOL], text=True)


def test_children_of_ranks_of_run() -> None:
    try:
        assert shmcoll.run(start_tool, 2) == ["1 1.0 none\n"] * 2
    finally:
        shmcoll.runner.shutdown()


@pytest.mark.parametrize("inner", ["shmrun", *(pytest.param(n, marks=pytest.mark.slow) for n in ("openmpi", "mpich"))])
def test_a_launcher_that_a_rank_starts_has_ranks_of_its_own(shmrun: Any, inner: str) -> None:
    command = {
        "shmrun": [sys.executable, "-m", "shmrun"],
        "openmpi": [str(OTHERS / "openmpi/bin/mpiexec"), "--allow-run-as-root", "--oversubscribe"],
        "mpich": [str(OTHERS / "mpich/bin/mpiexec")],
    }[inner]
    if not shutil.which(command[0]):
        pytest.skip(f"{inner} is not installed; make test-launchers does it")
    script = shmrun.write(f"""
        import subprocess, shmcoll
        shmcoll.init()
        subprocess.run({[*command, "-n", "2", sys.executable, "-c", TOOL]!r}, check=True)
    """)
    done = shmrun("-n", 2, script)
    name = {"mpich": "hydra"}.get(inner, inner)
    assert (done.stdout.splitlines(), done.stderr) == ([f"2 2.0 {name}"] * 4, "")


# --- what comes between launcher and rank -----------------------------------------------------------------------------

#: the programs in between: each runs the real one twice, as a script of two steps does
BETWEEN = {
    "one that opens a file in place of the descriptor": """
        for fd in range(3, 30): os.dup2(os.open("job", os.O_RDONLY), fd)
        subprocess.run(real, check=True, close_fds=False); os.execv(real[0], real)
    """,
    "one that executes itself": """
        if len(sys.argv) == 1: os.closerange(3, 30); os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
        subprocess.run(real, check=True); subprocess.run(real, check=True)
    """,
}


@pytest.mark.parametrize("between", BETWEEN)
def test_a_program_between_launcher_and_rank(shmrun: Any, between: str) -> None:
    code = textwrap.dedent(BETWEEN[between])
    head = f"#!{sys.executable}\nimport os, subprocess, sys\nreal = {[sys.executable, '-c', TOOL]!r}\n"
    name = "job.py" if "itself" in between else "job"  # one that runs in a fork of the launcher, and others
    shmrun.write(head + code, name)
    done = shmrun("-n", 2, f"./{name}")
    assert (done.stdout.splitlines(), done.stderr) == (["2 2.0 shmrun"] * 4, "")


def test_one_process_is_the_rank(shmrun: Any) -> None:
    """The first that joins. Children that it has started before do not know that it has joined; others are told."""
    script = shmrun.write("""
        import os, subprocess, sys
        import shmcoll

        started_before = dict(os.environ)
        if sys.argv[1] == "second":
            open("joined").close()
            try:
                shmcoll.init()
            except shmcoll.ArenaError as error:
                print(error)
            open("refused", "w").close()
        else:
            shmcoll.init()
            print(os.getpid(), subprocess.check_output(sys.argv[2:], env=started_before, text=True), flush=True, end="")
            open("joined", "w").close()
            open("refused").close()
    """)
    for name in ("joined", "refused"):
        os.mkfifo(shmrun.folder / name)
    real = f"{sys.executable} {script}"
    done = shmrun("-n", 1, "sh", "-c", f"{real} first {sys.executable} -c '{TOOL}' & {real} second; wait")
    first, *told = done.stdout.splitlines()
    pid, _, child = first.partition(" ")
    assert child == "1 1.0 none"
    assert told == [f"rank 0 of this job is process {pid}; one process per rank calls init()"]
    assert done.stderr == ""
