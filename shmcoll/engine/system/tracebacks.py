"""Tracebacks for users: they end at the user's line, and frames of this package are left out.

A function that users call is a border. It has an except clause around its work, which calls `shorten` and then raises
the exception again by a bare `raise`. CPython adds a frame to a traceback when an exception leaves the frame, but not
when it is raised again. So the frames below the border and that of the border itself are left out, wherever the
traceback is shown: by the interpreter, by pytest, in a notebook. An except clause costs nothing while nothing is
raised. `border` adds one to functions that take much longer than a Python call: it costs 0.1 to 0.2 us.

Frames of the user's code below ours, such as those of an operator, stay. An `InternalError` keeps all frames, and so
does any other exception that none of our `raise` statements has raised, unless the system or the user has: it shows a
bug of ours. SHMCOLL_FULL_TRACEBACKS=1 keeps all frames of all exceptions.
"""

import functools
import inspect
import opcode
import os
import sys
from collections.abc import Callable, Collection, Sequence
from itertools import zip_longest
from pathlib import Path
from types import FunctionType, TracebackType
from typing import Any, TypeVar, cast

import shmcoll
from shmcoll.engine.system.switches import is_on
from shmcoll.errors import InternalError, ShmcollError

_PACKAGE = str(Path(shmcoll.__file__).parent) + os.sep
_STANDARD = str(Path(os.__file__).parent) + os.sep
_FRAMEWORKS = {"torch", "numba", "mindspore", "numpy", "joblib", "cloudpickle", "shmrun", "ray"}
_FRAMEWORKS |= {"decorator.py", "typing_extensions.py", "wrapt"}  # torch deprecates functions by such wrappers
_FRAMEWORKS |= {"accelerate", "transformers", "lightning", "lightning_fabric", "pytorch_lightning", "torchmetrics"}
_GENERATED = ("<frozen ", "<decorator-gen", "<attrs generated", "<__array_function__")  # names that libraries give
_MARK = "_shortened_by_shmcoll"  # of an exception whose frames below another border are gone
_RAISE = opcode.opmap["RAISE_VARARGS"]
_SPECIAL = ("__call__", "__enter__", "__exit__")

Named = TypeVar("Named", bound=Callable[..., Any])


def is_ours(file: str) -> bool:
    """Return whether a file of source code belongs to this package."""
    return file.startswith(_PACKAGE)


def is_of_program(file: str) -> bool:
    """Return whether a file of source code is the program's."""
    if file.startswith((_PACKAGE, *_GENERATED)):
        return False
    _, packages, path = file.rpartition("-packages" + os.sep)
    if packages:
        return path.split(os.sep, 1)[0] not in _FRAMEWORKS
    return not file.startswith(_STANDARD)


def shorten(error: BaseException) -> None:
    """Leave our frames out of the tracebacks of an exception and of those that led to it."""
    if is_on("SHMCOLL_FULL_TRACEBACKS") or (_MARK not in error.__dict__ and _shows_bug(error)):
        return
    error.__dict__[_MARK] = True
    seen: set[int] = set()
    chain: list[BaseException | None] = [error]
    while chain:
        one = chain.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = _without_ours(one.__traceback__)
            chain += one.__cause__, one.__context__


class Border:
    """A class whose public methods are borders, and those of its subclasses."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        _around_methods(cls, _SPECIAL)


def forget(error: BaseException) -> None:
    """Remove the mark of an exception that is sent to another process."""
    error.__dict__.pop(_MARK, None)


def border(function: Named) -> Named:
    """Make a function a border, unless it is one."""
    if "shorten" in function.__code__.co_names or inspect.isgeneratorfunction(function):
        return function

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        try:
            return function(*args, **keywords)
        except BaseException as error:
            shorten(error)
            raise

    return cast(Named, call)


def borders(package: str, *, fast: Collection[str]) -> None:
    """Make borders of the functions, and of the methods of classes, that the loaded modules of a package export.

    fast: modules, below the package, whose calls are so short that a border would be felt. An exception from there that
    ends the program has no frame of ours, either; one that the program catches has a few.
    """
    modules = [module for name, module in sorted(sys.modules.items()) if f"{name}.".startswith(f"{package}.")]
    exported = {
        id(one): one
        for module in modules
        for name in getattr(module, "__all__", ())
        if (home := str(getattr(one := getattr(module, name, None), "__module__", ""))).startswith(package)
        and home.removeprefix(f"{package}.") not in fast
    }
    for one in exported.values():
        if isinstance(one, type):
            _around_methods(one, ("__init__",))
    made = {key: border(one) for key, one in exported.items() if isinstance(one, FunctionType)}
    for module in modules:
        for name, one in list(vars(module).items()):
            if id(one) in made:
                setattr(module, name, made[id(one)])


def _around_methods(cls: type, special: Sequence[str]) -> None:
    for name, method in list(vars(cls).items()):
        if isinstance(method, FunctionType) and (name in special or not name.startswith("_")):
            setattr(cls, name, border(method))


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without our frames, and without those of libraries between ours and the program's."""
    kept: list[TracebackType] = []
    below_ours = False
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        below_ours = is_ours(name) or (below_ours and not is_of_program(name))
        if not below_ours:
            kept.append(trace)
        trace = trace.tb_next
    for one, following in zip_longest(kept, kept[1:]):
        one.tb_next = following
    return kept[0] if kept else None


def _shows_bug(error: BaseException) -> bool:
    if isinstance(error, (ShmcollError, OSError, MemoryError)) or not isinstance(error, Exception):
        return isinstance(error, InternalError)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or not is_ours(trace.tb_frame.f_code.co_filename):
        return False
    code = trace.tb_frame.f_code
    is_wrong_signature = code.co_filename == __file__
    return not is_wrong_signature and code.co_code[trace.tb_lasti] != _RAISE
