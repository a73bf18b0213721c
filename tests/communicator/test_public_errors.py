"""Every exception that a user can meet is in `shmcoll.errors`, exported, and distinguished from its neighbours."""

import importlib
import importlib.util
import inspect
import pkgutil

import pytest

import shmcoll
from shmcoll import errors

#: what never leaves shmcoll, or leaves it as the built-in exception that it derives from
INTERNAL = {
    "shmcoll.engine.memory.thresholds.Foreign": "caught there",
    "shmcoll.engine.system.trusted_files.Distrusted": "a PermissionError to users",
    "shmcoll.mpi.abi.memory.WrongMemory": "an error code of MPI to users",
    "shmcoll.mpi.objects.errors.MPIError": "an error code of MPI to users",
    "shmcoll.mpi.objects.window_memory.Ended": "caught in a call of a window",
    "shmcoll.runner.executor.BrokenRanks": "a BrokenExecutor and a RankFailed to users",
    "shmcoll.runner.client.Lost": "caught in run, which raises RankFailed",
    "shmcoll.runner.answers.Unreachable": "caught in the rank",
    "shmcoll.runner.pickling.Unsendable": "a TypeError to users",
    "shmcoll.startup.beside.Elsewhere": "an MPI_COMM_NULL to users",
    "shmcoll.startup.beside.NotMet": "an MPIError to users",
    "shmcoll.startup.launchers.SeveralMachines": "a ShmcollError to users",
    "shmcoll.startup.ports.NoName": "an MPIError to users",
    "shmcoll.startup.ports.NoPort": "an MPIError to users",
}


#: what the modules of a front end need
NEEDED = {
    "shmcoll.ray": "ray",
    "shmcoll.torch": "torch",
    "shmcoll.torch.sglang": "sglang",
    "shmcoll.torch.vllm": "vllm",
}


def can_be_imported(module: str) -> bool:
    """Whether this is no program, and what the module needs is installed."""
    needed = [package for name, package in NEEDED.items() if f"{module}.".startswith(f"{name}.")]
    return not module.endswith("__main__") and all(map(importlib.util.find_spec, needed))


def exceptions() -> dict[str, type[BaseException]]:
    """The exception classes of all modules, those with an underscore excepted."""
    found: dict[str, type[BaseException]] = {}
    for module in pkgutil.walk_packages(shmcoll.__path__, "shmcoll."):
        if can_be_imported(module.name):
            for name, member in vars(importlib.import_module(module.name)).items():
                if inspect.isclass(member) and issubclass(member, BaseException) and not name.startswith("_"):
                    found[f"{member.__module__}.{member.__qualname__}"] = member
    return {path: member for path, member in found.items() if path.startswith("shmcoll.")}


def unlisted(classes: dict[str, type[BaseException]]) -> set[str]:
    """Those that are neither public nor known to be internal."""
    return {path for path, member in classes.items() if path not in INTERNAL and not is_public(member)}


def is_public(member: type[BaseException]) -> bool:
    name = member.__name__
    return name in errors.__all__ and name in shmcoll.__all__ and getattr(shmcoll, name) is member


def test_every_exception_is_exported_or_internal():
    classes = exceptions()
    assert unlisted(classes) == set()
    assert set(INTERNAL) <= set(classes)


def test_an_exception_that_is_not_exported_is_found():
    class Forgotten(shmcoll.ShmcollError):
        pass

    assert unlisted({"shmcoll.calls.recv.Forgotten": Forgotten, **exceptions()}) == {"shmcoll.calls.recv.Forgotten"}


def test_all_names_of_the_module_are_listed():
    classes = {name: member for name, member in vars(errors).items() if inspect.isclass(member)}
    defined = {name for name, member in classes.items() if member.__module__ == errors.__name__}
    assert set(errors.__all__) == defined
    assert errors.__all__ == sorted(errors.__all__)


@pytest.mark.parametrize("name", errors.__all__)
def test_each_is_described(name):
    error = getattr(shmcoll, name)
    assert len(inspect.getdoc(error) or "") > 60
    assert issubclass(error, shmcoll.ShmcollError) or name == "RemoteTraceback"


@pytest.mark.parametrize(
    "name", ["RankFailed", "CollectiveTimeout", "CollectiveMismatch", "ArenaError", "CallNotAllowed", "Cancelled"]
)
def test_each_is_told_apart_from_its_neighbours(name):
    """The docstring says what one gets instead in a case that looks alike."""
    assert "you get" in (inspect.getdoc(getattr(shmcoll, name)) or "").replace("\n", " ")


def told(comm) -> list[str]:
    """What a program catches by `except ShmcollError`."""
    names = []
    group = comm.split(0)
    work = group.recv(async_op=True)
    assert work.cancel()
    group.close()
    for call in (work.wait, group.barrier):
        try:
            call()
        except shmcoll.ShmcollError as error:
            names.append(type(error).__name__)
    return names


def test_one_class_catches_them(ranks):
    assert ranks(1, told) == [["Cancelled", "CallNotAllowed"]]
