"""Rooted calls of few bytes, in which nodes do not wait for all others (`nodes/opening/running_ahead.py`)."""

import pytest

from tests.nodes import started

JOB = str(started.ROOT / "tests/nodes/running_ahead_job.py")


def told(folder, case, layout="2x2", seed=0):
    done = started.run(folder, JOB, layout, case, str(folder), str(seed))
    assert done.returncode == 0, done.stdout + done.stderr
    return started.results(folder, len(started.LAYOUTS[layout]))


@pytest.mark.parametrize(
    "layout",
    [pytest.param(one, marks=() if one in ("2x2", "3 nodes") else pytest.mark.any_mpi) for one in started.LAYOUTS],
)
@pytest.mark.parametrize("case", ["right_programs", "wrong_programs"])
def test_programs_of_random_calls(tmp_path, case, layout, seed):
    told(tmp_path, case, layout, seed)


@pytest.mark.parametrize("layout", ["2x2", "3 nodes"])
def test_a_rank_returns_from_calls_that_others_have_not_begun(tmp_path, layout):
    told(tmp_path, "one_runs_ahead", layout)


@pytest.mark.any_mpi
@pytest.mark.parametrize("layout", ["2x2", "3 nodes"])
def test_a_mismatch_that_is_found_late_names_the_call_and_its_lines(tmp_path, layout):
    errors = told(tmp_path, "told_late", layout)
    assert errors == [errors[0]] * len(errors)
    (text,) = errors[0]
    lines = started.ROOT.joinpath("tests/nodes/running_ahead_job.py").read_text().splitlines()
    other, usual = (
        1 + next(i for i, line in enumerate(lines) if f"group.broadcast(np.ones({count}), 0)" in line)
        for count in (7, 4)
    )
    assert text.startswith("the ranks disagree in operation #6: rank 0 (node a), ")
    assert f"called broadcast(float64[4], root=0) at {started.ROOT}/tests/nodes/running_ahead_job.py:{usual}" in text
    assert f"called broadcast(float64[7], root=0) at {started.ROOT}/tests/nodes/running_ahead_job.py:{other}" in text


@pytest.mark.any_mpi
def test_a_root_that_makes_no_other_call_learns_of_a_mismatch(tmp_path):
    errors = told(tmp_path, "root_makes_no_other_call")
    assert errors == [errors[0]] * 4
    (text,) = errors[0]
    assert text.startswith("the ranks disagree in operation #2: rank 2 (node b) called broadcast(float64[5], root=")


def test_what_was_sent_before_a_failure_counts(tmp_path):
    errors = told(tmp_path, "root_raises")
    assert errors == [["rank 0 (node a) aborted: no more"]] * 4


@pytest.mark.any_mpi
def test_an_out_of_a_scatter_that_does_not_fit_is_refused_by_its_rank(tmp_path):
    *others, (text,) = told(tmp_path, "one_out_does_not_fit")
    assert others == [[]] * 3
    assert text == "scatter #4: out of rank 3 is float64[5], but rank 0 sends it float64[4]"
