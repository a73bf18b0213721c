"""How a call of `shmcoll.run` is pickled: with cloudpickle, and six extensions.

* An array in shared memory (`shared_memory.py`) is sent as a handle. Its descriptor goes with the call.
* Large buffers, such as those of arrays, can be left out of the pickle, for a way of their own (`packets.py`).
* Functions keep the name of their file, which cloudpickle 3.1.3 and later leave out. The source lines of functions that
  are in no file, such as those of a notebook's cell, go with the call. So a rank's traceback shows the lines.
* A communicator, or an object that depends on one, is refused with a text that says what to do.
* Functions and classes have a module and global variables in the rank (`namespaces.py`).
"""

import contextlib
import functools
import io
import linecache
import os
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np

from shmcoll.runner import repeated, shared_memory
from shmcoll.runner.namespaces import Globals, Namespaces
from shmcoll.runner.repeated import LARGE as LARGE  # bytes: such buffers may be left out of a pickle
from shmcoll.runner.shared_memory import Passed, Region

MOST_SHARED = 200  # arrays of one call; the kernel passes 253 descriptors at once

#: classes of objects that belong to the process that made them: module, name, and what to do instead
_LOCAL = (
    ("shmcoll.communicator.communicator", "Communicator", "a communicator"),
    ("shmcoll.communicator.grid", "Grid", "the grid of a communicator"),
    ("shmcoll.communicator.plans", "Plan", "the plan of a communicator"),
    ("shmcoll.runtime.work", "Work", "an asynchronous call of a communicator"),
)


class Unsendable(TypeError):
    """An object that belongs to one process was to be sent to another. The text says what to do."""


class Sending:
    """The objects that are sent with the pickles of one call of `function`.

    regions: the memory of shared arrays, in the order of their descriptors. sources: lines of files that ranks cannot
    read, by name. known: the globals that the ranks have already; None for ranks that do not stay.
    """

    def __init__(self, function: Any = None, known: Globals | None = None) -> None:
        self._module = _module_to_send(function)
        self.names = Namespaces(self._module, known)
        self.regions: list[Region | Passed] = []
        self.sources: dict[str, list[str]] = {}

    def dump(self, value: Any, file: Any, large: list[memoryview] | None = None) -> None:
        with _by_value(self._module):
            CallPickler(file, self, large).dump(value)

    def dumps(self, value: Any, large: list[memoryview] | None = None) -> bytes:
        with io.BytesIO() as file:
            self.dump(value, file, large)
            return file.getvalue()

    def begin(self) -> None:
        """Forget the memory and the sources of what has been sent."""
        self.regions, self.sources = [], {}

    def descriptors(self) -> list[int]:
        return [region.fd for region in self.regions]

    def index_of(self, region: Region | Passed) -> int:
        """Return the number of a descriptor among those of the call."""
        for index, one in enumerate(self.regions):
            if one is region:
                return index
        if len(self.regions) == MOST_SHARED:
            raise Unsendable(
                f"a call takes at most {MOST_SHARED} shared arrays; put several into one array and pass views of it"
            )
        self.regions.append(region)
        return len(self.regions) - 1

    def keep_source(self, code: CodeType, names: dict[str, Any]) -> None:
        """Send the lines of a function with the call, unless a rank can read its file."""
        name = code.co_filename
        is_unreadable = name not in self.sources and not os.path.exists(name)  # noqa: PTH110  # it may not be a path
        if is_unreadable and (lines := linecache.getlines(name, names)):
            self.sources[name] = lines


def pickled(value: Any, known: Globals) -> bytes:
    """Return the pickle of a value of a call's function."""
    return Sending(None, known).dumps(value)


class CallPickler(cloudpickle.Pickler):
    """The pickler described at the top of this file. For the way back `sending` is None, and shared arrays are pickled
    by value. large: receives the buffers that are left out of the pickle; None: all are in it."""

    def __init__(self, file: Any, sending: Sending | None, large: list[memoryview] | None = None):
        super().__init__(file, protocol=5, buffer_callback=None if large is None else functools.partial(_is_in, large))
        self._sending = sending
        self._local = tuple(_local_types())

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is np.ndarray:
            return self._array(obj)
        if type(obj) is CodeType:
            return code_of, (*self.dispatch_table[CodeType](obj), obj.co_filename)
        if type(obj) is Passed and self._sending is not None:
            return shared_memory.descriptor_of, (self._sending.index_of(obj),)
        for kind, name in self._local:
            if isinstance(obj, kind):
                raise Unsendable(f"it contains {name}, which belongs to the process that made it; {self._advice()}")
        reduced = super().reducer_override(obj)
        if reduced is NotImplemented or self._sending is None or not isinstance(obj, (FunctionType, type)):
            return reduced
        names = self._sending.names
        if isinstance(obj, FunctionType):
            self._sending.keep_source(obj.__code__, obj.__globals__)
            reduced = names.of_function(obj, reduced)
        return names.by_name(obj, reduced)

    def _array(self, array: np.ndarray) -> Any:
        region = shared_memory.region_of(array)
        if region is None and self._sending is not None:
            repeated.note(array)
        if region is None or array.size == 0 or self._sending is None:
            return NotImplemented
        index = self._sending.index_of(region)
        return shared_memory.array_of, (shared_memory.handle(array, region, index),)

    def _advice(self) -> str:
        if self._sending is None:
            return "return the numbers and arrays that the caller needs"
        return "call shmcoll.init() in the function: it returns the communicator of the rank that calls it"


def code_of(make: Callable[..., CodeType], arguments: tuple[Any, ...], filename: str) -> CodeType:
    """Return, in a rank, the code that cloudpickle makes of these arguments, with the name of its file."""
    return make(*arguments).replace(co_filename=filename)


def _is_in(large: list[memoryview], buffer: Any) -> bool:
    """Return whether a buffer is part of the pickle. Otherwise it is appended to `large`."""
    try:
        raw = buffer.raw()
    except BufferError:  # it is not contiguous
        return True
    if raw.nbytes < LARGE:
        return True
    large.append(raw)
    return False


def dump_result(value: Any, file: Any, large: list[memoryview] | None = None) -> None:
    """Pickle the result of a rank."""
    CallPickler(file, None, large).dump(value)


def show_sources(sources: dict[str, list[str]]) -> None:
    """Make these lines available for tracebacks, in a rank."""
    for name, lines in sources.items():
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)


def _local_types() -> Iterator[tuple[type, str]]:
    for module, name, words in _LOCAL:
        if module in sys.modules:
            yield getattr(sys.modules[module], name), words


def _module_to_send(function: Any) -> ModuleType | None:
    """Return the module of a function, if ranks cannot import it. Modules of tests, as pytest loads them, are such
    modules."""
    while isinstance(function, functools.partial):
        function = function.func
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if module is None or module.__name__ == "__main__" or _importable(module.__name__):
        return None
    return module


@contextlib.contextmanager
def _by_value(module: ModuleType | None) -> Iterator[None]:
    """Send the contents of this module with the call."""
    if module is None:
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _importable(name: str) -> bool:
    top = name.partition(".")[0]
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
    return any(finder.find_spec(top, None) for finder in finders)
