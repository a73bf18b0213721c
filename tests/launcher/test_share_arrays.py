"""`shmrun --share-arrays`: the report, and arrays that live on while the interpreter ends."""

import os
import sys
import textwrap

import pytest

from tests.support.small_memory import in_small_memory, without_memfd

JOB = r"""
    import builtins, os, sys
    import numpy as np
    import shmcoll

    comm = shmcoll.init()

    class Last:
        def __init__(self, array):
            self.array = array

        def __del__(self, write=os.write):
            self.array += 1
            write(1, b"freed %d\n" % self.array.item(1))

    sys.kept_by_sys = Last(np.ones(100_000))
    builtins.kept_by_builtins = Last(np.zeros((4, 100_000)).T)
    cycle = [np.ones(100_000)]
    cycle.append(cycle)
    kept = [np.ones(100_000) for _ in range(int(sys.argv[1]))]
    assert comm.all_reduce(kept[0])[0] == comm.size
    print("shared", comm.is_shared(kept[0]))
"""


def test_arrays_outlive_the_interpreter(shmrun):
    done = shmrun("-n", 2, "--share-arrays", "--report", shmrun.write(JOB), 1)
    assert (done.returncode, sorted(done.stdout.split("\n"))[1:]) == (
        0, ["freed 1"] * 2 + ["freed 2"] * 2 + ["shared True"] * 2,
    ), done.stderr  # fmt: skip
    titles, *rows = (line.split() for line in done.stderr.splitlines() if not line.startswith("shmcoll"))
    assert titles[-2:] == ["shared", "unshared"]
    assert [row[-1] for row in rows] == ["0", "0"]
    assert all(float(row[-3]) >= 6 for row in rows)  # MiB


def test_the_report_counts_arrays_that_find_no_room(shmrun):
    done = shmrun("-n", 1, "--heap", "8M", "--report", shmrun.write(JOB), 20, env={"SHMCOLL_SHARE_ARRAYS": "1"})
    assert done.returncode == 0, done.stderr
    row = done.stderr.splitlines()[-1].split()
    count, amount = int(row[-3]), row[-2:]
    assert 10 < count < 24
    assert amount == [f"({count * 800_000 / (1 << 20):,.1f}", "MiB)"]


FULL = """
    import numpy as np
    import shmcoll

    comm = shmcoll.init()
    arrays = [np.full(1 << 17, i) for i in range(40)]  # 40 MiB
    assert all((x == i).all() for i, x in enumerate(arrays))
    print(0 < sum(map(comm.is_shared, arrays)) < 40)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small /dev/shm")
def test_arrays_for_which_dev_shm_is_too_small_are_private(tmp_path):
    """A store to memory that is not there would be a SIGBUS. The heap allows more than there is."""
    (tmp_path / "job.py").write_text(textwrap.dedent(FULL))
    environment = without_memfd(tmp_path) | {"SHMCOLL_SHARE_ARRAYS": "1", "SHMCOLL_HEAP": "1G"}
    done = in_small_memory(tmp_path, 24, [sys.executable, "job.py"], **environment)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


NUMPY_TESTS = """
    import os, sys
    import numpy as np
    import pytest
    import shmcoll
    from shmcoll.runtime import array_sharing

    os.environ["NPY_AVAILABLE_MEM"] = "1 GB"  # tests that need more are skipped
    array_sharing.THRESHOLD = 128  # bytes: nearly all arrays of these tests
    comm = shmcoll.init()
    assert comm.is_shared(np.ones(100)), "numpy shares nothing"
    names = [f"numpy._core.tests.test_{name}" for name in sys.argv[1:]]
    code = pytest.main(["-q", "-p", "no:cacheprovider", "-W", "ignore", "--pyargs", *names])
    assert comm.is_shared(np.ones(100)), "numpy shares nothing any more"
    sys.exit(code)
"""


@pytest.mark.slow
def test_numpys_own_tests_of_arrays_pass(shmrun):
    pytest.importorskip("numpy._core.tests", reason="this numpy comes without its tests")
    names = ("arrayobject", "array_coercion", "dlpack", "indexing", "indexerrors", "item_selection", "shape_base")
    done = shmrun("-n", 1, "--share-arrays", shmrun.write(NUMPY_TESTS), *names)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
