"""A program: prints which public names, parameters and settings of an installed MindSpore differ from ours.

    python tests/mindspore/names.py

The page about MindSpore has a row for each line, with the reason.
"""

import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import mindspore
from mindspore._c_expression import ms_ctx_param
from mindspore.parallel import _auto_parallel_context, _ps_context

import shmcoll.mindspore
from shmcoll.mindspore import settings

#: modules that are whole here
WHOLE = (
    "communication",
    "communication.management",
    "communication.comm_func",
    "mint.distributed",
    "mint.distributed.distributed",
    "ops.communication",
    "ops.operations.comm_ops",
    "context",
)
#: modules of which a part is here: what a program around collectives needs
PARTS = (
    "",
    "_c_expression",
    "common",
    "common.api",
    "common.dtype",
    "common.initializer",
    "common.parameter",
    "common.tensor",
    "log",
    "mint",
    "nn",
    "ops",
    "ops.operations",
    "ops.operations._inner_ops",
)
VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def public(module: ModuleType) -> dict[str, Any]:
    """The names of `__all__`, without modules; without `__all__` what is defined there."""
    listed = getattr(module, "__all__", None)
    found = {name: getattr(module, name, None) for name in listed or vars(module) if listed or name[0] != "_"}
    return {
        name: value
        for name, value in found.items()
        if not isinstance(value, ModuleType) and (listed or getattr(value, "__module__", "") == module.__name__)
    }


def parameters(call: Any) -> dict[str, inspect.Parameter]:
    """By name; nothing if it takes any number of them, or is not written in Python."""
    try:
        found = inspect.signature(inspect.unwrap(call)).parameters
    except (TypeError, ValueError):
        return {}
    return {} if any(one.kind in VARIABLE for one in found.values()) else dict(found)


def of_calls(name: str, ours: Any, theirs: Any) -> Iterator[str]:
    here, there = parameters(ours), parameters(theirs)
    if list(here) != list(there) and here and there:
        yield f"parameters of {name}: ({', '.join(here)}) for ({', '.join(there)})"
    for one in sorted(here.keys() & there.keys()):
        if str(here[one].default) != str(there[one].default):
            yield f"default of {name}, {one}: {here[one].default!r} for {there[one].default!r}"


def of_modules(path: str, whole: bool) -> Iterator[str]:
    name = f"mindspore.{path}".rstrip(".")
    ours, theirs = import_module(f"shmcoll.{name}"), import_module(name)
    here, there = public(ours), public(theirs)
    attributes = set()
    if whole:
        yield from (f"missing {name}.{one}" for one in sorted(there) if not hasattr(ours, one))
    for one in sorted(here):
        if not hasattr(theirs, one):
            yield f"extra {name}.{one}"
        elif callable(here[one]):
            yield from of_calls(f"{name}.{one}", here[one], getattr(theirs, one))
            if whole and inspect.isclass(here[one]):
                known = {way for way in dir(getattr(theirs, one)) if way[0] != "_"}
                attributes |= known - {*dir(here[one])}
    yield from (f"missing {name}.*.{way}" for way in sorted(attributes))


def answer(call: Any, *arguments: Any, **keywords: Any) -> str:
    """What a call returns or, in one word, raises."""
    try:
        return repr(call(*arguments, **keywords))
    except Exception as error:
        return type(error).__name__


def of_settings() -> Iterator[str]:
    """Read each setting, and set it to the value that it has. Both packages know some of all these names."""
    theirs = (
        *({*ms_ctx_param.__members__} | {*mindspore.context._context().setters}),
        *_auto_parallel_context._set_auto_parallel_context_func_map,
        *_auto_parallel_context._get_auto_parallel_context_func_map,
        *_ps_context._set_ps_context_func_map,
    )
    ours = settings.OF_CONTEXT | settings.OF_PARALLEL | settings.OF_SERVERS
    names = sorted({*settings.FORMER, *ours, *(name for name in theirs if name[0] != "_")})
    for kind in ("context", "auto_parallel_context", "ps_context"):
        for name in names:
            values = [answer(getattr(one, f"get_{kind}"), name) for one in (shmcoll.mindspore, mindspore)]
            if values[0] != values[1]:
                yield f"get_{kind}, {name}: {values[0]} for {values[1]}"
    for kind in ("context", "auto_parallel_context", "ps_context"):
        for name in names:
            given = {name: GIVEN.get(name, ours.get(name))}
            told = [answer(getattr(one, f"set_{kind}"), **given) for one in (shmcoll.mindspore, mindspore)]
            if told[0] != told[1]:
                yield f"set_{kind}, {given}: {told[0]} for {told[1]}"


#: values to set, where it is not the one that is read
GIVEN: dict[str, Any] = {
    "all_reduce_fusion_config": [1],
    "aoe_tune_mode": "online",
    "device_num": 1,
    "device_target": "CPU",
    "enable_compile_cache": False,
    "env_config_path": "config.json",
    "global_rank": 0,
    "max_device_memory": "1024GB",
    "memory_optimize_level": "O0",
    "mempool_block_size": "1GB",
    "ms_role": "MS_WORKER",
    "pipeline_config": {"pipeline_interleave": False, "pipeline_scheduler": "1f1b"},
    "server_mode": "PARAMETER_SERVER",
}

if __name__ == "__main__":
    for path in WHOLE:
        for line in of_modules(path, True):
            print(line)
    for path in PARTS:
        for line in of_modules(path, False):
            print(line)
    for line in of_settings():
        print(line)
