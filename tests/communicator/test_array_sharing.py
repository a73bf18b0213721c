"""Ordinary numpy arrays in shared memory: `comm.allocating()`, SHMCOLL_SHARE_ARRAYS, and what programs do with them."""

import importlib
import multiprocessing
import os
import resource
import threading
import warnings

import numpy as np
import pytest

from tests.support import switches

EVERYWHERE = {"SHMCOLL_SHARE_ARRAYS": "1"}
N = 1 << 15  # elements: 256 KiB


def shared(comm, *arrays):
    return [comm.is_shared(x) for x in arrays]


def allocate(comm):
    before = np.ones(N)
    with comm.allocating():
        a = np.ones(N)
        b = a * 2 + before
        made = [a, b, np.concatenate([a, b]), np.sort(b), np.zeros((2, N)), b.astype("f4"), np.arange(N) ** 2, b[5:]]
        small = np.ones(8_191)
        with comm.allocating():
            inner = np.empty(N)
        still = np.empty(N)
        with pytest.raises(KeyError), comm.allocating():
            raise KeyError
    after = b + 1
    assert shared(comm, *made, inner, still) == [True] * (len(made) + 2)
    assert shared(comm, before, small, after, np.empty(0)) == [False] * 4
    assert shared(comm, comm.zeros(3), comm.zeros(3)[1:]) == [True, True]
    assert all(x.ctypes.data % 64 == 0 for x in made[:-1])
    assert (b == 3).all() and (after == 4).all() and made[2].sum() == 4 * N
    with pytest.raises(TypeError, match=f"is_shared on rank {comm.rank}: x must be a numpy array, got list"):
        comm.is_shared([1.0])
    with pytest.raises(ValueError, match=r"was not made by comm\.empty"):
        comm.views(a)
    return True


