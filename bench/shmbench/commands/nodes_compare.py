"""`shmbench compare --nodes N`: flat MPI and shmcoll on the same ranks of simulated nodes, in turn, in one job.

MPICH simulates the nodes: its cliques. Messages between two cliques go through TCP, for flat MPI and for shmcoll.
MPICH's default would not do: its UCX moves such messages through the shared memory of the machine. So the job gets
libfabric's provider for TCP.

This process starts mpiexec, whose ranks run the script `bench/peers/nodes.py`; rank 0 writes what they have measured.
"""

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from shmbench.cli.flags import Parser, at_least, one_of, size_list
from shmbench.cli.options import COLLECTIVES
from shmbench.cli.sizes import microseconds, short_size
from shmbench.timing.other_load import WholeRun, busy_during
from shmbench.timing.peers import IMPORTED, SCRIPTS

USUAL = ("barrier", "all_reduce", "all_to_all", "all_gather", "broadcast", "reduce_scatter", "collective_permute")
NETWORK = {"MPIR_CVAR_CLIQUES_BY_BLOCK": "1", "MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"}


def main(argv: list[str]) -> int:
    """Measure, print, write. Returns 0, or 1 if a result was wrong or the job failed. Raises `SystemExit(2)` for
    mistakes."""
    parser = make_parser()
    given = parser.parse_args(argv)
    if given.ranks % given.nodes:
        parser.error(f"-n {given.ranks} ranks cannot be divided among --nodes {given.nodes}")
    if given.json and not given.json.absolute().parent.is_dir():
        parser.error(f"--json {given.json}: there is no folder {given.json.parent}")
    mpiexec = find_mpich() or parser.error(
        "--nodes needs MPICH, which simulates the nodes, and mpi4py beside shmcoll: pip install 'shmcoll[nodes]' mpich"
    )
    whole = WholeRun()
    found = measure(mpiexec, given)
    if found is None:
        return 1
    found["load"] = whole.end()
    print(*_table(found), sep="\n")
    if given.json:
        from shmbench.report.json_report import write

        write(given.json, found)
    return 1 if any(line["wrong"] for line in found["lines"]) else 0


def find_mpich() -> str | None:
    """Return the path of MPICH's mpiexec, in the environment of this interpreter or in the PATH; None without it, or
    without mpi4py."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None or importlib.util.find_spec("mpi4py") is None:
        return None
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    return found if "HYDRA" in version else None


def measure(mpiexec: str, given: argparse.Namespace) -> dict[str, Any] | None:
    """Return what the ranks have measured; None if they failed, which they have printed."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "found.json"
        asked = {
            "nodes": given.nodes,
            "collectives": list(dict.fromkeys(given.collectives)) or list(USUAL),
            "sizes": given.sizes,
            "rounds": given.rounds,
            "out": str(out),
        }
        command = [mpiexec, "-n", str(given.ranks), sys.executable, str(SCRIPTS / "nodes.py"), json.dumps(asked)]
        done = subprocess.run(command, env=_environment(given.nodes), stdin=subprocess.DEVNULL, check=False)
        if done.returncode or not out.exists():
            print(f"shmbench compare --nodes: the job failed with exit code {done.returncode}", file=sys.stderr)
            return None
        found: dict[str, Any] = json.loads(out.read_text())
        return found


def _environment(nodes: int) -> dict[str, str]:
    imported = os.pathsep.join([*map(str, IMPORTED), *filter(None, [os.environ.get("PYTHONPATH")])])
    kept = {name: value for name, value in os.environ.items() if name != "SHMCOLL_NODE"}
    return {**kept, **NETWORK, "MPIR_CVAR_NUM_CLIQUES": str(nodes), "PYTHONPATH": imported, "OMP_NUM_THREADS": "1"}


def _table(found: Mapping[str, Any]) -> Sequence[str]:
    machine, load = found["machine"], found["load"]
    lines = [
        f"# {found['ranks']} ranks on {found['nodes']} simulated nodes. Microseconds a call, medians of "
        f"{found['rounds']} rounds in turn",
        f"# {found['mpi']}, TCP between the nodes; shmcoll {found['shmcoll']}; {machine['processor']}, "
        f"{machine['cores']} cores",
        *filter(None, [busy_during(load)]),
        "#",
        f"# {'collective':<20}{'size':>9}{'flat MPI':>12}{'shmcoll':>12}{'ratio':>8}",
    ]
    for line in found["lines"]:
        flat, ours = (1e6 * median(line[who]) for who in ("flat", "shmcoll"))
        size = short_size(line["size"]) if line["size"] else "-"
        wrong = f"  {line['wrong']} wrong" if line["wrong"] else ""
        times = f"{microseconds(flat):>12}{microseconds(ours):>12}"
        lines.append(f"  {line['collective']:<20}{size:>9}{times}{ours / flat:>8.2f}{wrong}")
    total = sum(line["wrong"] for line in found["lines"])
    from shmbench.report.json_report import verdict

    return [*lines, verdict(total)]


def make_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="shmbench compare --nodes",
        description="Measure shmcoll over simulated nodes of this machine and flat MPI, on the same ranks, in turn.",
        epilog="Exit code: 0; 1 when a result was wrong or the job failed, 2 for wrong options.",
    )
    add = parser.add_argument
    add("collectives", nargs="*", type=one_of("collective", COLLECTIVES), metavar="collective",
        help=f"{', '.join(COLLECTIVES)} ({', '.join(USUAL)})")  # fmt: skip
    add("--nodes", type=at_least(2), required=True, metavar="N", help="simulated nodes")
    add("-n", "--ranks", type=at_least(2), default=4, metavar="N", help="ranks of all nodes (4)")
    add("--sizes", type=size_list, default="8,64K,4M,64M", metavar="SIZE,...", help="(8,64K,4M,64M)")
    add("--rounds", type=at_least(1), default=9, metavar="N", help="rounds, whose medians are compared (9)")
    add("-J", "--json", type=Path, metavar="FILE", help="write all figures")
    return parser
