"""Each operation as plain Python and as machine code does the same to real memory, and keeps its ordering."""

import ctypes
import os
import resource
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from shmcoll.engine import context as c
from shmcoll.engine.system.processes import process_start
from tests.engine import small_functions

EDGES = [0, 1, -1, 2**62, 2**63 - 1, -(2**63), 0x0123456789ABCDEF]
LIBC = ctypes.CDLL(None)


def in_python(name: str, *words: int) -> int:
    return getattr(small_functions, name)(*words)


@pytest.fixture(params=["python", "compiled"])
def call(request: pytest.FixtureRequest, compiled: Callable[..., int]) -> Callable[..., int]:
    """Every test runs both forms."""
    return in_python if request.param == "python" else compiled


@pytest.fixture
def word() -> ctypes.c_int64:
    return ctypes.c_int64(0)


@pytest.fixture
def semaphore() -> ctypes.Array:
    memory = ctypes.create_string_buffer(32)
    assert LIBC.sem_init(memory, 1, 0) == 0
    return memory


def rings(semaphore: ctypes.Array) -> int:
    count = ctypes.c_int()
    assert LIBC.sem_getvalue(semaphore, ctypes.byref(count)) == 0
    return count.value


@pytest.mark.parametrize("name", ["loaded", "acquired", "peeked"])
def test_loads(call: Callable[..., int], word: ctypes.c_int64, name: str) -> None:
    for value in EDGES:
        word.value = value
        assert call(name, ctypes.addressof(word)) == value


@pytest.mark.parametrize("name", ["stored", "released", "poked"])
def test_stores(call: Callable[..., int], word: ctypes.c_int64, name: str) -> None:
    for value in EDGES:
        call(name, ctypes.addressof(word), value)
        assert word.value == value


def test_idling_returns(call: Callable[..., int]) -> None:
    assert call("idled") == 0


def test_a_ring_ends_one_sleep(call: Callable[..., int], semaphore: ctypes.Array) -> None:
    for count in (1, 2):
        call("rung", ctypes.addressof(semaphore))
        assert rings(semaphore) == count
    call("slept", ctypes.addressof(semaphore), 3600 * 10**9)
    assert rings(semaphore) == 1


def test_a_sleep_ends_by_itself_but_not_early(call: Callable[..., int], semaphore: ctypes.Array) -> None:
    begin = time.monotonic_ns()
    call("slept", ctypes.addressof(semaphore), 3_000_000)
    assert time.monotonic_ns() - begin >= 3_000_000


def test_clock_is_monotonic_time(call: Callable[..., int]) -> None:
    before = time.monotonic_ns()
    assert before <= call("now") <= time.monotonic_ns()


def test_the_counter_counts(call: Callable[..., int]) -> None:
    values = [call("counted") for _ in range(3)]
    assert values == sorted(set(values))


@pytest.mark.parametrize("number", [0, 1, 2, 3, 4, 2**31, 2**62, 2**63 - 1])
def test_bit_lengths(call: Callable[..., int], number: int) -> None:
    assert call("measured", number) == number.bit_length()


def test_a_process_is_seen_to_end(call: Callable[..., int]) -> None:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.close(reading)
    assert call("gone", pid) == 0
    assert call("begun", pid) == process_start(pid) > 0
    os.close(writing)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert call("gone", pid) == 1
    assert call("begun", pid) == 0
    os.waitpid(pid, 0)
    assert call("gone", pid) == 1
    assert call("begun", pid) == -1


def test_a_process_of_an_awkward_name_has_a_start(call: Callable[..., int]) -> None:
    name = Path("/proc/self/comm")
    before = name.read_text()
    name.write_text("a) Z 1 (b")
    try:
        assert call("begun", os.getpid()) == process_start(os.getpid())
    finally:
        name.write_text(before)


def test_without_descriptors_a_process_is_seen_to_be_gone(call: Callable[..., int]) -> None:
    """And one that is there is not."""
    gone = os.fork()
    if gone == 0:
        os._exit(0)
    os.waitpid(gone, 0)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        told = call("gone", gone), call("gone", os.getpid()), call("begun", os.getpid())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert told == (1, 0, -1)


