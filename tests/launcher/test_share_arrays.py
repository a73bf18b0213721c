"""`shmrun --share-arrays`: the report, and arrays that live on while the interpreter ends."""

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


def test_a_job_without_shared_arrays_has_no_such_columns(shmrun):
    done = shmrun("-n", 1, "--report", "-c", "import shmcoll; shmcoll.init()")
    assert "shared" not in done.stderr
