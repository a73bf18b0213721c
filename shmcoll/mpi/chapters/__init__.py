"""The functions of MPI. A file registers them by `objects/functions.py`."""

from importlib import import_module

CHAPTERS = (
    "environment",
    "communicators",
)


def load() -> None:
    """Register the functions of all chapters."""
    for chapter in CHAPTERS:
        import_module(f"{__name__}.{chapter}")
