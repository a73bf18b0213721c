"""What becomes of the things that users pass. (What is refused, and in which words: tests/crash/test_arguments.py.)"""

import array

import ml_dtypes
import numpy as np
import pytest

from shmcoll.calls import arguments
from tests.support import layouts
from tests.support.dtypes import BY_NAME

HERE = ("all_reduce", 3)


@pytest.mark.parametrize("layout", layouts.INPUTS)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4), (2, 3, 4)])
def test_every_layout_becomes_a_plain_array_of_the_same_values(layout, shape):
    values = np.asarray(np.arange(np.prod(shape)).reshape(shape), np.float32)
    got = arguments.as_array(layouts.INPUTS[layout](values), *HERE)
    assert type(got) is np.ndarray
    assert arguments.is_plain(got)
    assert layouts.same(got, values) == ""


def test_a_plain_array_is_itself():
    x = np.zeros((2, 3))
    assert arguments.as_array(x, *HERE) is x


@pytest.mark.parametrize(
    ("x", "dtype", "values"),
    [
        (3, np.int64, 3),
        (2.5, np.float64, 2.5),
        (True, np.bool_, True),
        (1j, np.complex128, 1j),
        ([[1, 2], [3, 4]], np.int64, [[1, 2], [3, 4]]),
        ((1, 2.5), np.float64, [1, 2.5]),
        (bytearray(b"ab"), np.uint8, [97, 98]),
        (memoryview(b"ab"), np.uint8, [97, 98]),
        (array.array("f", [1, 2]), np.float32, [1, 2]),
        (np.float16(3), np.float16, 3),
        (ml_dtypes.bfloat16(3), ml_dtypes.bfloat16, 3),
        (range(3), np.int64, [0, 1, 2]),
    ],
    ids=repr,
)
def test_what_is_no_array_becomes_one(x, dtype, values):
    if isinstance(x, bytearray):
        x = memoryview(x)
    got = arguments.as_array(x, *HERE)
    assert got.dtype == dtype
    assert got.tolist() == values


def test_an_output_that_is_no_plain_array_is_still_accepted():
    for name, layout in layouts.OUTPUTS.items():
        out = layout(np.zeros((4, 3), np.int16))
        assert arguments.as_output(out, (4, 3), np.dtype(np.int16), *HERE) is out
        assert arguments.is_plain(out) == (name == "contiguous")


def test_same_memory_means_the_same_elements_in_the_same_order():
    room = np.zeros((3, 3))
    assert arguments.same_memory(room, room[:])
    assert not arguments.same_memory(room, room.T)
    assert not arguments.same_memory(room, room[:2])
    assert not arguments.same_memory(room, room.copy())


def test_overlap():
    room = np.zeros(100)
    assert arguments.overlap(room[:60], room[50:])
    assert not arguments.overlap(room[:50], room[50:])
    assert not arguments.overlap(room[::2], room[1::2])
    assert arguments.overlap(room[::3], room[1::2])


def test_overlap_of_strides_too_odd_to_be_sure_counts_as_one():
    room = np.zeros(1 << 16, np.uint8)
    shape = (2, 3, 5, 2, 3, 5)
    a = np.lib.stride_tricks.as_strided(room, shape, (9973, 4441, 2203, 1117, 563, 271))
    b = np.lib.stride_tricks.as_strided(room[1:], shape, (9967, 4447, 2207, 1109, 557, 277))
    assert arguments.overlap(a, b) in (True, False)


@pytest.mark.parametrize(
    ("x", "listed"),
    [
        ([np.zeros(2), np.zeros(2)], True),
        ((np.zeros(2), [0, 0]), True),
        ([layouts.Holder(np.zeros(2))], True),
        ([layouts.Capsule(np.zeros(2))], True),
        ([], False),
        ([[1, 2], [3, 4]], False),
        ([np.float32(1), np.float32(2)], False),
        (np.zeros((2, 2)), False),
        (None, False),
    ],
)
def test_a_list_of_arrays_is_not_a_list_of_numbers(x, listed):
    assert arguments.is_list_of_arrays(x) == listed


def test_arrays_in_a_list_become_plain_and_stay_where_they_are():
    a, b = np.zeros((2, 3), np.float32), layouts.strided(np.ones((2, 3), np.float32))
    first, second, third = arguments.as_list([a, b, np.full((2, 3), 2, ">f4")], 3, *HERE)
    assert first is a
    assert arguments.is_plain(second)
    assert third.dtype == np.float32
    assert [one.tolist() for one in (second, third)] == [[[1.0] * 3] * 2, [[2.0] * 3] * 2]


def test_axes_count_from_either_end():
    assert [arguments.as_axis(a, "axis", 3, *HERE) for a in (-3, -1, 0, 2, np.int8(1))] == [0, 2, 0, 2, 1]


@pytest.mark.parametrize("values", [[0, 5, 7], (0, 5, 7), np.array([0, 5, 7], np.uint8), np.array([7, 5, 0])[::-1]])
def test_counts_become_int64(values):
    got = arguments.as_counts(values, 3, "send_counts", *HERE)
    assert got.dtype == np.int64
    assert got.tolist() == [0, 5, 7]


def test_every_reduction_of_every_dtype_is_defined_except_avg_of_integers():
    for name, dtype in BY_NAME.items():
        for op in ("sum", "prod", "min", "max", "avg"):
            whole = name == "bool" or "int" in name
            if op == "avg" and whole:
                with pytest.raises(TypeError, match=f"all_reduce on rank 3: avg of {name} is not defined"):
                    arguments.as_reduction(op, dtype, *HERE)
            else:
                assert arguments.as_reduction(op, dtype, *HERE) > 0
