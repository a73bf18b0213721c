"""The methods whose bodies come from one template look and fail like methods that were written by hand."""

import inspect
import pickle
import traceback

import numpy as np
import pytest

from shmcoll.collectives import RECORDS
from shmcoll.communicator import Communicator, native_call
from shmcoll.communicator.plans import Plan

METHODS = {
    name: member
    for cls in Communicator.__mro__
    for name, member in vars(cls).items()
    if inspect.isfunction(member)
    and member.__code__.co_filename == native_call.__file__
    and hasattr(member, "__wrapped__")
}


def test_they_are_the_collectives_and_two_messages():
    assert set(METHODS) == set(RECORDS) - {"halo_exchange"} | {"reduce_scatter_v"}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_has_the_name_and_the_arguments_of_its_declaration(name):
    method = METHODS[name]
    declared = method.__wrapped__
    assert (method.__name__, method.__qualname__) == (name, f"Communicator.{name}")
    assert pickle.loads(pickle.dumps(method)) is method
    for function in (method, declared):
        code = function.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        assert code.co_varnames[:count] == declared.__code__.co_varnames[:count]
    assert inspect.signature(method) == inspect.signature(declared)
    assert inspect.signature(method, follow_wrapped=False) == inspect.signature(declared)
    assert inspect.getdoc(method)
    assert f"def {name}" in inspect.getsource(method)


@pytest.mark.parametrize("name", METHODS)
def test_wrong_arguments_are_refused_as_by_any_method(name):
    with pytest.raises(TypeError, match=rf"^Communicator\.{name}\(\) got an unexpected keyword argument 'nonsense'"):
        METHODS[name](None, nonsense=1)


def traced(comm) -> list[str]:
    try:
        comm.all_reduce(np.ones(3), "nonsense")
    except ValueError as error:
        return [f"{frame.name}: {frame.line}" for frame in traceback.extract_tb(error.__traceback__)]
    return []


def test_a_traceback_with_all_frames_shows_the_line_of_the_template(ranks):
    [lines] = ranks(1, traced, environment={"SHMCOLL_FULL_TRACEBACKS": "1"})
    assert lines[0] == 'traced: comm.all_reduce(np.ones(3), "nonsense")'
    assert lines[1] == "all_reduce: return {otherwise}"


def test_each_line_of_the_template_is_where_tracebacks_look():
    lines = inspect.getsource(native_call).splitlines()
    template = native_call._TEMPLATE.splitlines()
    assert lines[native_call._FIRST_LINE - 1 :][: len(template)] == template
    assert Plan.__call__.__code__.co_firstlineno == native_call._FIRST_LINE


def natively(comm) -> bool:
    """No call goes the long way, which would look at the arguments in Python."""

    def refuse(*arguments: object) -> None:
        raise AssertionError(f"the long way: {arguments}")

    native_call.NativeCalls._again = refuse
    x = np.arange(4.0) + comm.rank
    got = comm.gather(x, 1)
    assert (got is None) == (comm.rank != 1)
    if got is not None:
        assert got.tolist() == [0, 1, 2, 3, 1, 2, 3, 4]
    table = comm.gather(x.reshape(2, 2).astype(np.float32))
    if comm.rank == 0:
        assert table.shape == (4, 2)
        assert table.dtype == np.float32
    comm.gather(np.ones((0, 3)))
    for got, first in ((comm.scatter(table), comm.rank), (comm.broadcast(None if comm.rank else table[:2]), 0)):
        assert got.tolist() == [[first, 1 + first], [2 + first, 3 + first]]
        assert got.dtype == np.float32
    return True


def test_calls_without_an_array_for_the_result_are_native(ranks):
    assert ranks(2, natively) == [True, True]


def left_alone(comm) -> list[str]:
    told = []
    for name in ("rank", "size", "ranks", "name", "launcher", "handle"):
        with pytest.raises(AttributeError) as caught:
            setattr(comm, name, getattr(comm, name))
        told.append(str(caught.value))
        with pytest.raises(AttributeError):
            delattr(comm, name)
    grid = comm.grid(1)
    for name in ("dims", "periods", "coords"):
        with pytest.raises(AttributeError):
            setattr(grid, name, ())
    comm.ranks.append(7)
    assert comm.ranks == [0]
    return told


def test_attributes_of_a_communicator_are_read_only(ranks):
    assert all("has no setter" in text for text in ranks(1, left_alone)[0])
