"""Tensor, Parameter, nn.Cell and context answer as MindSpore 2.10 does; and our package can take its name."""

import os
import subprocess
import sys

import numpy as np
import pytest

import shmcoll.mindspore as ms
from shmcoll.mindspore import Parameter, Tensor, common, context
from tests.support import mindspore_calls
from tests.support.patience import PATIENCE


def test_calls_are_answered_as_mindspore_answered_them(monkeypatch):
    """The calls depend on those before them, so they are made in their order."""
    monkeypatch.setattr(context, "_settings", dict(context._settings))
    monkeypatch.setattr(context, "_parallel", dict(context._parallel))
    monkeypatch.setattr(common, "_seed", None)
    known = mindspore_calls.names(ms, common)
    calls = mindspore_calls.recorded()
    assert {call for call, _ in calls} > mindspore_calls.OTHERWISE.keys()
    differing = []
    for call, wanted in calls:
        ours, _ = mindspore_calls.OTHERWISE.get(call, (wanted, ""))
        got = mindspore_calls.answer(call, known)
        if got != ours:
            differing.append((call, wanted, got))
    assert differing == []


def test_the_world_is_named_by_the_device_target(monkeypatch):
    monkeypatch.setattr(context, "_settings", dict(context._settings))
    for target, kept in (("CPU", "CPU"), ("Davinci", "Ascend")):
        context.set_context(mode=context.GRAPH_MODE, device_target=target)
        assert (ms.get_context("mode"), ms.get_context("device_target")) == (ms.GRAPH_MODE, kept)


def test_operators_make_new_tensors_and_keep_out_in_place():
    x = y = Tensor([1.0, 2.0])
    y += 1
    assert (x.tolist(), y.tolist(), type(y)) == ([1, 2], [2, 3], Tensor)
    room = Tensor(np.zeros(2))
    assert np.add(x, 1, out=room) is room
    assert room.tolist() == [2, 3]
    assert [type(one) for one in np.divmod(Tensor([5, 7]), 2)] == [Tensor, Tensor]
    assert np.sum(Tensor([1.0]), dtype=np.float64).dtype == ms.float64
    with pytest.raises(TypeError):
        np.add.at(x, [0], "one")
    np.add.at(x, [0, 0], 1)
    assert x.tolist() == [3, 2]


def test_parts_of_a_parameter_are_tensors():
    parameter = Parameter(Tensor([[1.0, 2.0]]))
    assert parameter.name.startswith("Parameter#")
    assert [type(one) for one in (parameter[0], parameter + 1, parameter.value(), parameter.data)] == [Tensor] * 4
    assert repr(parameter.reshape(-1)) == "Tensor(shape=[2], dtype=Float32, value= [ 1.00000000e+00,  2.00000000e+00])"
    with pytest.raises(ValueError, match="a tensor of shape"):
        parameter.set_data(Tensor([1.0]))


UNCHANGED = """
import sys
import shmcoll.mindspore
sys.modules["mindspore"] = shmcoll.mindspore

import numpy as np
import mindspore as ms
import mindspore.nn as nn
import mindspore.ops as ops
from mindspore import Tensor, context
from mindspore._c_expression import GroupOptions
from mindspore.common import dtype as mstype
from mindspore.common.api import _pynative_executor
from mindspore.common.initializer import initializer
from mindspore.common.tensor import Tensor as again
from mindspore.communication import create_group, get_rank, init
from mindspore.communication.management import GlobalComm
from mindspore.mint.distributed import gather
from mindspore.ops.operations import Depend, _inner_ops
from mindspore.ops.operations.comm_ops import AllReduce

assert again is Tensor and AllReduce is ops.AllReduce
init()
_pynative_executor.sync()
assert (_inner_ops.Send, Depend) == (ops.Send, ops.Depend)
create_group("alone", [get_rank()], GroupOptions())
assert GlobalComm.INITED and shmcoll.mindspore.communication.GlobalComm is GlobalComm
assert sys.modules["mindspore.ops"] is shmcoll.mindspore.ops and mstype.float32 is ms.float32
x = Tensor([1.0, get_rank()], ms.float32)
assert type(AllReduce()(x)) is Tensor
rooms = [Tensor(np.zeros(2, np.float32))]
gather(x, rooms)
assert rooms[0].tolist() == [1, 0], rooms
assert ops.Barrier()().shape == (1,)
try:
    import mindspore.no_such_module
except ModuleNotFoundError as error:
    print(error)
del sys.modules["mindspore"]
try:
    import mindspore.fft
except ImportError as error:
    print(type(error).__name__)
"""


def test_our_package_serves_as_mindspore():
    """Each module is the one that is there already, so that none has a second state."""
    done = subprocess.run(
        [sys.executable, "-c", UNCHANGED], capture_output=True, text=True, timeout=PATIENCE, env={**os.environ}
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "No module named 'mindspore.no_such_module'\nModuleNotFoundError\n"
