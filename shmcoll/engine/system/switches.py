"""Environment variables that turn something on or off."""

import os

_OFF = ("", "0", "false", "no", "off")


def is_on(name: str) -> bool:
    """Return whether a variable turns its feature on."""
    return os.environ.get(name, "").lower() not in _OFF
