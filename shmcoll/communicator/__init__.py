"""The public methods: those of a communicator, and groups, grids, plans, objects, shared arrays."""

from shmcoll.communicator.communicator import Communicator as Communicator
