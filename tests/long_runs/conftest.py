"""Running shmrun for real: the fixtures `shmrun` and `until`."""

from tests.support.launched import shmrun, until

__all__ = ["shmrun", "until"]
