"""What makes a function of MPI when C calls it for the first time.

A signal handler may raise an exception meanwhile, which C would never see. Then the function is not made yet: C calls
another one, which raises the exception as every function does (`functions.py`). One that is raised before `resolve` has
begun to catch is kept for its next call, which the library makes at once.
"""

from functools import partial
from typing import Any, NoReturn

from shmcoll.mpi.abi.facts import NAMES
from shmcoll.mpi.abi.loaded import Library
from shmcoll.mpi.objects.functions import CALLBACKS, callback
from shmcoll.mpi.objects.interrupts import catch_early, kind_of


def make_in(library: Library) -> None:
    """Let the functions of a library be made when they are called."""
    early: list[BaseException] = []

    def resolve(slot: int) -> None:
        name = NAMES[slot]
        try:
            if early:
                raise early.pop()
            library.put(name, CALLBACKS[name])
        except Exception:
            raise
        except BaseException as error:
            library.put(name, callback(name, partial(interrupted, name, kind_of(error))))

    def interrupted(name: str, kind: type[BaseException], *_: Any) -> NoReturn:
        library.take(name)
        raise kind

    catch_early(resolve.__code__, lambda error, _: early.append(error))
    library.fill(resolve)
