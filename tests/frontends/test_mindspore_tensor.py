"""The small Tensor, its dtypes, Cell and context. The expected texts were printed by MindSpore 2.10."""

import pickle

import ml_dtypes
import numpy as np
import pytest

import shmcoll.mindspore as ms
from shmcoll.mindspore import Tensor, nn
from shmcoll.mindspore.common import dtype as dtypes

REPRS = [
    (np.float32(12.573022), "Tensor(shape=[], dtype=Float32, value= 12.573)"),
    (np.float64(1e10), "Tensor(shape=[], dtype=Float64, value= 1e+10)"),
    (True, "Tensor(shape=[], dtype=Bool, value= True)"),
    (3, "Tensor(shape=[], dtype=Int64, value= 3)"),
    (1 - 2j, "Tensor(shape=[], dtype=Complex128, value= 1-2j)"),
    ([], "Tensor(shape=[0], dtype=Float32, value= )"),
    (np.zeros((2, 0)), "Tensor(shape=[2, 0], dtype=Float64, value=\n)"),
    ([1.0, 2.0], "Tensor(shape=[2], dtype=Float32, value= [ 1.00000000e+00,  2.00000000e+00])"),
    ([1, -20], "Tensor(shape=[2], dtype=Int64, value= [  1, -20])"),
    ([True, False], "Tensor(shape=[2], dtype=Bool, value= [ True, False])"),
    ([1 - 2j, 3j], "Tensor(shape=[2], dtype=Complex128, value= [1-2j, 0+3j])"),
    (
        np.array([-0.0, np.nan, -np.inf]),
        "Tensor(shape=[3], dtype=Float64, value= [-0.00000000e+00,             nan,            -inf])",
    ),
    (
        np.array([1e10, 0.1, 1 / 3]).astype(ml_dtypes.bfloat16),
        "Tensor(shape=[3], dtype=BFloat16, value= [9.99922e+09,    0.100098,    0.333984])",
    ),
    (
        np.array([np.inf, 0.1], np.float16),
        "Tensor(shape=[2], dtype=Float16, value= [        inf,  9.9976e-02])",
    ),
    (
        np.arange(24),
        "Tensor(shape=[24], dtype=Int64, value= [ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, "
        "12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23\n ])",
    ),
    (
        np.arange(13) > 2,
        "Tensor(shape=[13], dtype=Bool, value= [False, False, False,  True,  True,  True,  True,  True,  True,  True, "
        " True,  True, \n  True])",
    ),
    (np.arange(1001), "Tensor(shape=[1001], dtype=Int64, value= [   0,    1,    2 ...  998,  999, 1000])"),
    (
        np.arange(16).reshape(2, 1, 8),
        "Tensor(shape=[2, 1, 8], dtype=Int64, value=\n"
        "[[[ 0,  1,  2 ...  5,  6,  7]],\n [[ 8,  9, 10 ... 13, 14, 15]]])",
    ),
    (
        np.arange(14, dtype=np.uint8).reshape(7, 2),
        "Tensor(shape=[7, 2], dtype=UInt8, value=\n"
        "[[ 0,  1],\n [ 2,  3],\n [ 4,  5],\n ...\n [ 8,  9],\n [10, 11],\n [12, 13]])",
    ),
]


@pytest.mark.parametrize(("data", "text"), REPRS, ids=[str(i) for i in range(len(REPRS))])
def test_repr(data, text):
    assert repr(Tensor(data)) == text


def test_str_is_numpys():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert str(Tensor(array)) == f"{Tensor(array)}" == "[[0. 1. 2.]\n [3. 4. 5.]]"
    assert str(Tensor(2.5)) == "2.5"


def test_tensor_is_a_copy_and_asnumpy_is_not():
    array = np.zeros(3, np.float32)
    tensor = Tensor(array)
    array[0] = 1
    tensor.asnumpy()[1] = 2
    assert tensor.tolist() == [0, 2, 0]
    assert type(tensor.asnumpy()) is np.ndarray


def test_dtype_argument_converts():
    assert Tensor([1.5, 2.5], ms.int32).tolist() == [1, 2]
    assert Tensor(np.ones(2), dtype=ms.bfloat16).asnumpy().dtype == ml_dtypes.bfloat16
    assert Tensor([1, 0], "bool").tolist() == [True, False]


def test_what_is_no_tensor(told):
    accepted = "['Tensor', 'ndarray', 'list', 'tuple', 'float', 'int', 'bool', 'complex']"
    for data, name in (("text", "str"), (None, "NoneType")):
        assert told(lambda data=data: Tensor(data)) == (
            f"TypeError: For 'Tensor', the type of 'input_data' should be one of '{accepted}', but got type '{name}'."
        )
    assert told(lambda: Tensor(["text"])) == (
        "TypeError: For 'Tensor', the element type <U4 of 'input_data' is not supported."
    )


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=repr)
def test_dtypes_serve_as_numpys(dtype):
    tensor = Tensor(np.ones(2), dtype=dtype)
    assert tensor.dtype is dtype
    assert (dtype == tensor.asnumpy().dtype, tensor.asnumpy().dtype == dtype) == (True, True)
    assert (np.dtype(dtype), np.zeros(1, dtype).dtype) == (dtype.numpy, dtype.numpy)
    assert (dtype.itemsize, hash(dtype)) == (dtype.numpy.itemsize, hash(dtype.numpy))
    assert repr(dtype) == f"mindspore.{dtype.name}"
    assert [other for other in dtypes.ALL if other == dtype] == [dtype]


def test_dtypes_print_mindspores_names():
    assert [str(dtype) for dtype in (ms.float32, ms.bool_, ms.bfloat16, ms.uint8)] == [
        "Float32",
        "Bool",
        "BFloat16",
        "UInt8",
    ]


def test_numpy_works_on_tensors():
    tensor = Tensor(np.arange(6.0).reshape(2, 3), ms.float32)
    assert type(tensor + 1) is Tensor
    assert [type(one) for one in (tensor[0], tensor[0, 1], *tensor[0], tensor.sum())] == [Tensor] * 6
    assert float(tensor.mean()) == 2.5
    assert np.median(tensor) == 2.5
    copy = pickle.loads(pickle.dumps(tensor))
    assert (type(copy), copy.tolist(), copy.dtype) == (Tensor, tensor.tolist(), ms.float32)


def test_cell_runs_construct(told):
    class Double(nn.Cell):
        def construct(self, x, times=2):
            return x * times

    assert (Double()(3), Double()(3, times=3)) == (6, 9)
    assert told(lambda: nn.Cell()(1)) == "AttributeError: For 'Cell', the method 'construct' is not defined."
