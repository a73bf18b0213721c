"""Placing object files without LLVM: what they need is found, or refused before anything runs."""

import ctypes
import platform
from pathlib import Path

import pytest

from shmcoll.collectives import RECORDS
from shmcoll.engine.compiler import compile as code
from shmcoll.engine.compiler import object_cache, object_loader
from tests.engine import small_functions

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="LLVM places objects here")


@pytest.fixture(scope="module")
def small() -> bytes:
    """An object file that calls libc, reads constants and has a word of its own."""
    return code.emitted(FUNCTIONS)


FUNCTIONS = {name: (getattr(small_functions, name), arity) for name, arity in small_functions.ARITIES.items()}


def test_functions_do_as_those_that_llvm_has_placed(small, compiled):
    addresses = object_loader.place(small, tuple(FUNCTIONS))
    assert addresses
    natives = {
        name: ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arity)(address)
        for (name, (_, arity)), address in zip(FUNCTIONS.items(), addresses, strict=True)
    }
    assert natives["has_reached"](-(2**63), 2**63 - 1) == compiled("has_reached", -(2**63), 2**63 - 1) == 1
    assert natives["has_reached"](2**63 - 1, -(2**63)) == compiled("has_reached", 2**63 - 1, -(2**63)) == 0


def test_code_cannot_be_written(small):
    addresses = object_loader.place(small, ("has_reached",))
    assert addresses
    lines = Path("/proc/self/maps").read_text().splitlines()
    bounds = [(*(int(end, 16) for end in line.split()[0].split("-")), line.split()[1]) for line in lines]
    assert [access for begin, end, access in bounds if begin <= addresses[0] < end] == ["r-xp"]


def test_routines_and_kernels_are_placed_without_llvm():
    names = [*RECORDS, "sum_float32", "max_int64"]
    held = [name for name in names if object_cache.holds(name)]
    for name in held:
        assert object_loader.place(object_cache.object_file(name, lambda: b"", None), ()) is not None, name


def test_an_unknown_relocation_is_left_to_llvm(small, monkeypatch):
    monkeypatch.setattr(object_loader, "_ABSOLUTE", -1)
    assert object_loader.place(small, ("has_reached",)) is None


def test_another_processor_is_left_to_llvm(small, monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert object_loader.place(small, ("has_reached",)) is None


def test_a_missing_symbol(small):
    with pytest.raises(ImportError, match=r"^compiled code has no nowhere, vanished$"):
        object_loader.place(small, ("has_reached", "nowhere", "vanished"))


def test_a_missing_function(small):
    assert b"\0clock_gettime\0" in small
    missing = small.replace(b"\0clock_gettime\0", b"\0clock_missing\0")
    with pytest.raises(ImportError, match=r"^compiled code needs clock_missing, which this process does not have$"):
        object_loader.place(missing, ())


def test_memory_that_may_not_become_executable(ranks, small):
    """As under SELinux without execmem, or systemd's MemoryDenyWriteExecute."""

    def load(_comm) -> str:
        if ctypes.CDLL(None).prctl(_PR_SET_MDWE, 1, 0, 0, 0):
            pytest.skip("this kernel knows no such limit")
        with pytest.raises(ImportError) as told:
            object_loader.place(small, ("has_reached",))
        return str(told.value)

    assert ranks(1, load) == ["compiled code may not be executed: Permission denied"]


_PR_SET_MDWE = 65
