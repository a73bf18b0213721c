"""Two threads of a rank that make collectives on one communicator over nodes at once."""

import pytest

from tests.nodes import started
from tests.runtime.test_two_threads import check_firsts, check_seconds


@pytest.mark.any_mpi
def test_the_second_thread_is_refused(tmp_path):
    job = str(started.ROOT / "tests/nodes/threads_job.py")
    done = started.run(tmp_path, job, "2x2", str(tmp_path))
    assert done.returncode == 0, done.stderr
    seconds, firsts = started.result(tmp_path, 0)
    check_seconds(seconds)
    check_firsts(firsts)