def collectives(comm):
    """The same bits as with private arrays, results included."""
    rng = np.random.default_rng(comm.rank)
    x = rng.standard_normal((comm.size * 4_100, 7))
    calls = {
        "all_reduce": lambda x: comm.all_reduce(x),
        "all_gather": lambda x: comm.all_gather(x),
        "broadcast": lambda x: comm.broadcast(x.copy(), 1),
        "all_to_all": lambda x: comm.all_to_all(x),
        "reduce_scatter": lambda x: comm.reduce_scatter(x),
        "sendrecv": lambda x: comm.sendrecv(x, (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)[0],
    }
    wanted = {name: call(x) for name, call in calls.items()}
    with comm.allocating():
        mine = x.copy()
        got = {name: call(mine) for name, call in calls.items()}
        in_place = mine.copy()
        comm.all_reduce(in_place, out=in_place)
    for name in calls:
        assert np.array_equal(got[name], wanted[name]), name
        assert comm.is_shared(got[name]), name
    assert in_place.tobytes() == wanted["all_reduce"].tobytes()
    part = mine[3:-2]
    assert np.array_equal(comm.all_reduce(part), comm.all_reduce(x[3:-2]))
    return True


def reuse(comm):
    """Temporaries of a loop fault no pages and take no more memory; zeros are zeros; arrays change their size."""
    held = []
    with comm.allocating():
        a, b = np.ones(8 * N), np.ones(8 * N)
        for i in range(40):
            faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            c = a * 2 + b
            z = np.zeros((8, N))
            assert not z.any()
            z[:] = i
            held.append((switches.held_by_arrays(comm), resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults))
        assert (c == 3).all()
        assert len({bytes_held for bytes_held, _ in held[2:]}) == 1
        assert sum(faults for _, faults in held[2:]) < 40  # one array has 512 pages
        a.resize(16 * N, refcheck=False)
        assert comm.is_shared(a) and a[: 8 * N].all() and not a[8 * N :].any()
        a.resize(N, refcheck=False)
        assert comm.is_shared(a) and a.all()
        f = np.fromiter((i for i in range(3 * N)), float)
        assert comm.is_shared(f) and (f == np.arange(3 * N)).all()
    del a, b, c, z, f
    return True


def one_after_another(comm):
    assert allocate(comm) and collectives(comm) and reuse(comm)
    return True


def test_arrays_of_a_block(ranks):
    assert ranks(2, one_after_another) == [True] * 2


def everywhere(comm):
    made = {}

    def make(i):
        mine = [np.full(N, i), np.full(N, i) * 2.0]
        for k in range(200):
            mine[k % 2] = np.full(N + k * 1_000, i)
            assert (mine[k % 2] == i).all()
        made[i] = mine

    threads = [threading.Thread(target=make, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, mine in made.items():  # freed by another thread than the one that has made them
        assert shared(comm, *mine) == [True, True]
        assert all((x == i).all() for x in mine)
    made.clear()
    with comm.allocating():
        assert comm.is_shared(np.ones(N))
    group = comm.dup()
    with group.allocating():
        outlives = np.full(N, 3.0)
    group.close()
    assert comm.is_shared(outlives) and comm.all_reduce(outlives)[0] == 3.0 * comm.size
    for name in ("pandas", "scipy.linalg"):
        use_library(comm, name)
    return True


def use_library(comm, name):
    try:
        library = importlib.import_module(name)
    except ImportError:
        return
    if name == "pandas":
        frame = library.DataFrame({"a": np.arange(N), "b": np.ones(N)})
        assert comm.is_shared((frame["a"] * frame["b"]).to_numpy())
    else:
        assert comm.is_shared(library.inv(np.eye(200)))


def test_arrays_of_all_threads(ranks):
    assert ranks(2, everywhere, environment=EVERYWHERE) == [True] * 2


def new_thread_is_private(comm):
    made = []
    with comm.allocating():
        thread = threading.Thread(target=lambda: made.append(np.ones(N)))
        thread.start()
        thread.join()
    return shared(comm, *made)


def exhaust(comm):
    """What does not fit is private, and is right; the heap goes on."""
    arrays = [np.full(N, i) for i in range(64)]  # 16 MiB of 8
    assert all((x == i).all() for i, x in enumerate(arrays))
    fit = sum(shared(comm, *arrays))
    assert 0 < fit < 64
    held = switches.held_by_ranks(comm)
    assert held <= 6 << 20
    comm.split(0).close()
    del arrays[:]
    again = np.ones(N)
    assert comm.is_shared(again)
    return new_thread_is_private(comm)


def test_arrays_that_find_no_room_are_private(ranks):
    assert ranks(1, exhaust, environment=EVERYWHERE | switches.heap("8M")) == [[True]]


def test_a_new_thread_begins_outside_the_block(ranks):
    assert ranks(1, new_thread_is_private) == [[False]]


def in_a_fork(x, answers):
    with warnings.catch_warnings(record=True) as caught:
        own = x * 2
        x[0] = 7  # the parent reads it
        del x
        answers.put((float(own.sum()), own.ctypes.data, len(caught)))


def fork(comm):
    x = np.ones(N)
    place = x.ctypes.data
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    told = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            child = context.Process(target=in_a_fork, args=(x, answers))
            child.start()
            told.append(answers.get())
            child.join()
            assert child.exitcode == 0
    assert [str(w.message).partition(" while")[0] for w in caught] == [f"rank {comm.rank} forks"]  # once
    arena = comm._local_rank.arena
    assert told[0][0] == 2 * N and told[1][0] == 2 * N + 12
    assert not any(0 <= at - arena.address < arena.size for _, at, _ in told)
    assert x[0] == 7
    del x
    assert np.ones(N).ctypes.data != place  # a child may still read there
    comm.barrier()
    return os.getpid()


def test_a_forked_child_shares_the_arrays(ranks):
    assert len(set(ranks(2, fork, environment=EVERYWHERE))) == 2
