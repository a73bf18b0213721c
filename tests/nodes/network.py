"""A network of nodes on this machine, for jobs over real sockets: a switch, and nodes that are linked to it.

A node has network interfaces, a host name, process numbers, a /dev/shm and a TMPDIR of its own. It shares all other
files with this machine, as the machines of a cluster share some. It needs root, and the programs of iproute2 and of
util-linux.

A node is made by the program `unshare`. The first process of the node is a shell that waits for the end of its standard
input, which the process that has made the network holds. When the first process of a node ends, the kernel kills all
others of the node. So nothing outlives a network, however its maker ends, and `lose` is a kill of that process.

The switch is a bridge in a namespace of its own, in which mpiexec runs: its host is "head", and no other network is
visible there. mpiexec reaches the nodes by a stand-in for ssh, which gives a program nothing of the environment of its
caller, as ssh does. A link is a pair of interfaces: e0 on the node, and one with the name of the node at the switch.
"""

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psutil

from shmcoll.engine.system.processes import process_start

_PROGRAMS = ("ip", "tc", "unshare", "nsenter", "mount", "bash")
_SWITCH = "10.9.0.254"  # an address in namespaces of ours, where nobody else has any
_FIRST = "hostname {name} && ip link set lo up && {more} && echo ready && read"
_HEAD = f"ip link add br0 type bridge && ip address add {_SWITCH}/24 dev br0 && ip link set br0 up"
_SSH = """#!/bin/bash
# Stands for ssh: [option...] host command...
while [[ $1 == -* ]]; do case $1 in -[bcDEeFIiJLlmOopQRSWw]) shift 2;; *) shift;; esac; done
case ${1#*@} in
%s
*) echo "there is no host $1" >&2; exit 255;; esac
shift
own=(HOME="$HOME" PATH=/usr/bin:/bin TMPDIR="$temporary")
exec nsenter --target "$node" --net --uts --ipc --mount --pid env -i "${own[@]}" bash -c "$*"
"""


class NoNetwork(Exception):
    """This machine, or this user, cannot make networks."""


class Network:
    """A switch and nodes; `close` ends them and everything on them.

    Args:
        folder: for the stand-in of ssh, and for the TMPDIR of each node.
        names: the host name of each node.
        memory: the size of each /dev/shm.

    Raises:
        NoNetwork: why it cannot be made here.
    """

    def __init__(self, folder: Path, names: Sequence[str] = ("a", "b"), memory: str = "256m"):
        if os.geteuid() != 0:
            raise NoNetwork("a network of namespaces needs root")
        missing = [name for name in _PROGRAMS if shutil.which(name) is None]
        if missing:
            raise NoNetwork(f"a network of namespaces needs {', '.join(missing)}")
        self._holders: list[subprocess.Popen[str]] = []
        self._first: list[tuple[int, int]] = []  # of each node the first process, and its start
        self.names = names
        self.own_address = _SWITCH  # of the head
        self.addresses = [f"10.9.0.{number}" for number in range(1, len(names) + 1)]
        self.folder = folder
        self.ssh = folder / "ssh"
        try:
            self._head = self._hold("head", ["--net", "--uts"], _HEAD)
            for number, name in enumerate(names):
                self._add_node(number, name, memory)
        except BaseException:
            self.close()
            raise
        lines = []
        for name, address, (pid, _) in zip(names, self.addresses, self._first, strict=True):
            temporary = folder / f"tmp-{name}"
            temporary.mkdir()
            lines.append(f"{address}) node={pid} temporary={shlex.quote(str(temporary))};;")
        self.ssh.write_text(_SSH % "\n".join(lines))
        self.ssh.chmod(0o700)

    def at_head(self, command: Sequence[str]) -> list[str]:
        """Return the command line that runs a command where mpiexec runs."""
        return ["nsenter", "--target", str(self._head), "--net", "--uts", *command]

    def at(self, node: int, command: Sequence[str]) -> list[str]:
        """Return the command line that runs a command on a node."""
        return ["nsenter", "--target", str(self._first[node][0]), "--all", *command]

    def on(self, node: int, *command: str) -> None:
        """Run a command on a node, to its end."""
        subprocess.run(self.at(node, command), check=True)

    def cut(self, node: int, *, at: str = "switch") -> None:
        """Take the link of a node down, at the switch, as if somebody had pulled the cable, or at the node."""
        self._set_link(node, at, "down")

    def mend(self, node: int, *, at: str = "switch") -> None:
        """Bring the link of a node up again."""
        self._set_link(node, at, "up")

    def limit(self, bits: int) -> None:
        """Let each node send so many bits a second at most."""
        how = f"qdisc replace dev e0 root tbf rate {bits} burst 256kb latency 50ms"
        for node in range(len(self._first)):
            self.on(node, "tc", *how.split())

    def lose(self, node: int) -> None:
        """Kill every process of a node at once."""
        pid, start = self._first[node]
        if process_start(pid) == start:
            os.kill(pid, signal.SIGKILL)
        self._holders[node + 1].wait()

    def processes(self, node: int) -> dict[int, str]:
        """Return the command lines of the processes that run on a node, by their number on this machine."""
        first, found = self._first[node][0], {}
        space = _link(first)
        for process in psutil.process_iter():
            if process.pid != first and space and _link(process.pid) == space:
                try:
                    if process.status() != psutil.STATUS_ZOMBIE:
                        found[process.pid] = " ".join(process.cmdline())
                except psutil.Error:  # it has ended
                    continue
        return found

    def shared_names(self, node: int) -> list[str]:
        """Return the names of ours in the /dev/shm of a node."""
        folder = Path(f"/proc/{self._first[node][0]}/root/dev/shm")
        return [path.name for path in folder.iterdir() if "shmcoll" in path.name] if folder.is_dir() else []

    def close(self) -> None:
        """End the nodes, and everything on them."""
        for pid, start in self._first:
            if process_start(pid) == start:
                os.kill(pid, signal.SIGKILL)
        for holder in self._holders:
            holder.kill()
            holder.communicate()

    # --- how ----------------------------------------------------------------------------------------------------------

    def _add_node(self, number: int, name: str, memory: str) -> None:
        apart = ["--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        holder = self._hold(name, apart, f"mount -t tmpfs -o size={memory},mode=1777 shm /dev/shm")
        (first,) = psutil.Process(holder).children()
        self._first.append((first.pid, process_start(first.pid)))
        port = f"link add port{number} master br0 up type veth peer name e0 netns {holder}"
        subprocess.run(self.at_head(["ip", *port.split()]), check=True)
        self.on(number, "ip", "address", "add", f"{self.addresses[number]}/24", "dev", "e0")
        self.on(number, "ip", "link", "set", "e0", "up")

    def _hold(self, name: str, apart: Sequence[str], more: str) -> int:
        """Start a process that holds namespaces of its own, and return its number."""
        holder = subprocess.Popen(
            ["unshare", *apart, "bash", "-c", _FIRST.format(name=name, more=more)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._holders.append(holder)
        assert holder.stdout
        if holder.stdout.readline() != "ready\n":
            _, said = holder.communicate()
            raise NoNetwork(f"a network of namespaces cannot be made here: {said.strip()}")
        return holder.pid

    def _set_link(self, node: int, at: str, state: str) -> None:
        if at == "switch":
            subprocess.run(self.at_head(["ip", "link", "set", f"port{node}", state]), check=True)
        else:
            self.on(node, "ip", "link", "set", "e0", state)


def _link(pid: int) -> str:
    """Return the process namespace of a process; empty if it has ended."""
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return ""
