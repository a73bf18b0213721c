"""A master gives rows of a Mandelbrot picture to the workers that ask for one. Without workers it computes them."""

import numpy as np
from mpi4py import MPI

HEIGHT, WIDTH, DEPTH = 40, 60, 30
WORK, STOP = 1, 2

comm = MPI.COMM_WORLD


def row(y):
    c = np.linspace(-2, 1, WIDTH) + 1j * (2 * y / (HEIGHT - 1) - 1)
    z, steps = np.zeros_like(c), np.zeros(WIDTH, np.int32)
    for _ in range(DEPTH):
        inside = abs(z) < 2
        z[inside] = z[inside] ** 2 + c[inside]
        steps += inside
    return steps


def master():
    picture, status = np.zeros((HEIGHT, WIDTH), np.int32), MPI.Status()
    todo, waiting, asked = list(range(HEIGHT)), comm.size - 1, set()
    if not waiting:
        picture[:] = [row(y) for y in todo]
    while waiting:
        comm.Probe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
        worker, y = status.source, status.tag - 1
        if y < 0:
            asked.add(comm.recv(source=worker, tag=0))
        else:
            assert status.Get_count(MPI.INT32_T) == WIDTH
            comm.Recv(picture[y], worker, status.tag)
        if todo:
            comm.send(todo.pop(), worker, WORK)
        else:
            comm.send(None, worker, STOP)
            waiting -= 1
    assert asked == set(range(1, comm.size))
    return picture


def work():
    comm.ssend(comm.rank, 0, 0)
    status = MPI.Status()
    y = comm.recv(source=0, tag=MPI.ANY_TAG, status=status)
    while status.tag == WORK:
        comm.Send(row(y), 0, y + 1)
        y = comm.recv(source=0, tag=MPI.ANY_TAG, status=status)
    assert y is None and status.tag == STOP


if comm.rank == 0:
    picture = master()
    assert (picture == np.array([row(y) for y in range(HEIGHT)])).all()
    print(f"master and workers: {picture.sum()}", flush=True)
else:
    work()
comm.Barrier()
