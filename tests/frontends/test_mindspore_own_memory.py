"""The functional APIs on MindSpore's own tensors, where it is installed, and under its name, where it is not."""

import importlib
import importlib.util
import sys

import numpy as np
import pytest

import shmcoll.mindspore
from shmcoll.mindspore import communication
from shmcoll.mindspore.communication import create_group
from shmcoll.mindspore.memory import memory_of
from shmcoll.mindspore.mint import distributed
from tests.support import cases_mindspore as cases

needs_mindspore = pytest.mark.skipif(importlib.util.find_spec("mindspore") is None, reason="MindSpore is not installed")


@needs_mindspore
@pytest.mark.slow
def test_every_function(ranks):
    def run(comm) -> list[str]:
        theirs = importlib.import_module("mindspore")
        distributed.init_process_group()
        create_group("mine", [comm.rank])
        told = cases.mistakes(None, [0, 1], comm.rank, [theirs.Tensor])
        return told + cases.mistakes("mine", [comm.rank], comm.rank, [theirs.Tensor])[1:]

    for told in ranks(2, run, deadline=120):
        assert int(told[0]) > 100
        assert "\n".join(told[1:]) == ""


@needs_mindspore
@pytest.mark.slow
def test_results_arrive_when_the_handle_is_dropped(ranks):
    def run(comm) -> list:
        theirs = importlib.import_module("mindspore")
        distributed.init_process_group()
        out = [theirs.Tensor([0.0]), theirs.Tensor([0.0])]
        distributed.gather(theirs.Tensor([comm.rank + 1.0]), out, async_op=True)
        distributed.all_to_all(pair := [theirs.Tensor([0.0]), theirs.Tensor([0.0])], out[:2], async_op=True)
        distributed.barrier()
        return [[float(one.asnumpy()[0]) for one in some] for some in (out, pair)]

    assert ranks(2, run, deadline=120) == [[[1.0, 2.0], [1.0, 0.0]], [[0.0, 0.0], [2.0, 0.0]]]


@needs_mindspore
@pytest.mark.slow
def test_memory_is_that_of_the_tensor(ranks):
    """Whole tensors, views, transposed ones, parameters, bfloat16, tensors that are still computed, empty ones."""

    def run(comm) -> list:
        theirs = importlib.import_module("mindspore")
        found = []
        base = theirs.mint.zeros((2, 3))
        memory_of(base)[...] = np.arange(6).reshape(2, 3)
        memory_of(base[1])[...] = 7
        memory_of(base.T)[0] = 9
        found.append(base.asnumpy().tolist())
        computed = theirs.Tensor(np.ones((300, 300), np.float32))
        computed = computed @ computed
        found.append(memory_of(computed).tolist() == np.full((300, 300), 300).tolist())
        half = theirs.Tensor([1.0, 2.0], theirs.bfloat16)
        memory_of(half)[0] = 5
        found.append(half.astype(theirs.float32).asnumpy().tolist())
        weight = theirs.Parameter(theirs.Tensor([1.0]))
        memory_of(weight)[...] = 3
        found += [(weight + 1).asnumpy().tolist(), memory_of(theirs.Tensor(np.zeros((0, 2), np.float32))).shape]
        return found

    wanted = [[[9.0, 1.0, 2.0], [9.0, 7.0, 7.0]], True, [5.0, 2.0], [4.0], (0, 2)]
    assert ranks(1, run, deadline=120) == [wanted]


def test_this_package_under_the_name_of_mindspore(ranks, monkeypatch):
    """As a program does that puts it into sys.modules before it imports `mindspore`."""
    monkeypatch.setitem(sys.modules, "mindspore", shmcoll.mindspore)

    def run(comm) -> list:
        theirs = importlib.import_module("mindspore")
        communication.init()
        out = [theirs.Tensor([0.0]), theirs.Tensor([0.0])]
        theirs.mint.distributed.gather(theirs.Tensor([comm.rank + 1.0]), out)
        return [float(one.asnumpy()[0]) for one in out]

    assert ranks(2, run) == [[1.0, 2.0], [0.0, 0.0]]
