"""What an arena says of the job over several nodes that it is a part of. In a job of one machine all of it is 0.

Programs that look at a job from outside read these words: `shmrun ps`, `shmrun inspect`, and the watcher of a node. No
rank waits for one of them, and no rank acts on one, except for the text of an error. The words, and their writers:

    job page         rank 0 of the node, once, after the ranks of the node have met: which job this is, its nodes, and
                     which of them this one is. NODES is stored last, so a reader that finds it finds the others
    directories      NUMBER: rank 0 of the node, for each of its ranks, before NODES: the rank's number in the job
    group regions    NUMBER and FIRST of a group over nodes: each of its ranks, the same values, in the region of the
                     group whose calls are parts of the algorithms between nodes
    mailboxes there  CALL: the rank itself, at each opening (`nodes/agreement.py`): its last collective in the group
                     over nodes. MESSAGE and the words beside it (`layout.py`): the message that it waits for, whose
                     peer is a number in the job

A reader may come at any time. It reads the words of a call twice, until they are equal. It trusts none of them: they
may be another program's, or damaged. A value that makes no sense counts as one that is not there.
"""

import ctypes
import json
import struct
import time
from collections.abc import Sequence
from typing import NamedTuple

from shmcoll.engine import layout
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group
from shmcoll.engine.system.text import to_bytes

# --- the job page -----------------------------------------------------------------------------------------------------
NODES = layout.JOB_WINDOW_BYTES + WORD  # how many nodes the job has; 0: it is one of one machine
NODE = NODES + WORD  # which of them this one is
RANKS = NODE + WORD  # of the whole job
JOB = RANKS + WORD  # random, the same on all nodes
NAMES_LENGTH = JOB + WORD
NAMES = NAMES_LENGTH + WORD  # as JSON, in bytes
_MOST_NAMES = layout.PAGE - NAMES

# --- a directory ------------------------------------------------------------------------------------------------------
NUMBER = layout.SLOTS - WORD  # 1 + the number of the rank in the job

# --- the region of a group, behind its size ---------------------------------------------------------------------------
GROUP_NUMBER = layout.SIZE + WORD
GROUP_FIRST = GROUP_NUMBER + WORD  # 1 + the number in the job of its first rank

# --- a mailbox --------------------------------------------------------------------------------------------------------
CALL = layout.READS + WORD
#: the operation by its code, its number in the group, when it began and when it ended: CLOCK_MONOTONIC in ns, exact to
#: some ms; ended: 0 while the rank is in it
CALL_OPERATION, CALL_NUMBER, CALL_BEGAN, CALL_ENDED = (WORD * i for i in range(4))
SUBGROUP, UNNAMED = -1, -2  # in place of a code: the agreement on a new group; what has no code
_RECORD = struct.Struct("=qqqq")
_ENDED = struct.Struct("=q")
_MESSAGE = struct.Struct("=qqqq")  # MESSAGE, MESSAGE_PEER, MESSAGE_TAG, MESSAGE_SINCE

_LONGEST_NAME = 64  # characters of the name of a node
_MOST_RANKS = 1 << 31


class NodeFacts(NamedTuple):
    """The node of an arena, and its job.

    job: 16 digits. node: the number of this node. names: of the first nodes, as many as there is room for. counts: the
    numbers of their ranks.
    """

    job: str
    nodes: int
    node: int
    ranks: int
    name: str
    names: tuple[str, ...]
    counts: tuple[int, ...]


