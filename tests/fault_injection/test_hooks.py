"""What stands in front of the operations of a rank in which faults are injected, or whose schedules are explored."""

import ctypes
import inspect
import re
from typing import Any

import pytest

from shmcoll.engine import atomics, fault_injection
from tests.schedule.explorer import stand_ins
from tests.support import switches
from tests.support.calls import COMPOSITE, LONG, SHORT


@pytest.mark.parametrize("hooks", [fault_injection.Hooks, stand_ins.Hooks], ids=["faults", "explorer"])
def test_every_operation_that_asks_for_a_hook_has_one(hooks: Any) -> None:
    """A missing one would raise in the midst of a native call, where nobody hears of it."""
    asked = set(re.findall(r"\bhooks\.(\w+)\(", inspect.getsource(atomics)))
    assert {"load", "add", "read_memory", "sleep_on"} <= asked
    assert not {name for name in asked if not callable(getattr(hooks, name, None))}
    for name in asked:
        wanted = inspect.signature(getattr(atomics, name)).parameters
        assert len(inspect.signature(getattr(hooks, name)).parameters) == 1 + len(wanted), name


def test_an_addition_is_made_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    hooks, word = fault_injection.Hooks([], 0), ctypes.c_int64(5)
    monkeypatch.setattr(atomics, "hooks", hooks)
    assert atomics.add(ctypes.addressof(word), -2) == 5
    assert (word.value, hooks.count, atomics.hooks) == (3, 1, hooks)


NEVER = switches.fault("*", "kill", 10**9)


@pytest.mark.parametrize("n", [2, 3])
def test_all_calls_run_as_plain_python(ranks: Any, n: int) -> None:
    """Those of one element, too, which a rank with a root may leave before the others have entered them."""

    def work(comm: Any) -> bool:
        for call in (*SHORT.values(), *COMPOSITE.values()):
            call(comm)
        for call in LONG.values():
            call(comm, length=1)
        return switches.operations() > 0

    assert ranks(n, work, environment=NEVER) == [True] * n
