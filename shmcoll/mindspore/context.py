"""Settings that scripts make before they start. None of them changes what a collective does.

As in MindSpore, names and device targets that it does not know are refused, and the `device_target` decides the name of
the world group (see `communication.init`). Its other values are kept as they are. `settings` has the names.
"""

import os
from typing import Any

from shmcoll.mindspore import settings

GRAPH_MODE = 0
PYNATIVE_MODE = 1
STRICT, COMPATIBLE, LAX = 0, 1, 2
TARGETS = ("CPU", "GPU", "Ascend", "Davinci")
DEVICES = 4096


class ParallelMode:
    """How MindSpore would distribute a network. It has no effect here."""

    STAND_ALONE = settings.STAND_ALONE
    DATA_PARALLEL = "data_parallel"
    HYBRID_PARALLEL = "hybrid_parallel"
    SEMI_AUTO_PARALLEL = "semi_auto_parallel"
    AUTO_PARALLEL = "auto_parallel"
    MODE_LIST = [STAND_ALONE, DATA_PARALLEL, HYBRID_PARALLEL, SEMI_AUTO_PARALLEL, AUTO_PARALLEL]  # noqa: RUF012


_settings = dict(settings.OF_CONTEXT)
_parallel = dict(settings.OF_PARALLEL)
_servers = dict(settings.OF_SERVERS)


def set_context(**kwargs: Any) -> None:
    """Keep settings by name.

    Args:
        kwargs: names that MindSpore knows; here only `device_target` and `mode` have a meaning.

    Raises:
        TypeError: `mode` or `device_id` is not an integer, or `device_target` not a string.
        ValueError: MindSpore does not know the name, or the value of one of these three.
    """
    for name, kind in (("mode", int), ("device_target", str), ("device_id", int)):
        if name in kwargs and not isinstance(kwargs[name], kind):
            raise TypeError(f"The parameter '{name}' must be {kind}, but got {type(kwargs[name])}")
    for name, value in kwargs.items():
        if name == "mode" and value not in (GRAPH_MODE, PYNATIVE_MODE):
            raise ValueError(
                "For 'context.set_context', the argument 'mode' should be context.GRAPH_MODE (0) or "
                f"context.PYNATIVE_MODE (1), but got {value}."
            )
        if name == "device_target" and value not in TARGETS:
            raise ValueError(
                f"For 'context.set_context', the argument 'device_target' must be one of {list(TARGETS)}, "
                f"but got {value}."
            )
        if name == "device_id" and not 0 <= value < DEVICES:
            raise ValueError(
                f"For 'context.set_context', the argument 'device_id' must be in range [0, {DEVICES - 1}], "
                f"but got {value}."
            )
        if name in settings.IN_ASCEND_CONFIG:
            raise ValueError(f"Please set '{name}' through parameter ascend_config")
        if name not in settings.OF_CONTEXT and name not in settings.FORMER:
            raise ValueError(
                f"For 'context.set_context', the keyword argument {name} is not recognized! For detailed "
                "usage of 'set_context', please refer to the Mindspore official website."
            )
    _settings.update({name: value for name, value in kwargs.items() if name not in settings.FORMER})
    if kwargs.get("device_target") == "Davinci":
        _settings["device_target"] = "Ascend"


def get_context(attr_key: str) -> Any:
    """Return a setting.

    Args:
        attr_key: its name.

    Raises:
        ValueError: MindSpore does not know the name.
    """
    if attr_key not in _settings:
        raise ValueError(
            f"For 'context.get_context', the argument {attr_key} is not recognized! For detailed "
            "usage of 'get_context', please refer to the Mindspore official website."
        )
    return _settings[attr_key]


def set_device(device_target: str, device_id: int | None = None) -> None:
    """Keep the device target and the number of a device, as `set_context` does.

    Args:
        device_target: "CPU", "GPU" or "Ascend".
        device_id: an integer of at least 0; None leaves it as it is.

    Raises:
        TypeError: `device_target` is not a string, or `device_id` is not an integer.
        ValueError: the value of one of them.
    """
    if not isinstance(device_target, str):
        raise TypeError(f"The parameter 'device_target' must be {str}, but got {type(device_target)}")
    known = [*TARGETS[:3]]  # "Davinci" is not
    if device_target not in known:
        raise ValueError(f"The argument 'device_target' must be one of {known}, but got {device_target}.")
    set_context(device_target=device_target, **({} if device_id is None else {"device_id": device_id}))


def set_auto_parallel_context(**kwargs: Any) -> None:
    """Keep settings of MindSpore's automatic parallelism by name. They have no effect.

    Args:
        kwargs: names that MindSpore knows.

    Raises:
        ValueError: MindSpore does not know the name, or the `parallel_mode`.
    """
    for name, value in kwargs.items():
        if name not in settings.OF_PARALLEL or name in settings.ONLY_READ:
            raise ValueError(f"Set context keyword {name} is not recognized!")
        if name == "parallel_mode" and value not in ParallelMode.MODE_LIST:
            raise ValueError(
                "The context configuration parameter 'parallel_mode' only support 'stand_alone', 'data_parallel', "
                f"'hybrid_parallel', 'semi_auto_parallel' and 'auto_parallel', but got the value : {value}."
            )
    _parallel.update(kwargs)


def get_auto_parallel_context(attr_key: str) -> Any:
    """Return a setting of `set_auto_parallel_context`.

    Args:
        attr_key: its name. `device_num` and `global_rank` are RANK_SIZE and RANK_ID if not set.

    Raises:
        ValueError: MindSpore does not know the name.
    """
    if attr_key not in _parallel or attr_key in settings.ONLY_SET:
        raise ValueError(f"Get context keyword {attr_key} is not recognized!")
    value = _parallel[attr_key]
    if value is None:
        return int(os.environ.get("RANK_SIZE", "1") if attr_key == "device_num" else os.environ.get("RANK_ID", "0"))
    return value


def reset_auto_parallel_context() -> None:
    """Forget the settings of `set_auto_parallel_context`."""
    _parallel.update(settings.OF_PARALLEL)


def set_ps_context(**kwargs: Any) -> None:
    """Keep settings of MindSpore's parameter servers by name. They have no effect: no rank becomes a server.

    Args:
        kwargs: names that MindSpore knows.

    Raises:
        ValueError: MindSpore does not know the name.
    """
    for name in kwargs:
        if name not in settings.OF_SERVERS:
            raise ValueError(f"Set PS context keyword {name} is not recognized!")
    _servers.update(kwargs)


def get_ps_context(attr_key: str) -> Any:
    """Return a setting of `set_ps_context`.

    Args:
        attr_key: its name.

    Raises:
        ValueError: MindSpore does not know the name.
    """
    if attr_key not in _servers or attr_key in settings.ONLY_SET:
        raise ValueError(f"Get PS context keyword {attr_key} is not recognized!")
    return _servers[attr_key]


def reset_ps_context() -> None:
    """Forget the settings of `set_ps_context`."""
    _servers.update(settings.OF_SERVERS)


__all__ = [
    "COMPATIBLE",
    "GRAPH_MODE",
    "LAX",
    "PYNATIVE_MODE",
    "STRICT",
    "ParallelMode",
    "get_auto_parallel_context",
    "get_context",
    "get_ps_context",
    "reset_auto_parallel_context",
    "reset_ps_context",
    "set_auto_parallel_context",
    "set_context",
    "set_ps_context",
]