def write_facts(arena: Arena, job: str, nodes: Sequence[Sequence[int]], names: Sequence[str], node: int) -> None:
    """Write which node of which job this arena is.

    Args:
        arena: the arena, in which rank i of the node is nodes[node][i] of the job.
        job: 16 hexadecimal digits.
        nodes: the ranks of each node.
        names: their names.
        node: the number of this node.
    """
    shown = [_shown(name) for name in names]
    listed = [[name, len(ranks)] for name, ranks in zip(shown, nodes, strict=True)]
    while len(text := to_bytes(json.dumps([shown[node], listed]))) > _MOST_NAMES:
        del listed[len(listed) // 2 :]
    for local, number in enumerate(nodes[node]):
        arena.store(layout.directory_offset(arena.ranks, local) + NUMBER, 1 + number)
    arena.write(JOB, bytes.fromhex(job))
    arena.write(NAMES, text)
    for word, value in (
        (NODE, node),
        (RANKS, sum(map(len, nodes))),
        (NAMES_LENGTH, len(text)),
        (NODES, len(nodes)),
    ):
        arena.store(word, value)


def read_facts(arena: Arena) -> NodeFacts | None:
    """Return which node of which job an arena is; None if its job has one node."""
    nodes, node, ranks, length = (arena.load(word) for word in (NODES, NODE, RANKS, NAMES_LENGTH))
    if not (1 < nodes <= ranks < _MOST_RANKS and 0 <= node < nodes and 0 < length <= _MOST_NAMES):
        return None
    try:
        name, listed = json.loads(arena.read(NAMES, length))
        names, counts = tuple(one for one, _ in listed), tuple(count for _, count in listed)
    except (ValueError, TypeError, RecursionError):
        return None
    if not all(isinstance(one, str) and one == _shown(one) for one in (name, *names)):
        return None
    if not all(type(count) is int and 0 < count <= ranks for count in counts) or len(names) > nodes:
        return None
    return NodeFacts(arena.read(JOB, WORD).hex(), nodes, node, ranks, name, names, counts)


def read_numbers(arena: Arena, facts: NodeFacts) -> tuple[int, ...] | None:
    """Return the numbers in the job of the ranks of a node; None if they make no sense."""
    found = tuple(arena.load(layout.directory_offset(arena.ranks, local) + NUMBER) - 1 for local in range(arena.ranks))
    if len(set(found)) < len(found) or not all(0 <= number < facts.ranks for number in found):
        return None
    return found


def group_of(group: Group) -> tuple[int, int] | None:
    """Return which group over nodes the region of a group belongs to: its number, and the number in the job of its
    first rank. None for a group within the node."""
    number, first = (group.arena.load(group.offset + word) for word in (GROUP_NUMBER, GROUP_FIRST))
    return (number, first - 1) if number > 0 and first > 0 else None


class NodesCall(NamedTuple):
    """A collective of a group over nodes. operation: a code, or SUBGROUP, which has the number of the call before, or
    UNNAMED. Times are CLOCK_MONOTONIC in ns. ended: 0 if the rank is in it."""

    operation: int
    number: int
    began: int
    ended: int


def last_call(group: Group, rank: int) -> NodesCall | None:
    """Return the last collective of a rank of the group, in the group over nodes; None if it has called nothing yet."""
    raw = b""
    for _ in range(4):
        before, raw = raw, group.arena.read(group.mailbox(rank) + CALL, _RECORD.size)
        if raw == before:
            operation, number, began, ended = _RECORD.unpack(raw)
            if UNNAMED <= operation < layout.MOST_CODES and number >= 0 and began > 0 and ended >= 0:
                return NodesCall(operation, number, began, ended)
            return None
    return None


class CallRecorder:
    """Writes what this rank calls in a group over nodes. group, rank: the group whose calls are parts of the
    algorithms, and this rank there. number, first: the number of the group over nodes, and its first rank."""

    def __init__(self, group: Group, rank: int, number: int, first: int):
        arena, mailbox = group.arena, group.mailbox(rank)
        arena.store(group.offset + GROUP_NUMBER, number)
        arena.store(group.offset + GROUP_FIRST, 1 + first)
        self.address = arena.address + mailbox + CALL  # of the record of the last call
        self._is_in_it = False
        self._record: ctypes.Array[ctypes.c_char] | bytearray
        self._message: ctypes.Array[ctypes.c_char] | bytearray
        self._record = (ctypes.c_char * _RECORD.size).from_address(self.address)
        self._message = (ctypes.c_char * _MESSAGE.size).from_address(arena.address + mailbox + layout.MESSAGE)

    def begin(self, operation: int, number: int) -> None:
        """Note that a collective begins. operation: as in `NodesCall`."""
        self._is_in_it = True
        _RECORD.pack_into(self._record, 0, operation, number, time.monotonic_ns(), 0)

    def end(self) -> None:
        """Note that it has ended, if one has begun."""
        if self._is_in_it:
            self._is_in_it = False
            _ENDED.pack_into(self._record, CALL_ENDED, time.monotonic_ns())

    def wait_for_message(self, code: int, peer: int, tag: int) -> None:
        """Note that this rank waits for a message. code: that of its routine. peer: a number in the job, or ANY."""
        _MESSAGE.pack_into(self._message, 0, code, peer, tag, time.monotonic_ns())

    def stop_waiting(self) -> None:
        """Note that it does not wait for a message any more."""
        _ENDED.pack_into(self._message, 0, 0)

    def close(self) -> None:
        """Write nothing any more: the region is about to be given back."""
        self._record, self._message = bytearray(_RECORD.size), bytearray(_MESSAGE.size)


def _shown(name: str) -> str:
    """Return the name of a node as it may be printed."""
    return "".join(letter if letter.isprintable() else "?" for letter in name[:_LONGEST_NAME])
