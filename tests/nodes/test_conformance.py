"""Every collective over simulated nodes: the random cases of one machine, compared with == with what numpy makes."""

import pytest

from tests.nodes import started
from tests.support.suite import judge
from tests.support.suites import SUITES


@pytest.mark.any_mpi
@pytest.mark.parametrize("layout", started.LAYOUTS)
def test_results_are_those_of_numpy(tmp_path, layout, seed):
    job = str(started.ROOT / "tests/nodes/suites_job.py")
    done = started.run(tmp_path, job, layout, str(seed), str(tmp_path), *SUITES)
    assert done.returncode == 0, done.stderr
    told = started.results(tmp_path, len(started.LAYOUTS[layout]))
    for name in SUITES:
        judge([tuple(rank[name]) for rank in told], at_least=SUITES[name].at_least)
