"""This package under the name `mindspore`: `sys.modules["mindspore"] = shmcoll.mindspore`, and programs run unchanged.

The finder below makes `mindspore.communication` and every other module the one that is there already, so that none is
loaded twice, with a state of its own. It does nothing while another package is `mindspore`.
"""

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

NAME = "mindspore"
OURS = __package__


class _Alias(Loader):
    def exec_module(self, module: ModuleType) -> None:
        """Put our module where the import system takes the result from."""
        sys.modules[module.__name__] = importlib.import_module(OURS + module.__name__.removeprefix(NAME))


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find modules of `mindspore` while it is this package."""
        if not fullname.startswith(f"{NAME}.") or sys.modules.get(NAME) is not sys.modules[OURS]:
            return None
        ours = OURS + fullname.removeprefix(NAME)
        return ModuleSpec(fullname, _Alias()) if importlib.util.find_spec(ours) is not None else None


def install() -> None:
    """Add the finder to those of Python, once."""
    if not any(isinstance(one, _Finder) for one in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
