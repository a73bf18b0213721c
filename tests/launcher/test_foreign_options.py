"""Options of other launchers, and options that nobody knows."""

import os

import pytest
from shmrun.cli.options import parse

ONE = "shmcoll is for one machine"


def told(capsys, *arguments):
    """The options, and what was said about them."""
    options = parse(list(arguments))
    out, err = capsys.readouterr()
    assert out == ""
    return options, err


@pytest.mark.parametrize(
    "flags",
    [
        ("-n", "3"),
        ("-n3",),
        ("-np", "3"),
        ("--np=3",),
        ("--ranks", "3"),
        ("--nproc-per-node", "3"),
        ("--nproc_per_node=3",),
        ("--worker_num", "3"),
        ("--worker_num=3", "--local_worker_num=3"),
        ("-n", "2", "-n", "3"),
    ],
    ids=" ".join,
)
def test_number_of_ranks(capsys, flags):
    options, said = told(capsys, *flags, "x.py", "-n", "7")
    assert (options.ranks, options.command, said) == (3, ("x.py", "-n", "7"), "")


@pytest.mark.parametrize(
    ("line", "differs"),
    [
        # torchrun
        ("--standalone --nnodes=1 --nproc-per-node 2 --node_rank 0 --max-restarts 0 --monitor-interval 5", {}),
        ("--nnodes 1:1 -np 2 --rdzv-backend c10d --rdzv-id=7 --rdzv_endpoint localhost:0 --role trainer", {}),
        ("-n 2 --log-dir logs --tee 3", {"log_dir": "logs", "tee": True}),
        ("-n 2 --log-dir logs -t 0:1,1:3", {"log_dir": "logs", "tee": True}),
        ("-n 2 --tee 0", {}),
        ("-n 2 --numa-binding node", {"bind_to": "numa"}),
        (
            "-n 2 --master-addr ::1 --master_port 29501",
            {"env": (("MASTER_ADDR", "::1"), ("MASTER_PORT", "29501"))},
        ),
        # Open MPI
        ("-np 2 --oversubscribe --allow-run-as-root --map-by ppr:2:node --mca btl self,vader", {}),
        ("-n 2 -bind-to core:overload-allowed -host localhost:2", {"bind_to": "core"}),
        ("-n 2 --bind-to socket --tag-output", {"bind_to": "numa", "tag_output": True}),
        ("-n 2 -x A=1 -x HOME -x A=2", {"env": (("A", "2"),)}),
        ("-n 2 --stdin none", {"stdin": "none"}),
        ("-n 2 --timeout 5", {"timeout": 5.0}),
        # Hydra
        ("-n 2 -ppn 2 -genv A 1 -env B x=y -prepend-rank", {"env": (("A", "1"), ("B", "x=y")), "tag_output": True}),
        ("-n 2 -disable-auto-cleanup -l", {"on_failure": "continue", "tag_output": True}),
        # msrun; test_msrun.py has more
        ("-n 2 --bind_core=True --node_rank -1", {"bind_to": "core"}),
        ("-n 2 --bind_core=False --bind_numa False", {}),
        ("-n 2 --bind_numa True", {"bind_to": "numa"}),
    ],
)
def test_what_they_mean_there_they_mean_here(capsys, line, differs):
    plain, _ = told(capsys, "-n", "2", "x.py", "--tee", "3")
    options, said = told(capsys, *line.split(), "x.py", "--tee", "3")
    assert (vars(options), said) == (vars(plain) | differs, "")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--nnodes 2 -np 2", "--nnodes: 2 machines asked for, but " + ONE),
        ("--nnodes=1:4 -np 2", "--nnodes: 1:4 machines asked for, but " + ONE),
        ("-np 2 --node_rank 1", "--node_rank: this is machine 1 of a job, but " + ONE),
        ("-np 2 --host localhost,elsewhere:4", "--host: 'elsewhere:4' is another machine, but " + ONE),
        ("--worker_num 8 --local_worker_num 4", "--worker_num 8 and --local_worker_num 4 contradict each other"),
        ("-np 2 --bind_core bound.json", "--bind_core: 'bound.json' is not one of none, core, numa"),
        ("-np 2 -genv A", "-genv needs a value"),
    ],
)
def test_more_than_one_machine_is_refused(capsys, line, words):
    with pytest.raises(SystemExit) as end:
        parse([*line.split(), *["x.py"][: "genv" not in line]])
    err = capsys.readouterr().err
    assert end.value.code == 2
    assert words in err
    assert err.count("\n") == 1


def test_this_machine_by_its_name(capsys):
    assert told(capsys, "-n", "2", "-H", f"{os.uname().nodename}:2", "x.py")[1] == ""


@pytest.mark.parametrize("flags", [("--max-restarts", "3"), ("--hostfile", "hosts"), ("--report-bindings",)])
def test_what_has_no_effect_is_named(capsys, flags):
    options, said = told(capsys, "-n", "2", *flags, "x.py")
    assert options.command == ("x.py",)
    assert said == f"shmrun: {' '.join(flags)} has no effect: shmrun has nothing like it\n"


@pytest.mark.parametrize(
    ("unknown", "value"),
    [
        (("--unknown",), ""),
        (("--unknown=ls",), "ls"),
        (("--unknown", "17"), "17"),
        (("--unknown", "-1.5"), "-1.5"),
        (("--unknown", "true"), "true"),  # though there is a program of that name
        (("--unknown", "surely-no-program"), "surely-no-program"),
        (("--unknown", "./surely-no-program"), "./surely-no-program"),
    ],
)
@pytest.mark.parametrize("program", [("x.py", "3"), ("ls", "3"), ("--", "surely-no-program", "3"), ("-m", "module")])
def test_an_unknown_option_is_named_and_passed_over(capsys, unknown, value, program):
    options, said = told(capsys, "-n", "2", *unknown, *program)
    assert options.command == tuple(word for word in program if word not in ("--", "-m"))
    with_value = f", with its value {value!r}" if value else ""
    assert said == f"shmrun: unknown option --unknown is ignored{with_value}\n"


def test_the_last_word_is_the_program(capsys):
    options, said = told(capsys, "-n", "2", "--unknown", "surely-no-program")
    assert options.command == ("surely-no-program",)
    assert said == "shmrun: unknown option --unknown is ignored\n"


def test_a_file_that_can_be_run_is_the_program(capsys, tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    assert told(capsys, "-n", "2", "--unknown", str(program), "x.py")[0].command == ("x.py",)
    program.chmod(0o755)
    assert told(capsys, "-n", "2", "--unknown", str(program), "x.py")[0].command == (str(program), "x.py")


def test_a_slip_is_guessed(capsys):
    assert told(capsys, "-n", "2", "--frsh", "x.py")[1].endswith("--frsh is ignored; did you mean --fresh?\n")


def test_remarks_stand_before_the_error(capsys):
    with pytest.raises(SystemExit):
        parse(["--rank", "4", "x.py"])
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("did you mean --ranks?")
    assert second.startswith("shmrun: how many ranks?")


def test_switches_can_be_taken_back(capsys, monkeypatch):
    monkeypatch.setenv("SHMCOLL_REPORT", "yes")
    assert told(capsys, "-n", "2", "x.py")[0].report
    assert not told(capsys, "-n", "2", "--no-report", "x.py")[0].report
    assert not told(capsys, "-n", "2", "--report=off", "x.py")[0].report
