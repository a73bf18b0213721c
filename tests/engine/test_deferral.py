"""Work without signal handlers in the middle of it: none runs during the work, none is lost, all are as before."""

import contextlib
import ctypes
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from shmcoll.engine.compiler import deferral
from shmcoll.engine.compiler.deferral import deferred_signals
from tests.support.instants import interrupted_at


@pytest.fixture
def told() -> Iterator[list[int]]:
    """The signals whose handlers have run; SIGUSR1 and SIGUSR2 have one."""
    found: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT)}
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda number, _: found.append(number))
    yield found
    for number, handler in before.items():
        signal.signal(number, handler)


def test_handlers_run_once_and_after_the_work(told):
    with deferred_signals():
        for number in (signal.SIGUSR2, signal.SIGUSR1, signal.SIGUSR1):
            signal.raise_signal(number)
        assert told == []
    assert sorted(told) == [signal.SIGUSR1, signal.SIGUSR2]
    signal.raise_signal(signal.SIGUSR1)
    assert len(told) == 3


def test_an_interrupt_is_raised_after_the_work_and_other_handlers_still_run(told):
    done = []
    with pytest.raises(KeyboardInterrupt), deferred_signals():
        for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
            signal.raise_signal(number)
        done.append(1)
    assert done == [1]
    assert sorted(told) == [signal.SIGUSR1, signal.SIGUSR2]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_of_the_work_is_the_context_of_an_interrupt():
    with pytest.raises(KeyboardInterrupt) as raised, deferred_signals():
        signal.raise_signal(signal.SIGINT)
        raise ValueError("bad")
    assert isinstance(raised.value.__context__, ValueError)
    with pytest.raises(ValueError, match="bad"), deferred_signals():
        raise ValueError("bad")


def test_a_signal_that_another_thread_takes(told):
    """The handler runs in the main thread all the same; blocking the signal there would not defer it."""

    def take() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    with deferred_signals():
        thread = threading.Thread(target=take)
        thread.start()
        thread.join()
        time.sleep(0)
        assert told == []
    assert told == [signal.SIGUSR1]


def test_nested(told):
    with deferred_signals():
        with deferred_signals():
            signal.raise_signal(signal.SIGUSR1)
        assert told == []
        signal.raise_signal(signal.SIGUSR2)
    assert sorted(told) == [signal.SIGUSR1, signal.SIGUSR2]


def test_in_another_thread_nothing_changes(told):
    found = []

    def work() -> None:
        before = signal.getsignal(signal.SIGUSR1)
        with deferred_signals():
            found.append(signal.getsignal(signal.SIGUSR1) is before)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [True]
    signal.raise_signal(signal.SIGUSR1)
    assert told == [signal.SIGUSR1]


def test_a_handler_that_the_work_has_set_stays(told):
    def own(*_: object) -> None: ...

    with deferred_signals():
        signal.signal(signal.SIGUSR1, own)
    assert signal.getsignal(signal.SIGUSR1) is own


def action(number: int) -> bytes:
    """What the kernel does with a signal: a function of C code, its flags, its mask."""
    found = ctypes.create_string_buffer(256)
    assert deferral._LIBC.sigaction(number, None, found) == 0
    return found.raw[:16] + found.raw[136:140]  # of the 128 bytes of the mask the kernel uses 8


@pytest.mark.parametrize("foreign", [False, True], ids=["restarting", "function of C code"])
def test_what_the_kernel_calls_stays(told, foreign):
    called = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_int)(called.append)
    if foreign:
        libc = ctypes.CDLL(None)
        libc.signal(signal.SIGUSR1, function)
    else:
        signal.siginterrupt(signal.SIGUSR1, False)
    before = action(signal.SIGUSR1)
    with deferred_signals():
        assert action(signal.SIGUSR1) == before
        if foreign:
            signal.raise_signal(signal.SIGUSR1)
    assert action(signal.SIGUSR1) == before
    assert called == ([signal.SIGUSR1] if foreign else [])
    assert told == []


def test_ignored_and_default_ones_stay(told):
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGUSR2, signal.SIG_DFL)
    with deferred_signals():
        os.kill(os.getpid(), signal.SIGUSR1)
        assert signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN


def test_an_interrupt_at_every_instant_is_raised_and_handlers_are_in_force_afterwards(told):
    """Before every bytecode of `deferral.py` and of the work: whatever has been exchanged by then, nothing is lost."""

    def work() -> None:
        with deferred_signals():
            signal.raise_signal(signal.SIGUSR1)

    def counts(file: str) -> bool:
        return file in (deferral.__file__, __file__)

    instants = interrupted_at(0, work, counts)
    assert instants > 300
    for k in range(1, instants):
        with pytest.raises(KeyboardInterrupt):
            interrupted_at(k, work, counts)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        told.clear()
        signal.raise_signal(signal.SIGUSR2)
        assert told == [signal.SIGUSR2], k
    with contextlib.suppress(KeyboardInterrupt):
        interrupted_at(instants, work, counts)
