"""Running shmrun for real: the fixtures `shmrun` and `until`."""

from launched import shmrun, until

__all__ = ["shmrun", "until"]
