"""What a rank called, in words: `all_reduce(float32[4], sum)`."""

from shmcoll.collectives.reduce_scatter import LISTED
from shmcoll.engine import layout
from shmcoll.engine.group import Group
from shmcoll.engine.layout import ANY, WORD
from shmcoll.explanations import array_in_header
from shmcoll.ops import reduction_name

ROOTED = tuple(
    map(layout.OPERATION_NAMES.index, ("broadcast", "gather", "scatter", "reduce", "gather_v", "scatter_v"))
)  # the first argument of these is the root


def called(group: Group, rank: int, sequence: int) -> str:
    """What a rank called as operation `sequence`, as its header says."""
    header = group.mailbox(rank) + (sequence & 1) * layout.HEADER_BYTES
    word = group.arena.load(header + layout.HEADER_CALL)
    first, second = (group.arena.load(header + layout.HEADER_ARGUMENTS + i * WORD) for i in (0, 1))
    if word & 0xFF in ROOTED and 0 <= first < group.size:
        first = group.name(first)
    return call_in_words(word, first, second, array_in_header(group, rank, sequence))


def message_in_words(group: Group, operation: str, peer: int, tag: int) -> str:
    """`recv(source=1, tag=ANY)`: a call by its name."""
    name = "dest" if operation.startswith("send") else "source"
    whose, which = "ANY" if peer == ANY else group.name(peer), "ANY" if tag == ANY else tag
    return f"{operation}({name}={whose}, tag={which})"


def call_in_words(word: int, first: int, second: int, array: str) -> str:
    """A call from the words that describe it (HEADER_CALL, and its two arguments) and its array in words."""
    code, reduction = word & 0xFF, word >> 16 & 0xFF
    operation = layout.OPERATION_NAMES[code] if code < len(layout.OPERATION_NAMES) else f"operation {code}"
    if operation == "barrier":
        return "barrier()"
    if operation == "reduce_scatter" and first > LISTED:
        operation = "reduce_scatter_v"
    details = {
        "all_reduce": f", {reduction_name(reduction, second)}",
        "all_to_all": f", split_axis={first}, concat_axis={second}",
        "gather": f", root={first}",
        "broadcast": f", root={first}",
        "scatter": f", root={first}",
        "reduce": f", {reduction_name(reduction, second)}, root={first}",
        "reduce_scatter": f", {reduction_name(reduction, second)}{', first of a list' if first == LISTED else ''}",
        "reduce_scatter_v": f", {reduction_name(reduction, second)}, counts of hash {first:x}",
        "scan": f", {reduction_name(reduction, second)}",
        "exscan": f", {reduction_name(reduction, second)}",
        "gather_v": f", root={first}",
        "scatter_v": f", root={first}",
        "collective_permute": f", pairs of hash {first:x}",
        "halo_exchange": f", width={second}, grid of hash {first:x}",
    }
    return f"{operation}({array}{details.get(operation, '')})"
