"""What a rank called, in words: `all_reduce(float32[4], sum)`."""

from shmcoll.collectives.all_reduce import ALGORITHMS as OF_ALL_REDUCE
from shmcoll.collectives.reduce import ALGORITHMS as OF_REDUCE
from shmcoll.collectives.reduce_scatter import ALGORITHMS as OF_REDUCE_SCATTER
from shmcoll.collectives.reduce_scatter import LISTED
from shmcoll.collectives.scan import ALGORITHMS as OF_SCAN
from shmcoll.diagnostics.describe_mismatch import array_in_header
from shmcoll.engine import layout
from shmcoll.engine.compiler.user_operators import reduction_name
from shmcoll.engine.layout import ANY, WORD, call_algorithm, call_composite, call_operation, call_reduction
from shmcoll.engine.memory.group import Group

ROOTED = tuple(
    map(layout.OPERATION_NAMES.index, ("broadcast", "gather", "scatter", "reduce", "gather_v", "scatter_v"))
)  # the first argument of these is the root
_ALGORITHMS = {
    "all_reduce": OF_ALL_REDUCE,
    "reduce": OF_REDUCE,
    "reduce_scatter": OF_REDUCE_SCATTER,
    "scan": OF_SCAN,
    "exscan": OF_SCAN,
}


def called(group: Group, rank: int, sequence: int) -> str:
    """What a rank called as operation `sequence`, as its header says."""
    header = group.mailbox(rank) + (sequence & 1) * layout.HEADER_BYTES
    word = group.arena.load(header + layout.HEADER_CALL)
    first, second = (group.arena.load(header + layout.HEADER_ARGUMENTS + i * WORD) for i in (0, 1))
    if call_operation(word) in ROOTED and 0 <= first < group.size:
        first = group.name(first)
    return call_in_words(word, first, second, array_in_header(group, rank, sequence))


def message_in_words(group: Group, operation: str, peer: int, tag: int) -> str:
    """`recv(source=1, tag=ANY)`: a call by its name."""
    name = "dest" if operation.startswith("send") else "source"
    whose, which = "ANY" if peer == ANY else group.name(peer), "ANY" if tag == ANY else tag
    return f"{operation}({name}={whose}, tag={which})"


def call_in_words(word: int, first: int, second: int, array: str) -> str:
    """A call from the words that describe it (HEADER_CALL, and its two arguments) and its array in words."""
    if composite := call_composite(word):
        root = composite_root(composite)
        return f"{composite_name(composite)}({'' if root < 0 else f'root={root}'})"
    code, reduction = call_operation(word), call_reduction(word)
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
    return f"{operation}({array}{details.get(operation, '')}{_forced(operation, call_algorithm(word))})"


def composite_name(composite: int) -> str:
    """The name of a composite call, from the bits that tell it (`layout.COMPOSITE_NAMES`)."""
    code = composite & 0xFF
    return layout.COMPOSITE_NAMES[code] if code < len(layout.COMPOSITE_NAMES) else f"composite call {code}"


def composite_root(composite: int) -> int:
    """The root of a composite call; -1 where it has none."""
    return (composite >> 8) - 1


def _forced(operation: str, algorithm: int) -> str:
    """', algorithm=ring' where the call asks for one."""
    names = _ALGORITHMS.get(operation, ())
    return f", algorithm={names[algorithm - 1]}" if 0 < algorithm <= len(names) else ""
