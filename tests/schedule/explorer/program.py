"""One rank's code as a graph of local states.

A rank is deterministic but for what it reads from shared words. So its code is a graph: in each local state it is about
to do one operation on shared memory (or has ended), and the result of the operation leads to the next state. The graph
is discovered by running the source in a greenlet that stops before each operation; the machine asks for a transition
once and finds it in the graph from then on, so that a schedule costs no execution of the routine.

Two moments are the same local state when the frames stand at the same instructions with the same local variables, the
private memory holds the same bytes, and no value read in an expression that is still being evaluated differs. The last
needs care because such values lie on the interpreter's stack where nobody sees them: the results of reads count as part
of the state until the frame that received them has gone on to another statement. (Iterators lie there too. They are
ranges, fixed by the loop variable and by locals that do not change while the loop runs.)
"""

import ast
import ctypes
import linecache
import sys
from collections.abc import Callable
from functools import cache
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
from greenlet import getcurrent, greenlet

READ, AWAIT, WRITE, RELEASE, ADD, FENCE, SLEEP, RING, GONE, CHANCE, MARK, END, BROKEN = [
    "read",
    "await",
    "write",
    "release",
    "add",
    "fence",
    "sleep",
    "ring",
    "gone",
    "chance",
    "mark",
    "end",
    "broken",
]  # AWAIT: read as soon as the first word is as much as is wanted; CHANCE: something may happen here, or not; BROKEN: a
# property was violated by this rank itself


class Violation(AssertionError):
    """A schedule under which a promised property does not hold."""


class Operation(NamedTuple):
    """What a rank is about to do. `argument`: number of words to read, behind what is wanted of the first if it is
    awaited; words to write; status at the end."""

    kind: str
    address: int = 0
    argument: Any = None


class Node:
    """A local state: the operation that comes next, private memory, and where each known result leads.

    is_last: whether nothing comes next. is_free: whether the operation waits for nothing. is_noted: whether the machine
    has noted which words the operation uses; then `slots` says where in its memory they are."""

    __slots__ = (
        "done", "entered", "following", "history", "is_free", "is_last", "is_noted", "live", "operation", "private",
        "slots",
    )  # fmt: skip

    def __init__(self, operation: Operation, private: bytes, history: "History", live: "Run | None"):
        self.operation = operation
        self.private = private
        self.history = history
        self.live = live
        self.following: dict[Any, Node] = {}
        self.entered = self.done = 0
        self.is_last = operation.kind in (END, BROKEN)
        self.is_free = operation.kind in (READ, WRITE, RELEASE, GONE, CHANCE, MARK)
        self.is_noted = False
        self.slots: tuple[int, ...] = ()


#: results that lead to a node: (history before, the last one), None at the start
History = tuple[Any, Any] | None


class Place(NamedTuple):
    """Where a frame stands."""

    frame: FrameType
    statement: int
    instruction: int


class Run(greenlet):
    """One execution of a rank's code, and the results of its reads that may still be on the interpreter's stack."""

    def __init__(self, body: Callable[[], int]):
        super().__init__(self._contained)
        self._body = body
        #: results of the operations up to where the run is wanted, the first one last
        self.replay: list[Any] = []
        #: results of reads with where the frames stood
        self.pending: list[tuple[Any, list[Place]]] = []

    def _contained(self, *_: Any) -> tuple[Operation, Any]:
        try:
            return Operation(END, 0, self._body()), None
        except (Violation, ZeroDivisionError) as violation:  # the latter of a context that was written over
            return Operation(BROKEN, 0, str(violation)), None


def perform(kind: str, address: int = 0, argument: Any = None) -> Any:
    """Called within a run: hand control to the machine, come back with the operation's result."""
    run = getcurrent()
    assert isinstance(run, Run), "an operation on shared words outside of the explorer"
    places = _places(sys._getframe(1))
    run.pending = [(result, then) for result, then in run.pending if _still_evaluating(then, places)]
    if run.replay:
        result = run.replay.pop()
    else:
        frames = tuple((p.frame.f_code, p.instruction, _locals(p.frame)) for p in places[1:])
        result = run.parent.switch(Operation(kind, address, argument), (frames, tuple(r for r, _ in run.pending)))
    if result is not None:
        run.pending.append((result, places))
    return result


def _locals(frame: FrameType) -> tuple[tuple[str, Any], ...]:
    """Return the local variables of a frame as what can be compared."""
    values = frame.f_locals.items()
    return tuple((name, value.tobytes() if isinstance(value, np.ndarray) else value) for name, value in values)


def _places(frame: FrameType | None) -> list[Place]:
    places = []
    while frame is not None:
        places.append(Place(frame, _statement(frame.f_code.co_filename, frame.f_lineno), frame.f_lasti))
        frame = frame.f_back
    return places[::-1]


def _still_evaluating(then: list[Place], now: list[Place]) -> bool:
    """Whether the innermost frame that both moments share is still at the statement it was at, further on."""
    shared = [(a, b) for a, b in zip(then, now, strict=False) if a.frame is b.frame]
    a, b = shared[-1]
    return a.statement == b.statement and b.instruction > a.instruction


@cache
def _statements(filename: str) -> dict[int, int]:
    """First line of the innermost statement for each line of a source file."""
    nodes = [n for n in ast.walk(ast.parse("".join(linecache.getlines(filename)))) if isinstance(n, ast.stmt)]
    lines: dict[int, int] = {}
    for node in sorted(nodes, key=lambda n: (n.end_lineno or n.lineno) - n.lineno, reverse=True):
        lines.update(dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), node.lineno))
    return lines


def _statement(filename: str, line: int) -> int:
    return _statements(filename).get(line, line)


class Program:
    """The graph of one rank. `memory` is the rank's private memory, restored before it runs on from a node."""

    def __init__(self, body: Callable[[], int], memory: Any, counters: Callable[[], tuple[int, int]]):
        self._body = body
        self._memory = memory
        self._initial = bytes(memory)
        self._counters = counters
        self._nodes: dict[Any, Node] = {}
        self.start = self._advance(Run(body), None, None)

    def __len__(self) -> int:
        return len(self._nodes)

    def after(self, node: Node, result: Any) -> Node:
        """The local state that a node's operation leads to when it gives `result`."""
        following = node.following.get(result)
        if following is None:
            run, node.live = node.live or self._replayed(node), None
            self._restore(node.private)
            following = node.following[result] = self._advance(run, result, (node.history, result))
        return following

    def _advance(self, run: Run, result: Any, history: History) -> Node:
        operation, position = run.switch(result)
        private = bytes(self._memory)
        key = (operation, position, private)
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = Node(operation, private, history, run)
            node.entered, node.done = self._counters()
        elif node.live is None:
            node.live = run
        return node

    def _replayed(self, node: Node) -> Run:
        """A new run, brought to the node by the results that led there."""
        run = Run(self._body)
        history = node.history
        while history is not None:
            history, result = history
            run.replay.append(result)
        self._restore(self._initial)
        run.switch()
        return run

    def _restore(self, private: bytes) -> None:
        ctypes.memmove(self._memory, private, len(private))
