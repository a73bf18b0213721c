"""Exceptions of signal handlers are told from those of the code that they interrupt."""

import functools
import signal
import threading
import time
from types import FrameType

import pytest

from shmcoll.engine.compiler.deferral import deferred_signals
from shmcoll.engine.system.handlers import ignored, is_of_handler


def fail(text: str) -> None:
    raise TimeoutError(text)


def plain(number: int, frame: FrameType | None) -> None:
    fail("handler")


def once(*_: object) -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    fail("handler")


class Callable:
    def __call__(self, number: int, frame: FrameType | None, *, more: int = 0) -> None:
        fail("handler")

    def method(self, *given: object, **_: object) -> None:
        fail("handler")


HANDLERS = [plain, once, lambda *_: fail("handler"), Callable(), Callable().method, functools.partial(plain)]


@pytest.fixture
def install():
    before = signal.getsignal(signal.SIGUSR1)
    yield lambda handler: signal.signal(signal.SIGUSR1, handler)
    signal.signal(signal.SIGUSR1, before)


def users_code() -> None:
    list(map(signal.raise_signal, [signal.SIGUSR1]))


@pytest.mark.parametrize("handler", HANDLERS)
def test_what_a_handler_raises_is_known_and_not_ignored(install, handler):
    install(handler)
    with pytest.raises(TimeoutError, match="handler") as told, ignored(OSError):
        users_code()
    assert is_of_handler(told.value)
    install(handler)
    with pytest.raises(TimeoutError, match="handler") as told, ignored(OSError):
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        time.sleep(1)  # in C
    assert is_of_handler(told.value)
    install(handler)
    with pytest.raises(TimeoutError, match="handler") as told, ignored(OSError), deferred_signals():
        users_code()
    assert is_of_handler(told.value)


def test_what_the_code_raises_is_not_taken_for_a_handlers(install):
    install(plain)
    with ignored(OSError):
        fail("the code")
    with ignored(OSError):
        open("/nothing")  # noqa: SIM115
    with pytest.raises(ValueError, match="other"), ignored(OSError):
        raise ValueError("other")

    def generator(argument: None = None):
        yield
        fail("the code")

    with pytest.raises(TimeoutError) as told:
        list(generator())
    assert not is_of_handler(told.value)
