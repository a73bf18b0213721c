"""A 2-D stencil: each rank has a block of a grid, and gets the edges of its neighbours by a topology and a datatype."""

import numpy as np
from mpi4py import MPI

ROWS, COLUMNS, STEPS = 36, 24, 25


def smoothed(field):
    """Return the interior of a field after one step."""
    return 0.25 * (field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:])


def span(length, parts, index):
    """Return where a part of a length begins and ends."""
    return length * index // parts, length * (index + 1) // parts


world = MPI.COMM_WORLD
dims = MPI.Compute_dims(world.size, 2)
cart = world.Create_cart(dims, periods=[True, False], reorder=True)
(top, bottom), (left, right) = (span(n, dims[i], cart.coords[i]) for i, n in enumerate((ROWS, COLUMNS)))
height, width = bottom - top, right - left
start = np.random.default_rng(1).random((ROWS, COLUMNS))

field = np.zeros((height + 2, width + 2))
field[1:-1, 1:-1] = start[top:bottom, left:right]
row = MPI.DOUBLE.Create_contiguous(width).Commit()
column = MPI.DOUBLE.Create_vector(height, 1, width + 2).Commit()
up, down = cart.Shift(0, 1)
west, east = cart.Shift(1, 1)


def halo(place):
    """Return the memory of a field from a place on."""
    return memoryview(field).cast("B")[place * 8 :]


def at(i, j, kind):
    """Name an edge of the field: its first element, and the datatype."""
    return [halo(i * (width + 2) + j), 1, kind]


for _ in range(STEPS):
    cart.Sendrecv(at(1, 1, row), up, 1, at(height + 1, 1, row), down, 1)
    cart.Sendrecv(at(height, 1, row), down, 2, at(0, 1, row), up, 2)
    requests = [cart.Irecv(at(1, 0, column), west), cart.Irecv(at(1, width + 1, column), east)]
    requests += [cart.Isend(at(1, 1, column), west), cart.Isend(at(1, width, column), east)]
    MPI.Request.Waitall(requests)
    field[1:-1, 1:-1] = smoothed(field)
row.Free()
column.Free()

inside = MPI.DOUBLE.Create_subarray(field.shape, (height, width), (1, 1)).Commit()
sending = cart.Isend([field, 1, inside], 0)
if cart.rank == 0:
    whole = np.zeros((ROWS, COLUMNS))
    for rank in range(cart.size):
        (y, y_end), (x, x_end) = (span(n, dims[i], cart.Get_coords(rank)[i]) for i, n in enumerate((ROWS, COLUMNS)))
        block = MPI.DOUBLE.Create_subarray(whole.shape, (y_end - y, x_end - x), (y, x)).Commit()
        cart.Recv([whole, 1, block], rank)
        block.Free()
    expected = np.zeros((ROWS + 2, COLUMNS + 2))
    expected[1:-1, 1:-1] = start
    for _ in range(STEPS):
        expected[0], expected[-1] = expected[-2], expected[1]
        expected[1:-1, 1:-1] = smoothed(expected)
    assert (whole == expected[1:-1, 1:-1]).all()
    print(f"stencil: {whole.sum():.6g}", flush=True)
sending.Wait()
inside.Free()
cart.Free()
