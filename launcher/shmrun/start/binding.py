"""Which cores a rank may use (`--bind-to`).

core    one usable core, or one for each of its `--threads`, the next ones for the next rank; second hardware threads of
        cores come last
numa    the usable cores of one NUMA node; neighbouring ranks on the same one, as many on each as possible
"""

from pathlib import Path

from shmcoll.engine.system.cores import allowed_cores
from shmcoll.engine.system.text import read_text

_SYSTEM = Path("/sys/devices/system")


def cores(bind_to: str, rank: int, ranks: int, threads: int = 1, system: Path = _SYSTEM) -> set[int]:
    """Return the cores of a rank: a part of those that this process may use, never empty."""
    usable = allowed_cores()
    if bind_to == "core":
        threads = threads or max(1, len(usable) // ranks)
        order = sorted(usable, key=lambda core: (_thread(core, system), core))
        return {order[(rank * threads + i) % len(order)] for i in range(threads)}
    if bind_to == "numa" and (nodes := _nodes(usable, system)):
        return nodes[rank * len(nodes) // ranks]
    return usable


def _thread(core: int, system: Path) -> int:
    """Return 0 for the first hardware thread of a core, 1 for the second."""
    return sorted(_listed(system / f"cpu/cpu{core}/topology/thread_siblings_list") | {core}).index(core)


def _nodes(usable: set[int], system: Path) -> list[set[int]]:
    """Return the usable cores of each NUMA node that has some; an empty list if the kernel knows no nodes."""
    folders = sorted(system.glob("node/node[0-9]*"), key=lambda path: int(path.name[4:]))
    return [cores for folder in folders if (cores := _listed(folder / "cpulist") & usable)]


def _listed(path: Path) -> set[int]:
    """Return the numbers of a list such as 0-3,8; none if the file does not exist."""
    numbers: set[int] = set()
    try:
        parts = read_text(path).strip().split(",")
    except OSError:
        return numbers
    for part in filter(None, parts):
        first, _, last = part.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers
