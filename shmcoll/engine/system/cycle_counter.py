"""Whether programs may take the cycle counter of the processor for a clock."""

import ctypes
import platform
from functools import cache

from shmcoll.engine.system import processor
from shmcoll.engine.system.handlers import ignored
from shmcoll.engine.system.text import read_text

_SOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
_SOURCES = {
    "x86_64": {"tsc", "kvm-clock", "hyperv_clocksource_tsc_page"},
    "aarch64": {"arch_sys_counter"},
}
_FLAGS = {"constant_tsc", "nonstop_tsc"}  # of x86-64
_PR_GET_TSC, _PR_TSC_ENABLE = 25, 1


@cache
def is_a_clock() -> bool:
    """Return whether the counter has one rate, is the same on all cores, and may be read. Linux uses such a counter for
    its own clock. If it does not say so, the answer is no."""
    with ignored(OSError):
        if read_text(_SOURCE).strip() in _SOURCES.get(platform.machine(), ()):
            return platform.machine() != "x86_64" or (_is_constant() and _may_be_read())
    return False


def _is_constant() -> bool:
    return processor.features() >= _FLAGS


def _may_be_read() -> bool:
    """Return whether this process may read the counter. Sandboxes forbid it by prctl(2)."""
    allowed = ctypes.c_int(0)
    done = ctypes.CDLL(None).prctl(_PR_GET_TSC, ctypes.byref(allowed), 0, 0, 0)
    return done == 0 and allowed.value == _PR_TSC_ENABLE
