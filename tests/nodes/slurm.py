"""Slurm over the nodes of a `Network`: its controller at the head, its daemon on each node, for jobs that srun starts.

Its programs are those of Debian's packages slurmctld, slurmd, slurm-client, slurm-wlm-basic-plugins and munge. They run
as children of the tests, with files of their own. Its daemons on a node end with the node.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tests.nodes.network import Network
from tests.support.patience import PATIENCE

_PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo")
_CONFIGURATION = """
ClusterName=tests
SlurmctldHost=head({head})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
StateSaveLocation={folder}
SlurmdSpoolDir={folder}/spool-%n
TmpFS={folder}/tmp-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
KillWait=2
PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=YES
"""
#: options of srun that start ranks on these nodes. With SLURM_HOSTFILE, which takes any order, ranks are not told which
#: of them share a machine
_PLACES = {
    "aa": ["-N", "1"],
    "ab": ["-N", "2"],
    "aabb": ["-N", "2", "--ntasks-per-node", "2"],
    "abab": ["-N", "2", "--ntasks-per-node", "2", "-m", "cyclic"],
    "aab": ["-N", "2", "-m", "plane=2"],
}
_NODE = "NodeName={name} NodeAddr={address} CPUs=64\n"  # it has fewer; ranks may outnumber them


class NoSlurm(Exception):
    """Slurm is not installed, or does not run here."""


class Slurm:
    """A cluster whose nodes are those of a network; `close` ends it.

    Args:
        network: its nodes.
        folder: for its files.

    Raises:
        NoSlurm: why it cannot be started.
    """

    def __init__(self, network: Network, folder: Path):
        missing = [name for name in _PROGRAMS if shutil.which(name, path=_path()) is None]
        if missing:
            raise NoSlurm(f"srun needs {', '.join(missing)}, which Slurm's packages have")
        self._network, self._folder = network, folder
        nodes = list(zip(network.names, network.addresses, strict=True))
        configuration = folder / "slurm.conf"
        configuration.write_text(
            _CONFIGURATION.format(head=network.own_address, folder=folder)
            + "".join(_NODE.format(name=name, address=address) for name, address in nodes)
        )
        for name in network.names:
            (folder / f"spool-{name}").mkdir()
            (folder / f"tmp-{name}").mkdir(exist_ok=True)
        key = folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(64))
        self._environment = {**os.environ, "PATH": _path(), "SLURM_CONF": str(configuration)}
        self._started: list[subprocess.Popen[bytes]] = []
        files = [f"--{what}-file={folder}/munge.{what}" for what in ("key", "pid", "log", "seed")]
        self._start(["munged", "--foreground", "--force", f"--socket={folder}/munge", *files])
        self._start(network.at_head(["slurmctld", "-D"]))
        for node, name in enumerate(network.names):
            self._start(network.at(node, ["slurmd", "-D", "-N", name]))
        self._wait_until_idle()

    def command(self, nodes: str, program: Sequence[str], mpi: str) -> list[str]:
        """Return the command line that runs a program on these nodes: a letter for each rank.

        mpi: by what its ranks are to find each other.
        """
        own = [f"{name}={self._environment[name]}" for name in ("SLURM_CONF", "PATH")]
        start = ["srun", f"--mpi={mpi}", "-n", str(len(nodes)), *_PLACES[nodes]]
        return self._network.at_head(["env", *own, *start, *program])

    def close(self) -> None:
        """End the cluster; its processes on the nodes end with the nodes."""
        for process in self._started:
            process.kill()
        for process in self._started:
            process.wait()

    def _start(self, command: Sequence[str]) -> None:
        with open(self._folder / "daemons.log", "ab") as log:
            self._started.append(subprocess.Popen(command, stdout=log, stderr=log, env=self._environment))

    def _wait_until_idle(self) -> None:
        asked = self._network.at_head(["sinfo", "--noheader", "--Node", "--format=%T"])
        until = time.monotonic() + PATIENCE
        while True:
            told = subprocess.run(asked, capture_output=True, text=True, env=self._environment, check=False)
            if told.stdout.split() == ["idle"] * len(self._network.names):
                return
            if time.monotonic() > until:
                self.close()
                said = "".join(path.read_text(errors="replace") for path in self._folder.glob("*.log"))
                raise NoSlurm(f"Slurm does not run here: {told.stdout}{told.stderr}{said}")
            time.sleep(0.1)


def _path() -> str:
    """Return where programs are, for users whose PATH lacks the administrator's folders, too."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
