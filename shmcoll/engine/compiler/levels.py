"""The kinds of processors that the objects of a wheel are compiled for.

A level is a set of instructions that many processors have in common: for x86-64 those of the psABI, which glibc uses
in the same way to choose among builds of a library (the folders glibc-hwcaps/x86-64-v2, -v3, -v4), for aarch64 the
instructions that all of them have. A processor runs the code of every level whose features it has.
"""

import platform
from functools import cache
from typing import NamedTuple

from shmcoll.engine.system import processor


class Level(NamedTuple):
    """One level. cpu, features: what LLVM compiles for. needs: the features that a processor must have, by
    Linux's names."""

    name: str
    cpu: str
    features: str
    needs: frozenset[str]


def _x86(number: int, lower: frozenset[str], added: str) -> Level:
    return Level(f"x86-64-v{number}", f"x86-64-v{number}", "", lower | frozenset(added.split()))


_V2 = _x86(2, frozenset(), "cx16 popcnt lahf_lm pni sse4_1 sse4_2 ssse3")
_V3 = _x86(3, _V2.needs, "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave")
_V4 = _x86(4, _V3.needs, "avx512bw avx512cd avx512dq avx512f avx512vl")
_ARMV8 = Level("armv8-a", "generic", "+fp-armv8,+neon", frozenset())  # not asked: Linux has nothing less on aarch64

_LEVELS = {"x86_64": (_V4, _V3, _V2), "aarch64": (_ARMV8,)}


def levels() -> tuple[Level, ...]:
    """Return the levels of this architecture, the highest first."""
    return _LEVELS.get(platform.machine(), ())


@cache
def supported() -> tuple[Level, ...]:
    """Return the levels whose code this processor runs, the highest first."""
    found = processor.features()  # of those which the system must save for us, like AVX, only what it does
    return tuple(level for level in levels() if level.needs <= found)
