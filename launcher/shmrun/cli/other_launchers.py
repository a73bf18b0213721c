"""What options of mpiexec (Open MPI, Hydra), torchrun and msrun mean here. `msrun.py` has those that only msrun has.

Names are canonical: without leading dashes, with '-' for '_'. So `-bind-to`, `--bind_to` and `--bind-to` are one name.
"""

import os
import re
from typing import NamedTuple

from shmrun.cli.values import Wrong, switch

#: the same option by another name
SAME = {
    "n": "ranks",
    "np": "ranks",
    "nproc-per-node": "ranks",
    "ntasks": "ranks",
    "l": "tag-output",
    "prepend-rank": "tag-output",
    "label": "tag-output",
    "t": "tee",
    "bind-core": "bind-to",
    "numa-binding": "bind-to",
    "cpu-bind": "bind-to",
    "mpi4py": "mpi",
}

#: words that say in a name that an option is the number of ranks, as in --nprocs, --num_processes or --world-size
_NUMBER_OF_RANKS = re.compile(r"(?!.*per-(?!node|host)).*(proc|rank|worker|world-size|tasks|jobs)")

#: options without effect on one machine, or always in effect; with the number of values that follow
NOTHING = {
    "standalone": 0,
    "allow-run-as-root": 0,
    "oversubscribe": 0,
    "use-hwthread-cpus": 0,
    "no-python": 0,
    "genvall": 0,
    "envall": 0,
    "localonly": 0,
    "print-all-exitcodes": 0,
    "quiet": 0,
    "q": 0,
    "verbose": 0,
    "map-by": 1,
    "rank-by": 1,
    "ppn": 1,
    "perhost": 1,
    "npernode": 1,
    "ntasks-per-node": 1,
    "rdzv-backend": 1,
    "rdzv-endpoint": 1,
    "rdzv-id": 1,
    "rdzv-conf": 1,
    "role": 1,
    "local-addr": 1,
    "monitor-interval": 1,
    "start-method": 1,
    "launcher": 1,
    "bootstrap": 1,
    "iface": 1,
    "rmk": 1,
    "mca": 2,
    "gmca": 2,
    "prtemca": 2,
    "pmixmca": 2,
}

#: options whose effect shmrun does not have
WITHOUT_EFFECT = {
    "report-bindings": 0,
    "timestamp-output": 0,
    "merge-stderr-to-stdout": 0,
    "get-stack-traces": 0,
    "report-state-on-timeout": 0,
    "display-map": 0,
    "genvnone": 0,
    "envnone": 0,
    "genvlist": 1,
    "envlist": 1,
    "hostfile": 1,
    "machinefile": 1,
    "f": 1,
    "output-filename": 1,
    "outfile-pattern": 1,
    "errfile-pattern": 1,
    "prepend-pattern": 1,
    "membind": 1,
    "wdir": 1,
    "wd": 1,
    "redirects": 1,
    "r": 1,
    "local-ranks-filter": 1,
    "signals-to-handle": 1,
    "max-restarts": 1,
    "sim-level": 1,
    "sim-rank-id": 1,
    "rank-table-file": 1,
}

#: options whose meaning depends on the value; with the number of values
MEANT = {
    "nnodes": 1,
    "node-rank": 1,
    "host": 1,
    "hosts": 1,
    "H": 1,
    "master-addr": 1,
    "master-port": 1,
    "x": 1,
    "genv": 2,
    "disable-auto-cleanup": 0,
    "bind-numa": 1,
}

ONE_MACHINE = "shmcoll is for one machine; across several, use MPI, or torch.distributed"


class Meaning(NamedTuple):
    """The equivalent option of ours, and its value."""

    name: str
    text: str


def canonical(word: str) -> str:
    """Return the name of an option. Hydra's `-env NAME VALUE` is not our `--env NAME=VALUE`."""
    return "genv" if word == "-env" else word.lstrip("-").replace("_", "-")


def likely(flag: str, values: list[str]) -> str:
    """Return a question with the option of ours that an unknown one with a number was perhaps meant for, or ''."""
    name = canonical(flag).lower()
    is_number = values and (values[0].isdecimal() or values[0] in ("auto", "cpu"))
    return f"; did you mean -n {values[0]}?" if is_number and _NUMBER_OF_RANKS.match(name) else ""


def meaning(name: str, words: list[str]) -> Meaning | None:
    """Return the meaning of an option in MEANT; None if it has no effect. Raises `Wrong` if it asks for more than one
    machine."""
    text = " ".join(words)
    if name == "nnodes" and text not in ("1", "1:1"):
        raise Wrong(f"{text} machines asked for, but {ONE_MACHINE}")
    if name == "node-rank" and text not in ("0", "-1"):
        raise Wrong(f"this is machine {text} of a job, but {ONE_MACHINE}")
    if name in ("host", "hosts", "H"):
        _refuse_others(text)
    if name in ("master-addr", "master-port"):
        return Meaning("env", f"{name.upper().replace('-', '_')}={text}")
    if name == "x":  # Open MPI: without a value, pass on the variable of the environment
        return Meaning("env", text) if "=" in text else None
    if name == "genv":
        return Meaning("env", "=".join(words))
    if name == "bind-numa":  # msrun
        return Meaning("bind-to", "numa") if switch(text) else None
    if name == "disable-auto-cleanup":
        return Meaning("on-failure", "continue")
    return None


def _refuse_others(hosts: str) -> None:
    """Refuse other hosts. Open MPI and Hydra separate them by commas, each with a number of slots after a colon."""
    here = os.uname().nodename
    for host in hosts.split(","):
        if host.partition(":")[0] not in ("localhost", "127.0.0.1", here, here.partition(".")[0]):
            raise Wrong(f"{host!r} is another machine, but {ONE_MACHINE}")
