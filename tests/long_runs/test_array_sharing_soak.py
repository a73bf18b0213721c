"""A soak run under --share-arrays: code of numpy and scipy that knows nothing of shmcoll, in several threads.

SHMCOLL_SOAK    seconds; 60
"""

import os

import pytest

pytestmark = pytest.mark.stress

SECONDS = float(os.environ.get("SHMCOLL_SOAK") or 60)

JOB = """
    import gc, sys, threading, time
    import numpy as np
    import shmcoll
    from shmcoll.engine.memory.heap import arrays_held_by

    seed, seconds = int(sys.argv[1]), float(sys.argv[2])
    comm = shmcoll.init()
    try:
        import scipy.fft, scipy.linalg, scipy.ndimage, scipy.sparse
    except ImportError:
        scipy = None

    def step(rng):
        n = int(rng.integers(50, 400))
        a = rng.standard_normal((n, n))
        total = a @ a.T + np.eye(n) * n
        assert np.allclose(np.linalg.inv(total) @ total, np.eye(n))
        assert np.allclose(np.fft.ifft2(np.fft.fft2(a)).real, a)
        text = np.array([f"{i:05d}" for i in range(5_000)])
        assert (np.sort(rng.permutation(text)) == text).all()
        grown = np.arange(10)
        while grown.nbytes < 1 << 20:
            grown.resize(grown.size * 2 + 1, refcheck=False)
        assert (grown[:10] == np.arange(10)).all() and not grown[10:].any()
        parts = np.array_split(rng.integers(0, 99, n * 500), 7)
        assert np.bincount(np.concatenate(parts)).sum() == n * 500
        assert not np.zeros((n, 500)).any()
        assert np.fromiter((i for i in range(n * 50)), float).sum() == n * 50 * (n * 50 - 1) // 2
        if scipy:
            assert np.allclose(scipy.fft.idct(scipy.fft.dct(a)), a)
            assert np.allclose(scipy.linalg.cholesky(total, lower=True) @ scipy.linalg.cholesky(total), total)
            assert scipy.ndimage.gaussian_filter(a, 2).shape == a.shape
            sparse = scipy.sparse.random(n * 10, n * 10, 0.01, random_state=rng).tocsr()
            assert abs((sparse - sparse.T.T).sum()) == 0

    comm.all_reduce(np.arange(9)), comm.all_reduce(True, "lor"), comm.all_gather(np.arange(9))  # they are compiled
    end = time.monotonic() + seconds
    failed = []

    def work(number):
        rng = np.random.default_rng([seed, comm.rank, number])
        try:
            while time.monotonic() < end:
                step(rng)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    rng, marks, goes_on = np.random.default_rng([seed, comm.rank]), [], True
    together = np.random.default_rng(seed)
    while goes_on:
        count = int(together.integers(1, 1 << 19))
        x = rng.integers(0, 100, count)
        every = comm.all_gather(x).reshape(comm.size, count)
        assert (comm.all_reduce(x) == every.sum(0)).all() and (every[comm.rank] == x).all()
        marks.append(arrays_held_by(comm._local_rank.arena, comm.rank))
        goes_on = not comm.all_reduce(time.monotonic() > end or bool(failed), "lor")
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    third = len(marks) // 3
    print(len(marks), max(marks[third : 2 * third]), max(marks[2 * third :]))
    del x, every
    gc.collect()
"""


@pytest.mark.parametrize("heap", ["1G", "24M"], ids=["room", "scarce"])
def test_programs_compute_the_same_in_shared_memory(shmrun, seed, heap):
    """Memory does not grow; where it is scarce, some arrays are private."""
    options = ("-n", 2, "--share-arrays", "--heap", heap, "--report")
    job = shmrun.start(*options, shmrun.write(JOB), seed, SECONDS / 2)
    out, err = job.communicate(timeout=SECONDS + 120)
    assert job.returncode == 0, f"seed {seed}\n{err}"
    for line in out.splitlines():
        steps, second, last = map(int, line.split())
        print(f"figure: {SECONDS / 2:.0f} s, {steps} calls, {second >> 20} MiB of arrays, then {last >> 20} MiB")
        assert last < 1.5 * second + (32 << 20)
    unshared = [int(line.split()[-3 if line.endswith(")") else -1]) for line in err.splitlines()[-2:]]
    assert all(unshared) if heap == "24M" else not any(unshared)
