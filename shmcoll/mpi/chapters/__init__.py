"""The functions of MPI. A file registers them by `objects/functions.py`."""

from importlib import import_module

from shmcoll.mpi.objects import refused

CHAPTERS = (
    "environment",
    "conversions",
    "error_handlers",
    "info",
    "attributes",
    "datatypes",
    "datatype_contents",
    "packing",
    "memory",
    "groups",
    "communicators",
    "intercommunicators",
    "ports",
    "processes",
    "topologies",
    "status",
    "requests",
    "files",
    "file_accesses",
    "sessions",
    "messages",
    "attached_buffers",
    "partitioned",
    "generalized",
    "collectives",
    "reductions",
    "neighbors",
    "windows",
    "window_epochs",
    "window_accesses",
    "first_version",
    "failures",
)


def load() -> None:
    """Register the functions of all chapters."""
    for chapter in CHAPTERS:
        import_module(f"{__name__}.{chapter}")
    refused.refuse_the_rest()