def test_no_descriptor_is_kept(call: Callable[..., int]) -> None:
    before = sorted(Path("/proc/self/fd").iterdir())
    for function in ("gone", "begun"):
        call(function, os.getpid())
    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_no_signals_without_a_python_thread(call: Callable[..., int]) -> None:
    words = (ctypes.c_int64 * c.CONTEXT_WORDS)()
    assert call("pending", ctypes.addressof(words)) == 0


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 127, 128, 200, 2047, 2048, 2049, 4096, 5000])
@pytest.mark.parametrize("offset", [0, 1, 8, 32, 63])
@pytest.mark.parametrize("name", ["copied", "streamed"])
def test_copies(call: Callable[..., int], name: str, offset: int, length: int) -> None:
    """Not a byte before or behind is touched, wherever in a line target and source begin."""
    source = np.random.default_rng(length).integers(0, 255, 5200, np.uint8)
    target = np.full(5200, 255, np.uint8)
    call(name, target.ctypes.data + offset, source.ctypes.data + 7, length)
    expected = np.full(5200, 255, np.uint8)
    expected[offset : offset + length] = source[7 : 7 + length]
    np.testing.assert_array_equal(target, expected)


def test_kernels_are_called_by_address(compiled: Callable[..., int]) -> None:
    """With all six arguments in their places, in both forms."""
    got: list[tuple[int, ...]] = []

    def kernel(*words: int) -> int:
        got.append(words)
        return 0

    native = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 6)(kernel)
    address = ctypes.cast(native, ctypes.c_void_p).value
    assert address is not None
    compiled("kernel_called", address, 11, 22, 33)
    from shmcoll.engine import atomics

    atomics.python_kernels[address] = kernel
    in_python("kernel_called", address, 11, 22, 33)
    del atomics.python_kernels[address]
    assert got == [(0, 11, 0, 22, 33, 1)] * 2


def test_a_c_function_is_called_by_its_address(call: Callable[..., int]) -> None:
    memory = ctypes.create_string_buffer(4)
    address = ctypes.cast(LIBC.memset, ctypes.c_void_p).value
    assert call("called", address, ctypes.addressof(memory), ord("x"), 3) == ctypes.addressof(memory)
    assert memory.raw == b"xxx\0"


@pytest.mark.parametrize(("value", "wanted", "expected"), [(4, 5, 0), (5, 5, 1), (6, 5, 1), (-1, 0, 0), (0, -1, 1)])
def test_reached(call: Callable[..., int], value: int, wanted: int, expected: int) -> None:
    assert call("has_reached", value, wanted) == expected


def test_reached_wraps_around_when_compiled(compiled: Callable[..., int]) -> None:
    assert compiled("has_reached", -(2**63), 2**63 - 1) == 1
    assert compiled("has_reached", 2**63 - 1, -(2**63)) == 0


@pytest.mark.parametrize("name", ["multiplied", "mixed"])
def test_hashes_agree(compiled: Callable[..., int], name: str, seed: int) -> None:
    chance = np.random.default_rng(seed)
    words = [*EDGES, *chance.integers(-(2**63), 2**63, 50, dtype=np.int64).tolist()]
    for a, b in zip(words, reversed(words), strict=True):
        assert ctypes.c_int64(in_python(name, a, b)).value == compiled(name, a, b)


# --- litmus: two threads of machine code, the GIL released ------------------------------------------------------------


def at_once(*calls: Callable[[], int]) -> list[int]:
    results = [0] * len(calls)
    ready = threading.Barrier(len(calls))

    def run(i: int) -> None:
        ready.wait()
        results[i] = calls[i]()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_message_passing(compiled: Callable[..., int]) -> None:
    """The reader polls, so it would never end if the compiler took its load out of the loop."""
    words = np.zeros(64, np.int64)
    data, flag = words.ctypes.data, words.ctypes.data + 256
    _, stale = at_once(
        lambda: compiled("write_messages", data, flag, 1_000_000),
        lambda: compiled("read_messages", data, flag, 1_000_000),
    )
    assert stale == 0


def test_a_fence_keeps_a_store_before_a_look(compiled: Callable[..., int]) -> None:
    """Of two ranks that each store and then look, at least one sees the other's: what parking relies on."""
    count = 30_000
    words = np.zeros((6, count), np.int64)
    x, y, seen_x, seen_y, round_x, round_y = (row.ctypes.data for row in words)
    at_once(
        lambda: compiled("store_then_look", x, y, seen_y, round_x, round_y, count),
        lambda: compiled("store_then_look", y, x, seen_x, round_y, round_x, count),
    )
    assert not ((words[2] == 0) & (words[3] == 0)).any()
