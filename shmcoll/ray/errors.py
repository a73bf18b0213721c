"""shmcoll's errors with the actors that they are about: ranks are numbers, and users know their actors by name."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from shmcoll.errors import ShmcollError

_MARK = "_names_actors"


@contextmanager
def naming(actors: Sequence[str]) -> Iterator[None]:
    """Add to an error which actors the ranks are. actors: a description for each rank."""
    try:
        yield
    except ShmcollError as error:
        if _MARK not in error.__dict__:  # every later call raises it again
            ranks = sorted({error.rank, *(error.missing or ()), *(error.calls or ())} - {None})
            error.args = ("\n".join([str(error), *(f"  rank {rank} is {actors[rank]}" for rank in ranks)]),)
            error.__dict__[_MARK] = True
        raise
