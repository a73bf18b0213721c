"""Ranks in a circle exchange arrays of all lengths with both neighbours, in the ways that programs do."""

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
after, before = (world.rank + 1) % world.size, (world.rank - 1) % world.size
UP, DOWN = 1, 2
LENGTHS = (1, 1000, 8193, 40_000, 131_072, 262_144, 262_145, 600_000)  # of 8 bytes


def values(rank, turn, length):
    return np.arange(length) * 5 + rank * 11 + turn


def wait_for_all(up, down, from_below, from_above):
    receives = [world.Irecv(from_below, before, UP), world.Irecv(from_above, after, DOWN)]
    MPI.Request.Waitall([world.Isend(up, after, UP), world.Isend(down, before, DOWN), *receives])


def wait_for_each(up, down, from_below, from_above):
    sends = [world.Isend(up, after, UP), world.Isend(down, before, DOWN)]
    receives = [world.Irecv(from_above, after, DOWN), world.Irecv(from_below, before, UP)]
    for request in (*sends, *receives):
        request.Wait()


def send_beside_receives(up, down, from_below, from_above):
    receives = [world.Irecv(from_below, before, UP), world.Irecv(from_above, after, DOWN)]
    world.Send(up, after, UP)
    world.Send(down, before, DOWN)
    while not MPI.Request.Testall(receives):
        pass


def send_and_receive(up, down, from_below, from_above):
    world.Sendrecv(up, after, UP, from_below, before, UP)
    world.Sendrecv(down, before, DOWN, from_above, after, DOWN)


for turn, length in enumerate(LENGTHS):
    for way in (wait_for_all, wait_for_each, send_beside_receives, send_and_receive):
        up, down = values(world.rank, turn, length), -values(world.rank, turn, length)
        from_below, from_above = np.zeros_like(up), np.zeros_like(up)
        way(up, down, from_below, from_above)
        up[:] = down[:] = 7
        assert np.array_equal(from_below, values(before, turn, length)), (way, length)
        assert np.array_equal(from_above, -values(after, turn, length)), (way, length)
world.Barrier()
if world.rank == 0:
    print("exchanges: all are equal", flush=True)
