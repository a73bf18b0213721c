"""What a rank over nodes does when calls differ: `nodes/agreement.py` itself, on explored memory.

It finds the first call in which ranks differ by openings of its own. In place of the texts, the ranks exchange the
number of the call that each of them tells, and what it was.
"""

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.collectives import RECORDS
from shmcoll.engine import layout
from shmcoll.engine.layout import WORD
from shmcoll.engine.protocol.sync import SEED
from shmcoll.nodes.agreement import Agreement
from shmcoll.nodes.algorithms.state import OpeningState
from shmcoll.nodes.opening import layout as o
from shmcoll.nodes.opening.opening import copy_rows, open_rows_of_all
from tests.schedule.explorer.program import Violation

if TYPE_CHECKING:
    from tests.schedule.explorer.nodes import RankOverNodes


class Told(Exception):
    """The rank is told that calls differ: in which one, and that it has ended."""

    def __init__(self, number: int):
        self.number = number


def _view(address: int, words: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_int64 * words).from_address(address), np.int64)


class ExploredState(OpeningState):
    """The words of a rank's state, as Python sees them."""

    def __init__(self, rank: "RankOverNodes", dispatcher: Any):
        self._dispatcher, self._size, self._rank = dispatcher, rank.job.size, rank
        self.words = _view(rank.state, o.STATE_WORDS)
        self.slot = _view(rank.get(o.SLOT), o.SLOT_BYTES // WORD).view(np.uint8)[None]
        self.called = _view(rank.get(o.CALLED), layout.HEADER_BYTES // WORD)
        self.past = _view(rank.get(o.PAST), o.PAST_CALLS * layout.HEADER_BYTES // WORD).reshape(o.PAST_CALLS, -1)

    def _move(self, name: str, address: int, length: int) -> int:
        if name == "copy_rows":
            return copy_rows(self._rank.state, address, length)
        assert length <= o.MOST_IN_SLOT, "what is longer would not be in explored memory"
        return open_rows_of_all(self._rank.state, 0, length)


class Dispatcher:
    """What an agreement needs of the dispatcher, and of its topology and its recorder."""

    operation = ""

    def __init__(self) -> None:
        self.topology = self.recorder = self

    def describe(self, rank: int) -> str:
        return f"rank {rank}"

    def begin(self, _operation: int, _sequence: int) -> None:
        pass


class Disagreement(Agreement):
    """Tells which call differs, and does nothing else of an agreement."""

    def __init__(self, rank: "RankOverNodes"):
        self._dispatcher: Any = Dispatcher()
        self.state = ExploredState(rank, self._dispatcher)
        self._rank = rank

    def tell(self, operation: str) -> None:
        self._disagree(operation)

    def report(self, operation: str, status: int) -> None:
        raise Violation(f"ranks that disagree get status {status}")

    def _call(self, words: np.ndarray, number: int, last: int) -> str:
        made = RECORDS[self._rank.calls[number - 1].name].code if number <= len(self._rank.calls) else 0
        called = layout.call_operation(words.item(layout.HEADER_CALL // WORD))
        if called != made or words.item(layout.HEADER_SEQUENCE // WORD) != number:
            raise Violation(f"rank {self._rank.number} tells another call as number {number}")
        return f"{number} {called}"

    def _texts(self, text: str) -> list[str]:
        row = np.array([int(word) for word in text.split()], np.int64).view(np.uint8)
        return [" ".join(map(str, one.view(np.int64).tolist())) for one in self._rows(SEED, row)]

    def refuse(self, kind: type[Exception], text: str, calls: dict[int, str] | None = None) -> None:
        numbers = {int(one.split()[0]) for one in (calls or {}).values()}
        if len(numbers) != 1:
            raise Violation(f"ranks tell different calls: {text}")
        raise Told(min(numbers))
