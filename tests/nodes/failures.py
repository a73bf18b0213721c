"""Cases of `failures_job.py` on two nodes of two ranks."""

from tests.nodes import started

JOB = str(started.ROOT / "tests/nodes/failures_job.py")
RANKS = 4


def outcomes(folder, case, survivors=range(RANKS), **more):
    """Run a case; return what the ranks have raised."""
    done = started.run(folder, JOB, "2x2", case, str(folder), **more)
    missing = [rank for rank in survivors if not (folder / f"rank{rank}.json").exists()]
    assert missing == [], done.stdout + done.stderr
    return [started.result(folder, rank) for rank in survivors]
