"""What the tests of the doors share."""

from collections.abc import Callable
from typing import Any

import pytest


def _told(call: Callable[[], Any]) -> str:
    try:
        value = call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return f"nothing wrong: {value!r}"


@pytest.fixture
def told() -> Callable[[Callable[[], Any]], str]:
    """`told(call)`: how the call is refused, "TypeError: ..."."""
    return _told
