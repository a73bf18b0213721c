"""`mindspore.mint`: here only its `distributed`."""

from shmcoll.mindspore.mint import distributed

__all__ = ["distributed"]
