"""Settings that scripts make before they start. None of them changes what a collective does.

Any `device_target` is accepted; as in MindSpore it decides the name of the world group (see `communication.init`).
"""

from typing import Any

GRAPH_MODE = 0
PYNATIVE_MODE = 1

_settings: dict[str, Any] = {"mode": PYNATIVE_MODE, "device_target": "Ascend"}


def set_context(**settings: Any) -> None:
    """Keep settings by name.

    Args:
        settings: any names; `device_target` and `mode` have a meaning in MindSpore.

    Raises:
        ValueError: `mode` is neither GRAPH_MODE nor PYNATIVE_MODE.
    """
    mode = settings.get("mode", PYNATIVE_MODE)
    if mode not in (GRAPH_MODE, PYNATIVE_MODE):
        raise ValueError(f"For 'set_context', the argument 'mode' should be GRAPH_MODE or PYNATIVE_MODE, got {mode!r}.")
    _settings.update(settings)


def get_context(attr_key: str) -> Any:
    """Return a setting.

    Args:
        attr_key: its name.

    Raises:
        ValueError: it has not been set.
    """
    if attr_key not in _settings:
        raise ValueError(f"For 'get_context', {attr_key!r} has not been set; set are {sorted(_settings)}.")
    return _settings[attr_key]
