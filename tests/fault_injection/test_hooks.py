"""What stands in front of the operations of a rank in which faults are injected."""

import inspect
import re

from shmcoll.engine import atomics
from shmcoll.engine.fault_injection import Hooks


def test_every_operation_that_asks_for_a_hook_has_one():
    """A missing one would raise in the midst of a native call, where nobody hears of it."""
    asked = set(re.findall(r"\bhooks\.(\w+)\(", inspect.getsource(atomics)))
    assert {"load", "read_memory", "sleep_on"} <= asked
    assert not {name for name in asked if not callable(getattr(Hooks, name, None))}
