"""What a signal handler raises arrives as it is, whatever was called when the signal came."""

import io
import pickle
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from shmcoll.calls import arguments, buffer_check, pickling
from shmcoll.communicator import native_call, shared_arrays
from shmcoll.engine.compiler import intrinsics, user_operators
from shmcoll.engine.memory import thresholds
from shmcoll.errors import OperatorFailed
from shmcoll.runner import answers, outgoing, protocol
from shmcoll.runner.pickling import Sending
from tests.support import sparks
from tests.support.dtypes import BY_NAME


class OfAllKinds(TimeoutError, TypeError, RuntimeError, ValueError):
    """Whatever error a call expects, it would take this for one."""


class Stop(Exception):
    """An error that no call expects."""


class Mine:
    """Something with methods that shmcoll has called. None is a generator: Python loses what is raised while it closes
    one that has been left."""

    def __reduce__(self):
        return Mine, len([1, 1]) and ()

    def __array__(self, dtype=None, copy=None):
        return np.array([one for one in (1, 2)])  # noqa: C416

    def __iter__(self):
        return iter([(one, 1 - one) for one in (0, 1)])

    def __getitem__(self, index):
        return 3

    def __index__(self):
        return len([1, 1])


def send() -> None:
    with outgoing.unsendable_in_words():
        Sending().dump(Mine(), io.BytesIO())


def answer() -> None:
    class Part(io.BytesIO):
        file = io.BytesIO()
        rewind = io.BytesIO.tell

    answers._write_result(Part(), 0, Mine())


def read_answer() -> None:
    protocol.read_result(io.BytesIO(protocol.ANSWER + pickle.dumps(Mine())), 0, 1, "")


def make_operator() -> None:
    made = object.__new__(user_operators.Op)
    made.name, made._kernels, made._jitted, made.function = "name", {}, None, lambda a, b: a
    made._check(None)
    made.kernel(BY_NAME["float64"])


CALLS = {
    "pack": (lambda: pickling.packed(Mine(), "send_object", 0), pickling),
    "read x": (lambda: arguments._as_native(Mine(), "send", 0), arguments),
    "read out": (lambda: arguments.as_memory(Mine()), arguments),
    "read counts": (lambda: arguments.as_counts(Mine(), 2, "counts", "gather_v", 0), arguments),
    "read a value": (lambda: shared_arrays.as_filling(Mine(), None, "full", 0), shared_arrays),
    "read a shape": (lambda: shared_arrays.as_description((Mine(),), "f8", "empty", 0), shared_arrays),
    "read a count": (lambda: native_call.block_of(np.zeros(1), Mine(), 0), native_call),
    "read pairs": (lambda: native_call.routed(Mine(), 2, 0), native_call),
    "send a call": (send, outgoing),
    "send an answer": (answer, answers),
    "read an answer": (read_answer, protocol),
    "watch a buffer": (lambda: buffer_check.Noted(Mine()), buffer_check),
    "read thresholds": (thresholds.known, thresholds),
    "make an operator": (make_operator, user_operators),
}


@pytest.mark.parametrize("error", [OfAllKinds, Stop, KeyboardInterrupt])
@pytest.mark.parametrize("name", CALLS)
def test_an_exception_of_a_handler_is_neither_renamed_nor_lost(monkeypatch, tmp_path, name, error):
    call, module = CALLS[name]
    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(tmp_path))
    thresholds.keep(2, {"flat_bytes": 1 << 12})

    def result_type(*_: object):
        from numba.core import types

        return types.float64

    monkeypatch.setattr(user_operators.code, "result_type", result_type)
    monkeypatch.setattr(user_operators.code, "load_function_kernel", lambda *_: 1)
    compiled = SimpleNamespace(library=SimpleNamespace(get_llvm_str=str))
    monkeypatch.setattr(intrinsics, "compiled_for", lambda *_: compiled)

    def handler() -> None:
        raise error("of the program")

    files = Path(module.__file__), Path(__file__)
    for step in range(1, 2000, 37 if module is thresholds else 2):
        try:
            if not sparks.run(call, step, files, handler):
                break
        except error as e:
            assert (type(e), str(e)) == (error, "of the program")
            continue
        pytest.fail(f"step {step} of {name}")
    assert step > 5


def test_an_error_of_the_object_itself_is_in_words():
    class Refuses:
        def __reduce__(self):
            raise TimeoutError("not today")

    text = "send on rank 3: a Refuses cannot be pickled: TimeoutError: not today"
    with pytest.raises(TypeError, match=text):
        pickling.packed(Refuses(), "send", 3)


def test_a_handler_amid_an_operator_of_objects(ranks):
    """On its rank, its exception. The others learn of it, and the group goes on."""

    def run(comm) -> list:
        def handler(*_: object) -> None:
            raise OfAllKinds("of the program")

        def add(a: int, b: int) -> int:
            signal.raise_signal(signal.SIGUSR1)
            return a + b

        signal.signal(signal.SIGUSR1, handler)
        told = []
        for call in (comm.all_reduce_object, comm.scan_object):
            try:
                call(comm.rank, add)
            except (OfAllKinds, OperatorFailed) as error:
                told.append(type(error).__name__)
        return [*told, comm.all_reduce_object(1, lambda a, b: a + b)]

    assert ranks(2, run) == [["OfAllKinds"] * 2 + [2], ["OperatorFailed"] * 2 + [2]]
