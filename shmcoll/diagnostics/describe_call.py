"""What a rank called, in words: `all_reduce(float32[4], sum)`."""

from collections.abc import Callable
from typing import Any

from shmcoll.collectives import RECORDS, record_of
from shmcoll.diagnostics.describe_mismatch import array_in
from shmcoll.engine import layout
from shmcoll.engine.collective import ANY_SOURCE, NO_ARRAYS, REDUCING, ROOTED, Collective
from shmcoll.engine.compiler.user_operators import reduction_name
from shmcoll.engine.kernels.element_marks import AGREEING
from shmcoll.engine.layout import ANY, WORD, call_algorithm, call_composite, call_operation, call_reduction
from shmcoll.engine.memory.group import Group
from shmcoll.engine.memory.node_words import SUBGROUP, NodesCall

#: calls that send or receive a message, and the routine that does it
MESSAGES = {
    "send": "send",
    "send_object": "send",
    "recv": "recv",
    "recv_object": "recv",
    "probe": "recv",
    "iprobe": "recv",
    "mprobe": "recv",
    "improbe": "recv",
}


def receives(operation: str) -> bool:
    """Return whether a call of MESSAGES receives, or looks for a message to receive."""
    return bool(RECORDS[MESSAGES[operation]].form & ANY_SOURCE)


def called(group: Group, rank: int, sequence: int) -> str:
    """Return what a rank called as operation `sequence`, as its header says."""
    header = group.header(rank, sequence)
    return called_in(lambda offset: group.arena.load(header + offset), group)


def called_in(load: Callable[[int], int], group: Any) -> str:
    """Return what a rank of a group called, from the words of a header. load: returns the word at an offset in it."""
    word = load(layout.HEADER_CALL)
    first, second = (load(layout.HEADER_ARGUMENTS + i * WORD) for i in (0, 1))
    record = record_of(call_operation(word))
    if record and record.form & ROOTED and 0 <= first < group.size:
        first = group.name(first)
    return call_in_words(word, first, second, array_in(load))


def message_in_words(group: Group, operation: str, peer: int, tag: int) -> str:
    """Return a message call as text, such as `recv(source=1, tag=ANY)`."""
    name = "source" if receives(operation) else "dest"
    whose, which = "ANY" if peer == ANY else group.name(peer), "ANY" if tag == ANY else tag
    return f"{operation}({name}={whose}, tag={which})"


def call_in_words(word: int, first: int, second: int, array: str) -> str:
    """Return a call from the words that describe it (HEADER_CALL, and its two arguments) and its array in words."""
    if composite := call_composite(word):
        root = composite_root(composite)
        return f"{composite_name(composite)}({'' if root < 0 else f'root={root}'})"
    record = record_of(call_operation(word))
    if record is None:
        return f"operation {call_operation(word)}({array})"
    if record.form & NO_ARRAYS:
        return f"{record.name}()"
    title = record.title(first) if record.title else record.name
    if record.name == "all_gather" and second & AGREEING and (call := record_of(second & 0xFF)):
        return f"{call.name}(text, dates or records)"
    operator = f", {reduction_name(call_reduction(word), second)}" if record.form & REDUCING else ""
    rooted = f", root={first}" if record.form & ROOTED else ""
    forced = _forced(record, call_algorithm(word))
    return f"{title}({array}{operator}{rooted}{record.describe(first, second)}{forced})"


def operation_over_nodes(call: NodesCall) -> str:
    """Return the name of a collective of a group over nodes."""
    record = record_of(call.operation)
    if record is None:
        return "subgroup" if call.operation == SUBGROUP else "a collective"
    return record.name


def call_over_nodes(call: NodesCall) -> str:
    """Return a collective of a group over nodes: 'all_reduce #5'."""
    number = "" if call.operation == SUBGROUP else f" #{call.number}"
    return operation_over_nodes(call) + number


def composite_name(composite: int) -> str:
    """Return the name of a composite call, from the bits that tell it (`layout.COMPOSITE_NAMES`)."""
    code = composite & 0xFF
    return layout.COMPOSITE_NAMES[code] if code < len(layout.COMPOSITE_NAMES) else f"composite call {code}"


def composite_root(composite: int) -> int:
    """Return the root of a composite call; -1 if it has no root."""
    return (composite >> 8) - 1


def _forced(record: Collective, algorithm: int) -> str:
    """Return ', algorithm=ring'; empty if the call asks for no algorithm."""
    return f", algorithm={record.algorithms[algorithm - 1]}" if 0 < algorithm <= len(record.algorithms) else ""
