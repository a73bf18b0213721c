"""MindSpore's own tensors go in and come out: with a stand-in, and with MindSpore itself where it is installed."""

import importlib
import importlib.util
import sys
from types import ModuleType

import numpy as np
import pytest

from shmcoll.mindspore import communication, context, nn, ops
from shmcoll.mindspore.common import dtype as dtypes
from shmcoll.mindspore.mint.distributed import gather

pytestmark = pytest.mark.slow


class StandIn:
    """What the door relies on of mindspore.Tensor: no numpy array, and its bfloat16 cannot become one."""

    def __init__(self, data, dtype=None):
        self._data = np.array(data).astype(dtype.numpy if dtype else np.asarray(data).dtype)
        self.dtype = dtypes.BY_NUMPY[self._data.dtype]
        self.shape = self._data.shape

    def asnumpy(self):
        if self.dtype == dtypes.bfloat16:
            raise TypeError("The Numpy bfloat16 data type is not supported now")
        return self._data.copy()

    def astype(self, dtype):
        return StandIn(self._data, dtype)

    def data_ptr(self):
        return self._data.ctypes.data

    def stride(self):
        return [step // self._data.itemsize for step in self._data.strides]

    def assign_value(self, value):
        assert isinstance(value, StandIn)
        self._data[...] = value._data


@pytest.fixture(params=["stand-in", "installed"])
def mindspore(request, monkeypatch):
    """Imports it, in the ranks."""
    if request.param == "installed":
        if importlib.util.find_spec("mindspore") is None:
            pytest.skip("MindSpore is not installed")
        return lambda: importlib.import_module("mindspore")
    module = ModuleType("mindspore")
    vars(module).update(Tensor=StandIn, float32=dtypes.float32, bfloat16=dtypes.bfloat16, int32=dtypes.int32)
    vars(module).update(nn=nn, get_context=context.get_context)
    monkeypatch.setitem(sys.modules, "mindspore", module)
    return lambda: module


def values(tensor, theirs) -> list:
    assert type(tensor) is theirs.Tensor
    return tensor.astype(theirs.float32).asnumpy().tolist()


def test_all_reduce_and_all_to_all(ranks, mindspore):
    def run(comm) -> list:
        theirs = mindspore()
        communication.init()
        found = []
        for dtype in (theirs.float32, theirs.bfloat16, theirs.int32):
            x = theirs.Tensor(np.array([[1, 2], [3, 4]]) * (comm.rank + 1), dtype=dtype)
            reduced, exchanged = ops.AllReduce()(x), ops.AlltoAll(2, 0, 1)(x)
            assert (str(reduced.dtype), str(exchanged.dtype)) == (str(dtype), str(dtype))
            found.append((values(reduced, theirs), values(exchanged, theirs)))
        return found

    for rank, found in enumerate(ranks(2, run)):
        assert found == [([[3, 6], [9, 12]], [[1, 2, 2, 4]] if rank == 0 else [[3, 4, 6, 8]])] * 3


@pytest.mark.parametrize("asynchronous", [False, True])
def test_gather(ranks, mindspore, asynchronous):
    def run(comm) -> list:
        theirs = mindspore()
        communication.init()
        found = []
        for dtype in (theirs.float32, theirs.bfloat16, theirs.int32):
            out = [theirs.Tensor(np.zeros(2), dtype=dtype) for _ in range(2)]
            handle = gather(theirs.Tensor(np.full(2, comm.rank + 1), dtype=dtype), out, async_op=asynchronous)
            if asynchronous:
                handle.wait()
            found.append([values(one, theirs) for one in out])
        return found

    assert ranks(2, run) == [[[[1, 1], [2, 2]]] * 3, [[[0, 0], [0, 0]]] * 3]


def test_refusals_name_their_types(ranks, mindspore, told):
    def run(comm) -> list:
        theirs = mindspore()
        communication.init()
        t, i = theirs.Tensor(np.zeros(2), dtype=theirs.float32), theirs.Tensor(np.zeros(2), dtype=theirs.int32)
        yes = theirs.Tensor(np.array([True]))
        return [
            told(lambda: gather(t, [t, i])),
            told(lambda: gather(t, [i])),
            told(lambda: ops.AllReduce()(yes)),
            told(lambda: gather(np.zeros(2, np.float32), [i])),
        ]

    assert ranks(1, run) == [
        [
            "TypeError: tensor_lists dtype must be the same, but got Float32 and Int32.",
            "TypeError: The argument list tensor type must be equal to tensor type, but got Int32.",
            "TypeError: For 'AllReduce', the dtype of the input must be a number, but got Bool.",
            "TypeError: The argument list tensor type must be equal to tensor type, but got Int32.",
        ]
    ]
