"""Jobs over nodes: each starts mpiexec. Its ranks belong to nodes by SHMCOLL_NODE, or run on the nodes of a `Network`.

The MPI is that of the PATH and of MPI4PY_LIBMPI, as `make test-nodes` sets them.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.nodes.network import Network

ROOT = Path(__file__).parents[2]
DEADLINE = 240.0  # seconds

#: the node of each rank
LAYOUTS = {"2x2": "aabb", "2+1": "aab", "cyclic": "abab", "3 nodes": "abc"}

#: an MPI for tests: what mpiexec needs beside -n
_OPTIONS = {
    "mpich": [],
    "openmpi": ["--allow-run-as-root", "--oversubscribe"],
}


#: an MPI over a network: variables
_OVER_NETWORK = {
    "mpich": {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"},
    "openmpi": {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,sm,self"},
}

#: what an MPI can use between the ranks of one machine, beside what it takes by itself: variables. MPICH takes its
#: network between cliques, so it needs two of them, which are the nodes of layout 2x2
_CLIQUES = {"MPIR_CVAR_NUM_CLIQUES": "2", "MPIR_CVAR_CLIQUES_BY_BLOCK": "1"}
TRANSPORTS = {
    "mpich": {"own": {}, "ucx": _CLIQUES, "tcp": _CLIQUES | _OVER_NETWORK["mpich"]},
    "openmpi": {"own": {}, "tcp": {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self"}},
}

#: the variables that Open MPI's mpiexec has to be told to give to ranks on other machines; MPICH's gives them all
_GIVEN = ("SHMCOLL_", "PYTHON", "XDG_", "MPI4PY_")


def mpi_or_skip() -> str:
    """Return the path of mpiexec. Skips the test if `make test-nodes` has not named an MPI: one of the machine may be
    of any version."""
    mpiexec = shutil.which("mpiexec")
    if mpiexec is None or "MPI4PY_LIBMPI" not in os.environ or importlib.util.find_spec("mpi4py") is None:
        pytest.skip("make test-nodes installs an MPI, and runs these tests with it")
    return mpiexec


@cache
def kind_of_mpi() -> str:
    """Return which MPI there is."""
    version = subprocess.run([mpi_or_skip(), "--version"], capture_output=True, text=True, check=False).stdout
    return "openmpi" if any(name in version for name in ("Open MPI", "PRRTE", "OpenRTE")) else "mpich"


def command(
    script: str,
    nodes: Sequence[str],
    arguments: Sequence[str] = (),
    options: Sequence[str] = (),
    network: Network | None = None,
) -> list[str]:
    """Return the command line that runs a script on ranks of these nodes: simulated ones, or the first, the second and
    so on of a network. options: of mpiexec."""
    start = [mpi_or_skip(), *_OPTIONS[kind_of_mpi()], *options]
    if network is not None:
        program = [sys.executable, script, *arguments]
        return network.at_head([*start, *_over(network, nodes), "-n", str(len(nodes)), *program])
    run = (
        "import os, runpy, sys; "
        "rank = int(os.environ.get('PMI_RANK') or os.environ['OMPI_COMM_WORLD_RANK']); "
        f"os.environ['SHMCOLL_NODE'] = {list(nodes)!r}[rank]; "
        f"sys.argv = {[script, *arguments]!r}; runpy.run_path({script!r}, run_name='__main__')"
    )
    return [*start, "-n", str(len(nodes)), sys.executable, "-c", run]


def _over(network: Network, nodes: Sequence[str]) -> list[str]:
    """Return the options of mpiexec that start ranks on the nodes of a network."""
    names = list(dict.fromkeys(nodes))
    hosts = ",".join(f"{network.addresses[names.index(node)]}:{len(list(ranks))}" for node, ranks in groupby(nodes))
    if kind_of_mpi() == "mpich":
        own = ["-localhost", network.own_address]
        return [*own, "-launcher", "ssh", "-launcher-exec", str(network.ssh), "-hosts", hosts]
    agent = ["--prtemca", "plm_ssh_agent", str(network.ssh), "--prtemca", "plm_ssh_no_tree_spawn", "1"]
    variables = [name for name in environment(network=network) if name.startswith((*_GIVEN, "OMPI_"))]
    return [*agent, "--host", hosts, "--map-by", "slot", *(word for name in variables for word in ("-x", name))]


def environment(network: Network | None = None, **more: str) -> dict[str, str]:
    """Return the environment of a job, without what a surrounding one has set."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "SHMCOLL_ARENA", "SHMCOLL_NODE")
    kept = {k: v for k, v in os.environ.items() if k not in names and not k.startswith(("OMPI_", "PMI", "SLURM_"))}
    path = os.pathsep.join([str(ROOT), *filter(None, [kept.get("PYTHONPATH")])])
    # Open MPI keeps a file of shared memory for each rank, which a killed one leaves behind
    kept["OMPI_MCA_btl_sm_backing_directory"] = str(network.folder) if network else tempfile.gettempdir()
    if network is not None:
        kept |= {**_OVER_NETWORK[kind_of_mpi()], "TMPDIR": str(network.folder)}
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, "SHMCOLL_TIMEOUT": "30", "SHMCOLL_TUNING": "0", **more}


def run(
    folder: Path,
    script: str,
    layout: str,
    *arguments: str,
    options: Sequence[str] = (),
    network: Network | None = None,
    **more: str,
) -> subprocess.CompletedProcess[str]:
    """Run a script on the ranks of a layout, to its end. options: of mpiexec. more: variables."""
    return subprocess.run(
        command(script, LAYOUTS[layout], arguments, options, network),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        env=environment(network, **more),
        cwd=folder,
        check=False,
    )


def result(folder: Path, rank: int) -> Any:
    """Return what a rank has written as JSON."""
    return json.loads((folder / f"rank{rank}.json").read_text())


def results(folder: Path, ranks: int) -> list[Any]:
    """Return what the ranks have written, by rank."""
    return [result(folder, rank) for rank in range(ranks)]
