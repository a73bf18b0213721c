"""Command lines of MindSpore's msrun."""

import json
import os

import pytest
from shmrun.cli.options import parse

JOB = """
    import json, os, sys
    rank = int(os.environ["RANK_ID"])
    names = ("RANK_SIZE", "DEVICE_ID", "MS_ROLE", "MS_WORKER_NUM", "MS_NODE_ID", "MS_SCHED_HOST", "MS_SCHED_PORT")
    print(json.dumps([rank, sys.argv[1:], *(os.environ[name] for name in names), os.environ["MS_TOPO_TIMEOUT"]]))
"""


def test_a_job_as_under_msrun(shmrun):
    """Environment, names of log files, and output on the screen as with `--join True`."""
    flags = ("--worker_num", 2, "--local_worker_num", 2, "--master_port=8119", "--join", "True", "--log_dir", "logs")
    done = shmrun(*flags, shmrun.write(JOB), "--more", "1")
    assert (done.returncode, done.stderr) == (0, "")
    wanted = [
        [rank, ["--more", "1"], "2", str(rank), "MS_WORKER", "2", str(rank), "127.0.0.1", "8119", "600"]
        for rank in range(2)
    ]
    assert sorted(map(json.loads, done.stdout.splitlines())) == wanted
    logs = shmrun.folder / "logs"
    assert sorted(path.name for path in logs.iterdir()) == ["worker_0.log", "worker_1.log"]
    assert [json.loads((logs / f"worker_{rank}.log").read_text()) for rank in range(2)] == wanted


def test_the_log_of_one_worker_is_shown(shmrun):
    flags = ("--worker_num=3", "--join=True", "--log_dir=logs", "--tail_worker_log=0,2")
    done = shmrun(*flags, "--worker_log_name=w_{hostname}", shmrun.write("import os; print(os.environ['RANK'])"))
    assert (done.returncode, sorted(done.stdout.split()), done.stderr) == (0, ["0", "2"], "")
    logs = {path.name: path.read_text() for path in (shmrun.folder / "logs").iterdir()}
    assert logs == {f"w_{os.uname().nodename}_{rank}.log": f"{rank}\n" for rank in range(3)}


def told(capsys, *words: str):
    options = parse([*words, "x.py"])
    assert capsys.readouterr() == ("", "")
    return options


@pytest.mark.parametrize("flags", [("--join", "True"), ("--cluster_time_out=5",), ("--worker-log-name", "w")])
def test_there_are_8_workers_by_default(capsys, flags):
    assert told(capsys, *flags).ranks == 8


def test_without_join_the_output_goes_to_the_files_alone(capsys):
    assert not told(capsys, "--worker_num", "2", "--log_dir", "d").tee
    assert told(capsys, "--worker_num", "2", "--log_dir", "d", "--join", "True").tee


def test_variables_of_the_user_stay(capsys):
    options = told(capsys, "--worker_num", "2", "--env", "MS_ROLE=MS_PSERVER", "--master_addr", "10.0.0.1")
    assert dict(options.env) == {
        "MS_ROLE": "MS_PSERVER",
        "MS_WORKER_NUM": "2",
        "MS_SCHED_HOST": "10.0.0.1",
        "MS_SCHED_PORT": "8118",
        "MS_TOPO_TIMEOUT": "600",
        "MASTER_ADDR": "10.0.0.1",
    }


def test_a_command_line_that_is_not_msruns_is_none(capsys):
    assert told(capsys, "-n", "2", "--log_dir", "d").log(1).name == "rank.1.log"
    assert told(capsys, "-n", "2").env == ()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--worker_num 0", "--worker_num: '0' is not a number of ranks"),
        ("--worker_num 2 --join maybe", "--join: 'maybe' is neither true nor false"),
        ("--worker_num 2 --tail_worker_log 0;1", "--tail_worker_log: '0;1' is neither -1 nor a list of ranks"),
        ("--worker_num 2 --worker_log_name a/b", "--worker_log_name: 'a/b' has a slash"),
        ("--worker_num 2 --bind_numa numa.json", "--bind_numa: 'numa.json' is neither true nor false"),
    ],
)
def test_wrong_values_are_refused(capsys, line, words):
    with pytest.raises(SystemExit) as end:
        parse([*line.split(), "x.py"])
    err = capsys.readouterr().err
    assert (end.value.code, err.count("\n")) == (2, 1)
    assert words in err
