"""Settings that scripts make before they start. None of them changes what a collective does.

Any `device_target` is accepted; as in MindSpore it decides the name of the world group (see `communication.init`).
"""

from typing import Any

GRAPH_MODE = 0
PYNATIVE_MODE = 1

_settings: dict[str, Any] = {"mode": PYNATIVE_MODE, "device_target": "Ascend"}


def set_context(**settings: Any) -> None:
    """Keep settings by name. Raises `ValueError` for a `mode` that is neither GRAPH_MODE nor PYNATIVE_MODE."""
    mode = settings.get("mode", PYNATIVE_MODE)
    if mode not in (GRAPH_MODE, PYNATIVE_MODE):
        raise ValueError(f"For 'set_context', the argument 'mode' should be GRAPH_MODE or PYNATIVE_MODE, got {mode!r}.")
    _settings.update(settings)


def get_context(attr_key: str) -> Any:
    """A setting made before. Raises `ValueError` for one that was not."""
    if attr_key not in _settings:
        raise ValueError(f"For 'get_context', {attr_key!r} has not been set; set are {sorted(_settings)}.")
    return _settings[attr_key]
