"""The collectives of AWS's Neuron Kernel Interface (NKI), on shared memory. See `shmcoll.nki.collectives`."""

from shmcoll.nki import collectives

__all__ = ["collectives"]
