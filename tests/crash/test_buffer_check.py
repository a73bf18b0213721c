"""`SHMCOLL_CHECK=1`: a buffer of a pending asynchronous call that is changed, or resized, is found."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import shmcoll
from shmcoll.calls import buffer_check
from tests.support import switches
from tests.support.wrong_arguments import Sub

N = 1000
ON = {"SHMCOLL_CHECK": "1"}


def held(comm: Any) -> threading.Event:
    """Keep the worker busy until the event is set: what is submitted meanwhile is pending for sure."""
    released = threading.Event()
    switches.keep_worker_busy(comm, released.wait)
    return released


def caught(comm: Any, submit: Callable[[], Any], change: Callable[[], None]) -> str:
    """What `wait` says of a call after whose submission a buffer is changed."""
    released = held(comm)
    work = submit()
    change()
    released.set()
    try:
        work.wait()
    except shmcoll.BufferChanged as error:
        return str(error)
    return ""


def changes(comm: Any) -> dict[str, str]:
    """On rank 1 a buffer is changed in each call, on rank 0 none."""
    odd = comm.rank == 1
    x, out, both, listed = np.ones(N), np.zeros(N), np.ones(N), [np.ones(4), np.ones(4)]
    counts, numbers, halo, owned = [N // 2, N - N // 2], [1.0, 2.0], np.ones(9), np.ones(N)
    plan, grid = comm.plan("all_reduce", x, out=out), comm.grid(2)
    message = {"a": [1]}

    def setting(array: Any, value: float = 7.0) -> Callable[[], None]:
        def change() -> None:
            if odd:
                array[0] = value

        return change

    def resize() -> None:
        if odd:
            owned.resize(N + 1, refcheck=False)

    def append() -> None:
        if odd:
            message["a"].append(2)

    told = {
        "x": caught(comm, lambda: comm.all_reduce(x, async_op=True), setting(x)),
        "out": caught(comm, lambda: comm.all_reduce(x, out=out, async_op=True), setting(out)),
        "in place": caught(comm, lambda: comm.all_reduce(both, out=both, async_op=True), setting(both)),
        "root": caught(comm, lambda: comm.broadcast(x, 1, async_op=True), setting(x, 8.0)),
        "not root": caught(comm, lambda: comm.broadcast(x, 0, async_op=True), setting(x, 9.0)),
        "item of x": caught(comm, lambda: comm.all_to_all(listed, async_op=True), setting(listed[1])),
        "counts": caught(comm, lambda: comm.all_to_all_v(x, counts, [0, 0], async_op=True), setting(counts, 3)),
        "numbers": caught(comm, lambda: comm.all_reduce(numbers, async_op=True), setting(numbers)),
        "halo": caught(comm, lambda: grid.exchange(halo, async_op=True), setting(halo)),
        "plan": caught(comm, plan.start, setting(x, 10.0)),
        "sent": caught(comm, lambda: comm.send(x, comm.rank, async_op=True), setting(x, 11.0)),
        "object": caught(comm, lambda: comm.all_gather_object(message, async_op=True), append),
        "resized": caught(comm, lambda: comm.send(owned, comm.rank, async_op=True), resize),
    }
    assert [comm.recv(source=comm.rank)[0].size for _ in range(2)] == [N, N + odd]
    return told


def test_a_change_is_found_whatever_the_call(ranks):
    first, second = ranks(2, changes, environment=ON)
    calls = {
        "x": ("all_reduce", "x was changed"),
        "out": ("all_reduce", "out was changed"),
        "in place": ("all_reduce", "x was changed and out was changed"),
        "root": ("broadcast", "x was changed"),
        "not root": ("broadcast", "x was changed"),
        "item of x": ("all_to_all", "x was changed"),
        "counts": ("all_to_all_v", "send_counts was changed"),
        "numbers": ("all_reduce", "x was changed"),
        "halo": ("halo_exchange", "x was changed"),
        "plan": ("all_reduce", "x was changed"),
        "sent": ("send", "x was changed"),
        "object": ("all_gather_object", "the object was changed"),
        "resized": ("send", "x was resized"),
    }
    for name, (operation, change) in calls.items():
        words = second[name]
        assert words.startswith(f"{operation} at "), (name, words)
        assert "test_buffer_check.py:" in words, (name, words)
        assert f" on rank 1: {change} while the call was pending" in words, (name, words)
        assert not first[name], (name, first[name])


def test_without_a_change_nothing_is_said(ranks):
    def fine(comm) -> list[str]:
        x, out, part = np.ones(N), np.zeros(N), np.ones(2 * N).reshape(2, N)
        calls = [
            lambda: comm.all_reduce(x, out=x, async_op=True),
            lambda: comm.all_reduce(x, out=out, async_op=True),
            lambda: comm.broadcast(x, 0, async_op=True),
            lambda: comm.all_gather(part[comm.rank], out=part.reshape(-1), async_op=True),
            lambda: comm.reduce_scatter(part.reshape(-1), async_op=True),
            lambda: comm.gather_v(x[: comm.rank + 1], async_op=True),
            lambda: comm.scatter_object([1, "a"] if comm.rank == 0 else None, async_op=True),
            lambda: comm.barrier(async_op=True),
        ]
        return [told for submit in calls if (told := caught(comm, submit, lambda: None))]

    assert ranks(2, fine, environment=ON) == [[], []]


class ByDLPack:
    def __init__(self, array: np.ndarray):
        self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__


class ByInterface:
    def __init__(self, array: np.ndarray):
        self.__array_interface__ = array.__array_interface__


def memories(count: int) -> dict[str, tuple[np.ndarray, Any]]:
    """Of each kind of memory, an array of it, and what a user passes."""
    a, b, c, d, strided = *np.zeros((4, count)), np.zeros((count, 2))[:, 0]
    kinds = {"subclass": (a, a.view(Sub)), "dlpack": (b, ByDLPack(b)), "interface": (c, ByInterface(c))}
    kinds |= {"memoryview": (d, memoryview(d)), "strided": (strided, strided)}
    raw = bytearray(8 * count)
    return kinds | {"bytearray": (np.frombuffer(raw, np.uint8), raw)}


class Unsteady:
    """An object whose pickle is always another."""

    count = 0

    def __reduce__(self) -> Any:
        Unsteady.count += 1
        return Unsteady, (), {"n": Unsteady.count}


def correct(comm: Any) -> dict[str, str]:
    """Programs that change no buffer of a pending call, or one that is ignored."""
    n, me, told = comm.size, comm.rank, {}

    def judge(what: str, submit: Callable[[], Any], change: Callable[[], None] = lambda: None) -> None:
        told[what] = caught(comm, submit, change)

    def use(way: str, array: np.ndarray, shown: Any) -> None:
        x, whole, length = np.ones(array.size, array.dtype), {"out": shown, "async_op": True}, array.size // n
        in_place = array if way == "interface" else shown  # which is no array for numpy
        judge(f"out, {way}", lambda: comm.all_reduce(x, **whole))
        judge(f"in place, {way}", lambda: comm.all_reduce(in_place, **whole))
        judge(f"x in out, {way}", lambda: comm.all_gather(array[me * length :][:length], **whole))
        judge(f"out over x, {way}", lambda: comm.all_gather(array[:length], **whole))
        judge(f"a list, {way}", lambda: comm.all_to_all(list(np.split(array, n)), **whole))
        judge(f"broadcast, {way}", lambda: comm.broadcast(shown, 0, async_op=True))
        judge(f"counts, {way}", lambda: comm.all_to_all_v(array, [length] * n, **whole))
        judge(f"sendrecv, {way}", lambda: comm.sendrecv(array, (me + 1) % n, shown, async_op=True))

    for way, both in memories(4 * n).items():
        use(way, *both)
    padded = np.zeros((6, 2), np.dtype("i1,f8", align=True))
    padded.view(np.uint8)[...] = np.random.default_rng(0).integers(0, 255, padded.nbytes, np.uint8).reshape(6, -1)
    for x in (padded[:, 0], padded[::-1], padded.T, padded, np.ones(8, "g")[::2], np.zeros((0, 3)), np.zeros(4, "S0")):
        judge(f"{x.dtype} {x.strides}", partial(comm.all_gather, x, async_op=True))
    judge("an object", lambda: comm.all_gather_object(Unsteady(), async_op=True))
    sent, gathered, counts = np.ones(4), np.zeros(4 * n), [4 // n] * n

    def change() -> None:
        if me == 0:
            for one in (sent, gathered, counts):
                one[0] += 1  # type: ignore[index]

    judge("ignored by scatter", lambda: comm.scatter(sent, 1, async_op=True), change)
    judge("ignored by scatter_v", lambda: comm.scatter_v(sent, 1, send_counts=counts, async_op=True), change)
    judge("ignored by gather", lambda: comm.gather(np.ones(4), 1, out=gathered, async_op=True), change)
    judge("ignored by reduce", lambda: comm.reduce(np.ones(4 * n), 1, out=gathered, async_op=True), change)
    judge("ignored by exscan", lambda: comm.exscan(np.ones(4 * n), out=gathered, async_op=True), change)
    judge("ignored by broadcast_object", lambda: comm.broadcast_object([sent], 1, async_op=True), change)
    # a chain of calls, each of which uses what the one before writes
    x, y, released = np.ones(N), np.zeros(N), held(comm)
    works = [
        comm.all_reduce(x, out=y, async_op=True),
        comm.all_reduce(y, out=x, async_op=True),
        comm.plan("all_reduce", x, out=x).start(),
        comm.broadcast(x, 1, async_op=True),
        comm.send(x, me, async_op=True),
        comm.all_reduce(y, out=y, async_op=True),
    ]
    released.set()
    told["a chain"] = " ".join(str(error) for work in works if (error := work.exception(30)))
    assert comm.recv(source=me)[0][0] == x[0] == n**3
    comm.barrier()
    return {what: error for what, error in told.items() if error}


def test_correct_programs_are_not_blamed(ranks):
    assert ranks(2, correct, environment=ON) == [{}, {}]


def test_a_change_is_found_through_every_kind_of_memory(ranks):
    def missed(comm: Any) -> list[str]:
        told = []

        def use(way: str, array: np.ndarray, shown: Any) -> None:
            def change() -> None:
                array[0] += 1

            x = array if way == "interface" else shown  # which is no array for numpy
            if not caught(comm, lambda: comm.all_reduce(x, async_op=True), change):
                told.append(f"x, {way}")
            if not caught(comm, lambda: comm.all_reduce(np.ones(8, array.dtype), out=shown, async_op=True), change):
                told.append(f"out, {way}")

        for way, both in memories(8).items():
            if way != "bytearray":
                use(way, *both)
        return told

    assert ranks(2, missed, environment=ON) == [[], []]


def test_a_posted_receive_finds_a_change_of_out_and_the_message_is_there_all_the_same(ranks):
    def receive(comm) -> Any:
        if comm.rank == 0:
            comm.barrier()
            comm.send(np.arange(3.0), 1, tag=1)
            comm.send(np.arange(3.0), 1, tag=2)
            return None
        out, strided, told = np.zeros(4), np.zeros((2, 6))[:, ::2], []
        works = comm.recv(out, 0, 1, async_op=True), comm.recv(strided, 0, 2, async_op=True)
        out[3] = 1
        comm.barrier()
        with pytest.raises(shmcoll.BufferChanged, match=r"recv at .*test_buffer_check.py:.* on rank 1: out was chang"):
            works[0].wait()
        array, source, tag = works[1].wait()
        told += [out.tolist(), array.tolist(), source, tag, strided.tolist()]
        return told

    wanted = [[0.0, 1.0, 2.0, 1.0], [0.0, 1.0, 2.0], 0, 2, [[0.0, 1.0, 2.0], [0.0, 0.0, 0.0]]]
    assert ranks(2, receive, environment=ON)[1] == wanted


def test_without_the_check_nothing_is_looked_at(ranks):
    assert set(ranks(2, changes)[1].values()) == {""}


def test_the_group_goes_on_and_an_error_of_the_call_comes_first(ranks):
    def go_on(comm) -> str:
        x = np.ones(N)
        released = held(comm)
        refused = comm.all_reduce(x, "median", async_op=True)
        x[0] = 2
        released.set()
        with pytest.raises(ValueError, match="unknown op 'median'") as caught_error:
            refused.wait()
        assert "x was changed while the call was pending" in caught_error.value.__notes__[0]
        assert caught(comm, lambda: comm.all_reduce(x, async_op=True), lambda: x.__setitem__(0, 3.0))
        return str(comm.all_reduce(np.ones(1), async_op=True).wait())

    assert ranks(2, go_on, environment=ON) == ["[2.]"] * 2


@pytest.mark.parametrize("count", [0, 1, 5000, 8192, 8193, 100_003])
def test_a_digest_sees_one_bit_and_a_change_of_places(count, seed):
    chance = np.random.default_rng(seed)
    for dtype in (np.uint8, np.float16, np.float64):
        x = chance.integers(0, 100, count).astype(dtype)
        noted = buffer_check.Noted(x)
        assert noted.change() == ""
        for i in {0, count // 2, count - 1} if count else ():
            raw = x.view(np.uint8)
            raw[i * x.itemsize] ^= 1
            assert noted.change() == "was changed"
            raw[i * x.itemsize] ^= 1
            assert noted.change() == ""
        if count > 1:
            before = x.copy()
            x.sort()
            assert noted.change() == "was changed"
            x[...] = before
            x[[0, -1]] = x[[-1, 0]] if x[0] != x[-1] else [1, 2]
            assert noted.change() == "was changed"


def test_a_strided_array_and_a_view_of_one_that_was_resized():
    x = np.zeros((4, 6))
    noted = buffer_check.Noted(x[:, ::2])
    x[0, 1] = 1  # between its elements
    assert noted.change() == ""
    x[0, 2] = 1
    assert noted.change() == "was changed"
    base = np.zeros(100)
    noted = buffer_check.Noted(base[:10])
    base.resize(100_000, refcheck=False)
    assert noted.change() == "was resized"
