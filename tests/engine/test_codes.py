"""Codes of operations, dtypes and operators: without a gap, within their fields, and never one for two things."""

import inspect
import re
import sys
from importlib import import_module
from types import ModuleType

import pytest
from shmbench.cli import options as bench

from shmcoll import calls
from shmcoll.collectives import OPERATION_NAMES, RECORDS
from shmcoll.communicator import Communicator
from shmcoll.engine import collective, context, layout
from shmcoll.engine.collective import FITTING, PEER, REDUCING, Collective
from shmcoll.engine.kernels import dtypes
from shmcoll.engine.kernels.dtypes import BY_CODE, DTYPES, PAIR_CODES, PAIRS, PREMUL_SUM, REDUCTIONS, USER
from shmcoll.engine.messages.ring_buffers import OBJECT
from shmcoll.engine.native import tables

FLAGS = {
    name: value
    for name, value in vars(collective).items()
    if name.isupper()
    and isinstance(value, int)
    and name not in ("SHAPE", "DTYPE", "NOTHING", "FITTING", "OPERATION_CODES")
}


# --- operations -------------------------------------------------------------------------------------------------------


def test_operations_are_numbered_without_a_gap() -> None:
    assert [record.code for record in RECORDS.values()] == list(range(1, len(RECORDS) + 1))
    assert len(RECORDS) < collective.OPERATION_CODES <= layout.MOST_CODES
    assert list(OPERATION_NAMES) == ["", *RECORDS]


@pytest.mark.parametrize("record", RECORDS.values(), ids=lambda record: record.name)
def test_a_collective_has_a_file_of_its_name_its_call_and_its_method(record: Collective) -> None:
    room = "shmcoll.engine.messages" if record.form & PEER else "shmcoll.collectives"
    assert record.routine.__module__ == f"{room}.{record.name}"
    assert import_module(record.routine.__module__).COLLECTIVE is record
    assert getattr(calls, record.name).__module__.startswith("shmcoll.calls")
    if record.name != "halo_exchange":  # it is a method of the grid
        assert callable(getattr(Communicator, record.name))


@pytest.mark.parametrize("record", RECORDS.values(), ids=lambda record: record.name)
def test_the_flags_of_a_collective_do_not_contradict_each_other(record: Collective) -> None:
    assert (record.form & FITTING).bit_count() <= 1
    assert record.covers in (collective.SHAPE, collective.DTYPE, collective.NOTHING)
    assert not record.algorithms or record.form & REDUCING
    assert record.form & ~sum(FLAGS.values()) == 0


def test_every_flag_has_a_bit_of_its_own() -> None:
    assert sorted(FLAGS.values()) == [1 << i for i in range(len(FLAGS))]


# --- statuses and packed words ----------------------------------------------------------------------------------------


def test_a_call_is_unpacked_as_it_was_packed() -> None:
    word = layout.pack_call(19, 45, 15, 3 | (6 | 1 << 8) << layout.COMPOSITE_SHIFT, 64)
    fields = (
        layout.call_operation, layout.call_dtype, layout.call_reduction, layout.call_algorithm, layout.call_dimensions,
        layout.call_composite,
    )  # fmt: skip
    assert [field(word) for field in fields] == [19, 45, 15, 3, 64, 6 | 1 << 8]


def test_a_piece_is_unpacked_as_it_was_packed() -> None:
    word = layout.pack_piece(1, OBJECT, 64)
    assert [layout.piece_kind(word), layout.piece_dtype(word), layout.piece_dimensions(word)] == [1, OBJECT, 64]


def test_no_status_passes_for_another_kind() -> None:
    """The entry decides by these alone who may enter next."""
    kinds = [context.OK, context.NO_EFFECT, context.REFUSED, context.HALFWAY]
    failures = [
        context.ABORTED, context.TIMEOUT_PASSED, context.MISMATCH, context.PEER_LOST, context.INTERRUPTED,
        context.BROKEN, context.RAISED, context.DEADLOCKED,
    ]  # fmt: skip
    assert len({*kinds, *failures, context.BUSY}) == len(kinds) + len(failures) + 1


# --- dtypes and operators ---------------------------------------------------------------------------------------------


def test_dtypes_have_codes_of_their_own_that_fit_their_fields() -> None:
    assert [d.code for d in DTYPES] == list(range(1, len(DTYPES) + 1))
    assert len(DTYPES) < PAIR_CODES
    assert len(BY_CODE) == len(DTYPES) + len(PAIRS)
    assert max(BY_CODE) < tables.DTYPE_CODES < OBJECT < layout.MOST_CODES


def test_operators_have_codes_of_their_own_that_fit_their_fields() -> None:
    assert list(REDUCTIONS.values()) == list(range(1, len(REDUCTIONS) + 1))
    assert max(REDUCTIONS.values()) < tables.REDUCTION_CODES
    assert max(REDUCTIONS.values()) < PREMUL_SUM < USER < layout.MOST_CODES


def test_the_kernel_table_has_a_place_for_every_pair() -> None:
    slots = {tables.kernel_slot(dtype, reduction) for dtype in BY_CODE for reduction in REDUCTIONS.values()}
    assert len(slots) == len(BY_CODE) * len(REDUCTIONS)
    assert min(slots) >= tables.KERNELS // 8
    assert max(slots) < tables.ROUTINES // 8


def test_logical_operators_follow_one_another() -> None:
    """`reduction.has_truth_values` relies on it."""
    assert REDUCTIONS["lxor"] - REDUCTIONS["land"] == 2
    assert REDUCTIONS["land"] < REDUCTIONS["lor"] < REDUCTIONS["lxor"]


@pytest.mark.parametrize("more", [1, 2, 3, 20])
def test_one_more_operator_is_neither_premul_sum_nor_without_a_place(
    more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"another_{i}" for i in range(more)]
    changed = _with_operators(monkeypatch, names)
    added = {changed.REDUCTIONS[name] for name in names}
    assert not added & {changed.PREMUL_SUM, changed.USER}
    assert changed.PREMUL_SUM != changed.USER
    assert max(added) < changed.REDUCTION_CODES
    assert "premul_sum" in changed.REDUCTION_NAMES.values()


def test_too_many_operators_are_refused_at_import(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImportError, match="more dtypes or operators than codes"):
        _with_operators(monkeypatch, [f"another_{i}" for i in range(250)])


def _with_operators(monkeypatch: pytest.MonkeyPatch, names: list[str]) -> ModuleType:
    last = f'"{list(REDUCTIONS)[-1]}"'
    return _changed(monkeypatch, rf"{last}\]", f"{last}, {', '.join(map(repr, names))}]")


def _changed(monkeypatch: pytest.MonkeyPatch, pattern: str, replacement: str) -> ModuleType:
    """`dtypes.py` with another source, executed apart."""
    source, count = re.subn(pattern, lambda _: replacement, inspect.getsource(dtypes))
    assert count == 1
    module = ModuleType("changed_dtypes")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(source, vars(module))
    return module


# --- lists elsewhere --------------------------------------------------------------------------------------------------


def test_the_benchmark_knows_the_collectives_and_their_algorithms() -> None:
    """Its flags load no numpy, so it cannot ask the records."""
    measured = {name for name, record in RECORDS.items() if not record.form & PEER} - {"halo_exchange"}
    assert set(bench.COLLECTIVES) == measured | {"reduce_scatter_v"}
    reducing = {name for name, record in RECORDS.items() if record.form & REDUCING}
    assert set(bench.REDUCING) == reducing | {"reduce_scatter_v"}
    assert {name: record.algorithms for name, record in RECORDS.items() if record.algorithms} == bench.ALGORITHMS
