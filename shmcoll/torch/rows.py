"""Collectives of rows, whose number may differ between ranks, as engines for inference call them."""

from collections.abc import Sequence
from functools import partial

import torch

from shmcoll.communicator import Communicator
from shmcoll.torch.errors import raising
from shmcoll.torch.tensors import read


def all_gather(comm: Communicator, x: torch.Tensor, sizes: Sequence[int] | None) -> torch.Tensor:
    """Return the rows of all ranks, in rank order.

    sizes: the number of rows of each rank; None if it is equal on all ranks.

    Raises:
        ValueError: on every rank, before a byte moves, a rank does not have as many rows as `sizes` says.
    """
    rows = comm.size * x.shape[0] if sizes is None else sum(sizes)
    out = x.new_empty((rows, *x.shape[1:]))
    if sizes is None:
        raising(partial(comm.all_gather, read(x), out=read(out)))
    else:
        raising(partial(comm.all_gather_v, read(x), recv_counts=sizes, axis=0, out=read(out)))
    return out


def reduce_scatter(comm: Communicator, x: torch.Tensor, sizes: Sequence[int] | None) -> torch.Tensor:
    """Return this rank's rows of the sum over all ranks.

    sizes: the number of rows of each rank; None if it is equal on all ranks.

    Raises:
        ValueError: the sizes do not add up to the rows of `x`.
    """
    rows = x.shape[0] // comm.size if sizes is None else sizes[comm.rank]
    out = x.new_empty((rows, *x.shape[1:]))
    if sizes is None:
        raising(partial(comm.reduce_scatter, read(x), out=read(out)))
    else:
        raising(partial(comm.reduce_scatter_v, read(x), sizes, axis=0, out=read(out)))
    return out


def all_to_all(
    comm: Communicator, x: torch.Tensor, received: Sequence[int] | None, sent: Sequence[int] | None
) -> torch.Tensor:
    """Send rows to every rank, and return those that were received, in rank order.

    received, sent: the number of rows from and to each rank; None if it is equal for all.

    Raises:
        ValueError: on every rank, before a byte moves, a rank sends another number of rows than is expected.
    """
    if (received is None) is not (sent is None):
        raise ValueError("all_to_all: give the rows received and those sent, or neither")
    out = x.new_empty((x.shape[0] if received is None else sum(received), *x.shape[1:]))
    if received is None:
        raising(partial(comm.all_to_all, read(x), out=read(out)))
    else:
        raising(partial(comm.all_to_all_v, read(x), sent, recv_counts=received, axis=0, out=read(out)))
    return out


__all__ = ["all_gather", "all_to_all", "reduce_scatter"]
