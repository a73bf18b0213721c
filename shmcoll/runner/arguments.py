"""The arguments of `shmcoll.run`, `map` and `ranks`: checked before anything is started."""

import functools
import inspect
import operator
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from shmcoll.engine.layout import CELL_BYTES, most_ranks
from shmcoll.engine.system.text import shown
from shmcoll.errors import CallNotAllowed

Named = TypeVar("Named", bound=Callable[..., Any])

_METHODS = ("fork", "spawn")
_REACTIONS = ("stop", "continue")

#: what arguments are called in multiprocessing, concurrent.futures, joblib, torch and others
_OTHER_NAMES = {
    "ranks": (
        "n_jobs", "jobs", "n_workers", "num_workers", "max_workers", "workers", "processes", "n_processes",
        "num_processes", "nprocesses", "procs", "n_procs", "num_procs", "nproc", "num_proc", "nprocs", "np", "n",
        "n_ranks", "num_ranks", "nranks", "ranks", "size", "world_size", "nproc_per_node",
        "n_cores", "cores", "n_threads",
    ),
    "function": ("func", "function", "f", "target", "fun"),
    "items": ("iterable", "iterables", "seq", "sequence", "data", "inputs"),
    "method": ("start_method", "context", "mp_context", "backend"),
    "timeout": ("time_out", "timeout_s", "time_limit"),
    "chunk": ("chunksize", "chunk_size", "batch_size", "batch"),
    "progress": ("verbose", "progress_bar", "show_progress", "tqdm", "pbar"),
    "errors": ("return_exceptions", "error_callback"),
    "arguments": ("args", "kwargs", "args_list"),
}  # fmt: skip


def check_function(of: str, fn: Any, second: Any = None) -> None:
    """Refuse an object that is not a function. second: the next argument, with which it may have been exchanged."""
    if not callable(fn):
        hint = ""
        if callable(second):
            hint = f"; did you mean {of}({name_of(second)}, {shown(fn)})?"
        elif fn is None:
            hint = "; pass the function itself, and not what a call of it returns"
        raise TypeError(f"fn must be callable, got {shown(fn)} of type {type(fn).__name__}{hint}")


def refuse_twice(run: Named) -> Named:
    """Return `shmcoll.run` with words for a number of ranks that is passed by position and by name."""

    @functools.wraps(run)
    def checked(*args: Any, **keywords: Any) -> Any:
        if len(args) > 1 and "nprocs" in keywords:
            call = ", ".join([name_of(args[0]), shown(keywords["nprocs"]), *map(shown, args[1:])])
            raise TypeError(
                f"shmcoll.run got nprocs={shown(keywords['nprocs'])} and {shown(args[1])} in its place, the second; "
                f"the arguments of the function come after the number of ranks: shmcoll.run({call})"
            )
        return run(*args, **keywords)

    return cast(Named, checked)


def check_names(of: str, others: Iterable[str], names: dict[str, str]) -> None:
    """Refuse keyword arguments that `of` does not have. names: what its own arguments are called, by what they are
    for."""
    for other in others:
        meant = next((names[kind] for kind, known in _OTHER_NAMES.items() if other in known and kind in names), None)
        hint = f"; did you mean {meant}=?" if meant else ""
        raise TypeError(f"{of}() got an unexpected keyword argument {other!r}{hint}")


def check_keywords(of: str, fn: Callable[..., Any], keywords: Iterable[str], names: dict[str, str]) -> None:
    """Refuse keyword arguments that the function does not take, if they are what arguments of `of` are called in other
    libraries."""
    known = {one for kind, others in _OTHER_NAMES.items() if kind in names for one in others}
    if not (meant := [name for name in keywords if name in known]):
        return
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature
        return
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        check_names(of, [name for name in meant if name not in {p.name for p in parameters}], names)


def positive(value: Any, name: str, hint: str = "") -> int:
    """Return the argument `name` as an integer from 1 on. hint: for an object that is not an integer."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise TypeError(f"{name} must be an int, got {shown(value)} of type {type(value).__name__}{hint}")
    if number < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return number


def number_of_ranks(n: Any, name: str, hint: str = "") -> int:
    """Return the argument `name` as a number of ranks. hint: as for `positive`."""
    number = positive(n, name, hint)
    if number > (most := most_ranks(CELL_BYTES)):
        raise ValueError(f"{name} must be at most {most}, got {n}")
    return number


def check_timeout(timeout: Any) -> None:
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout must be a number of seconds or None, got {shown(timeout)}")
    if not 0 < timeout <= 1e9:
        raise ValueError(f"timeout must be a positive number of seconds, got {timeout!r}")


def check_method(method: Any) -> None:
    if not isinstance(method, str) or method not in _METHODS:
        raise ValueError(f"method must be 'fork' or 'spawn', got {shown(method)}")


def check_reaction(on_failure: Any) -> None:
    if not isinstance(on_failure, str) or on_failure not in _REACTIONS:
        raise ValueError(f"on_failure must be 'stop' or 'continue', got {shown(on_failure)}")


def check_clear(of: str, fn: Callable[..., Any], args: tuple[Any, ...], options: dict[str, tuple[Any, Any]]) -> None:
    """Refuse an option that may be meant for the function. options: the value and the default of each.

    An option is unclear if the function has a parameter of the same name to which no other argument gives a value.
    """
    given = [name for name, (value, default) in options.items() if value is not default and value != default]
    if not given:
        return
    try:
        signature = inspect.signature(fn)
        free = set(signature.parameters) - set(signature.bind_partial(*args).arguments)
    except (TypeError, ValueError):  # a builtin without a signature, or arguments that its call will refuse
        return
    free -= set(getattr(fn, "keywords", None) or ())  # the parameters that a functools.partial has bound
    for name in given:
        parameter = signature.parameters.get(name)
        if (
            name in free
            and parameter is not None
            and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        ):
            raise TypeError(
                f"{name}={options[name][0]!r} is unclear: {of} and the function {name_of(fn)} both have a parameter "
                f"{name}. For the function, bind it: functools.partial(fn, {name}=...). For {of}, bind the function's "
                f"as well, or give it by position."
            )


def refuse_ranks(of: str) -> None:
    """Refuse to start ranks from a rank: they would use its peers' cores, and its environment would make them its
    peers."""
    job = sys.modules.get("shmcoll.startup.join")
    pid, comm = getattr(job, "_joined", None) or (0, None)
    joined = comm is not None and pid == os.getpid() and comm.launcher != "none"
    if joined or os.environ.get("SHMCOLL_ARENA"):
        rank = comm.rank if comm is not None and joined else os.environ.get("RANK", "?")
        raise CallNotAllowed(
            f"{of} was called by rank {rank} of a job; call it from a process that is not a rank, "
            f"or start all the ranks that you need at once"
        )


def name_of(fn: Any) -> str:
    """Return the name of a function as the user writes it."""
    return getattr(fn, "__qualname__", None) or repr(fn)
