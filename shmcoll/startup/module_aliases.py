"""`import nki` gives `shmcoll.nki`, and `import mindspore` gives `shmcoll.mindspore` (`shmrun --nki`, `--mindspore`).

A finder at the head of `sys.meta_path` answers for the names of these packages and of what is in them. It gives the
very modules of shmcoll under another name, so that a class is the same by either path. A module that shmcoll does not
have is not found.

Where MindSpore is installed, `import mindspore` gives MindSpore, and `shmcoll.mindspore.installed` gives it our
communication. That is decided at its import.

A program may also put our package into `sys.modules` itself. The finder then answers for what is in the package.
"""

import importlib
import importlib.util
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

#: where one of these is installed, it keeps its name and has our communication
_KEPT = ("mindspore",)


def install(names: Iterable[str] = ()) -> None:
    """Give our packages of these names, or what is in those that are in `sys.modules`, to a program that imports
    others."""
    names = list(names)
    if "mpi" in names:
        names.remove("mpi")
        importlib.import_module("shmcoll.mpi")
    if names or not any(isinstance(one, _Finder) for one in sys.meta_path):
        sys.meta_path.insert(0, _Finder(names))


class _Finder(MetaPathFinder, Loader):
    """names: the packages that the program gets from us."""

    def __init__(self, names: list[str]):
        self._names = names
        self._specs: dict[str, ModuleSpec | None] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is None and self._keeps(fullname):
            return importlib.import_module(f"shmcoll.{fullname}.installed").install().find_spec(fullname)
        if not self._is_ours(fullname.partition(".")[0], is_package=path is None):
            return None
        try:
            found = importlib.util.find_spec(f"shmcoll.{fullname}")
        except ModuleNotFoundError:  # its parent is not a package
            return None
        return found and ModuleSpec(fullname, self, is_package=found.submodule_search_locations is not None)

    def _is_ours(self, package: str, *, is_package: bool) -> bool:
        if is_package:
            return package in self._names
        ours = sys.modules.get(f"shmcoll.{package}")
        return ours is not None and sys.modules.get(package) is ours

    def _keeps(self, package: str) -> bool:
        if package not in self._names or package not in _KEPT or PathFinder.find_spec(package) is None:
            return False
        self._names.remove(package)
        return True

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(f"shmcoll.{spec.name}")
        self._specs[module.__name__] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore what the import system has overwritten: the module has run under its own name."""
        module.__spec__ = self._specs.pop(module.__name__)
