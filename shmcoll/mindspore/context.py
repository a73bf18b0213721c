"""Settings that scripts make before they start. None of them changes what a collective does.

As in MindSpore, names and device targets that it does not know are refused, and the `device_target` decides the name of
the world group (see `communication.init`). Its other values are kept as they are.
"""

import os
from typing import Any

GRAPH_MODE = 0
PYNATIVE_MODE = 1
STRICT, COMPATIBLE, LAX = 0, 1, 2
TARGETS = ("CPU", "GPU", "Ascend", "Davinci")
DEVICES = 4096


class ParallelMode:
    """How MindSpore would distribute a network. It has no effect here."""

    STAND_ALONE = "stand_alone"
    DATA_PARALLEL = "data_parallel"
    HYBRID_PARALLEL = "hybrid_parallel"
    SEMI_AUTO_PARALLEL = "semi_auto_parallel"
    AUTO_PARALLEL = "auto_parallel"


_DEFAULTS: dict[str, Any] = {
    "mode": PYNATIVE_MODE, "device_target": "Ascend", "device_id": 0, "aoe_config": {}, "aoe_tune_mode": "",
    "ascend_config": {}, "check_bprop": False, "compile_cache_path": "", "debug_level": 0, "deterministic": "OFF",
    "disable_format_transform": False, "enable_auto_mixed_precision": False, "enable_compile_cache": None,
    "enable_graph_kernel": False, "enable_reduce_precision": True, "env_config_path": "", "gpu_config": {},
    "graph_kernel_flags": "", "inter_op_parallel_num": 0, "jit_config": {}, "jit_enable_inplace_ops": False,
    "jit_syntax_level": LAX, "load_compile_cache": False, "max_call_depth": 1000, "max_device_memory": "1024GB",
    "memory_offload": "OFF", "memory_optimize_level": "O0", "mempool_block_size": "1GB", "op_timeout": 900,
    "print_file_path": "", "pynative_synchronize": False, "reserve_class_name_in_scope": True,
    "runtime_num_threads": 2, "save_compile_cache": False, "save_graphs": False, "save_graphs_path": ".",
    "variable_memory_max_size": "0GB",
}  # fmt: skip
_PARALLEL_DEFAULTS: dict[str, Any] = {
    "all_reduce_fusion_config": [], "auto_parallel_search_mode": "recursive_programming", "comm_fusion": {},
    "dataset_strategy": "data_parallel", "device_num": None, "enable_alltoall": False,
    "enable_parallel_optimizer": False, "force_fp32_communication": False, "full_batch": False, "global_rank": None,
    "grad_accumulation_step": 1, "gradient_fp32_sync": True, "gradients_mean": False, "loss_repeated_mean": True,
    "parallel_mode": ParallelMode.STAND_ALONE, "parallel_optimizer_config": {}, "parameter_broadcast": False,
    "pipeline_config": {}, "pipeline_result_broadcast": False, "pipeline_segments": 1, "pipeline_stages": 1,
    "search_mode": "recursive_programming", "strategy_ckpt_config": {}, "strategy_ckpt_load_file": "",
    "strategy_ckpt_save_file": "",
}  # fmt: skip
_MODES = tuple(value for name, value in vars(ParallelMode).items() if name.isupper())

_settings = dict(_DEFAULTS)
_parallel = dict(_PARALLEL_DEFAULTS)


def set_context(**settings: Any) -> None:
    """Keep settings by name.

    Args:
        settings: names that MindSpore knows; here only `device_target` and `mode` have a meaning.

    Raises:
        TypeError: `mode` or `device_id` is not an integer, or `device_target` not a string.
        ValueError: MindSpore does not know the name, or the value of one of these three.
    """
    for name, kind in (("mode", int), ("device_target", str), ("device_id", int)):
        if name in settings and not isinstance(settings[name], kind):
            raise TypeError(f"The parameter '{name}' must be {kind}, but got {type(settings[name])}")
    for name, value in settings.items():
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
        if name not in _DEFAULTS:
            raise ValueError(
                f"For 'context.set_context', the keyword argument {name} is not recognized! For detailed "
                "usage of 'set_context', please refer to the Mindspore official website."
            )
    _settings.update(settings)
    if settings.get("device_target") == "Davinci":
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


def set_auto_parallel_context(**settings: Any) -> None:
    """Keep settings of MindSpore's automatic parallelism by name. They have no effect.

    Args:
        settings: names that MindSpore knows.

    Raises:
        ValueError: MindSpore does not know the name, or the `parallel_mode`.
    """
    for name, value in settings.items():
        if name not in _PARALLEL_DEFAULTS:
            raise ValueError(f"Set context keyword {name} is not recognized!")
        if name == "parallel_mode" and value not in _MODES:
            raise ValueError(
                "The context configuration parameter 'parallel_mode' only support 'stand_alone', 'data_parallel', "
                f"'hybrid_parallel', 'semi_auto_parallel' and 'auto_parallel', but got the value : {value}."
            )
    _parallel.update(settings)


def get_auto_parallel_context(attr_key: str) -> Any:
    """Return a setting of `set_auto_parallel_context`.

    Args:
        attr_key: its name. `device_num` and `global_rank` are RANK_SIZE and RANK_ID if not set.

    Raises:
        ValueError: MindSpore does not know the name.
    """
    if attr_key not in _parallel:
        raise ValueError(f"Get context keyword {attr_key} is not recognized!")
    value = _parallel[attr_key]
    if value is None:
        return int(os.environ.get("RANK_SIZE", "1") if attr_key == "device_num" else os.environ.get("RANK_ID", "0"))
    return value


def reset_auto_parallel_context() -> None:
    """Forget the settings of `set_auto_parallel_context`."""
    _parallel.update(_PARALLEL_DEFAULTS)


__all__ = [
    "COMPATIBLE",
    "GRAPH_MODE",
    "LAX",
    "PYNATIVE_MODE",
    "STRICT",
    "ParallelMode",
    "get_auto_parallel_context",
    "get_context",
    "reset_auto_parallel_context",
    "set_auto_parallel_context",
    "set_context",
]
