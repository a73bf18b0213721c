"""Running shmrun for real: the fixture `shmrun`."""

from tests.support.launched import shmrun

__all__ = ["shmrun"]
