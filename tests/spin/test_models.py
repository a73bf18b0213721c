"""Spin searches the whole state space of two models of the protocol, and finds each bug that is put into them.

The models say in their heads which word of theirs is which word of ours, and what they claim. Needs `spin` and a C
compiler (Debian and Ubuntu: apt-get install spin gcc); without them these tests are skipped.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (COMPILER and shutil.which("spin")), reason="needs spin and cc (apt-get install spin gcc)"),
]

Kind = tuple[tuple[str, ...], tuple[str, ...]]

#: how the verifier is built, and what it is told: assertions and ends that are none; or cycles. One that searches
#: everything is worth optimising; bugs it finds sooner where it tries what a process can do in the reverse order
SAFETY: Kind = (("-O2", "-DSAFETY"), ())
CYCLES: Kind = (("-O2", "-DNP"), ("-l",))
BUG: Kind = (("-O0", "-DSAFETY", "-DREVERSE"), ())

#: name -> (model, what is in it once, what replaces that; further pairs)
MUTANTS: dict[str, tuple[str, ...]] = {
    "no look after parking": ("barrier", "                look();", "                status = PREPARE;"),
    "rings before it stores": ("barrier", "publish(); wake();", "wake(); publish();"),
    "ABORT is not looked at": ("barrier", ":: ended -> status = ABORTED", ":: false -> status = ABORTED"),
    "records are not looked at": ("barrier", ":: record[peer] -> status", ":: false -> status"),
    "the word does not count after a failure": (
        "barrier",
        "again:\n    atomic { if :: REACHED(peer, s)",
        "again:\n    atomic { if :: false",
    ),
    "the launcher rings nobody": ("barrier", "    ended = 1;\n    ring_all()\n}", "    ended = 1\n}"),
    "waits for the barrier before": (
        "barrier",
        ":: REACHED(peer, s) -> goto arrived",
        ":: REACHED(peer, s - 1) -> goto arrived",
    ),
    "one header for all": ("barrier", "(2 * (rank) + ((s) & 1))", "(2 * (rank))"),
    "lets in before all have registered": ("arena", "gather(); take_away();", "take_away(); gather();"),
    "lets in before the name is removed": (
        "arena",
        "take_away(); admit(1); admit(2);",
        "admit(1); admit(2); take_away();",
    ),
    "keeps the name when it withdraws": (
        "arena",
        "        stage[mine] = WITHDRAWN;\n        take_away();",
        "        stage[mine] = WITHDRAWN;",
    ),
    "lists the names before it has one": (
        "arena",
        "        named[mine] = 1;\nscan:",
        "scan:",
        "        open_for_all();",
        "        named[mine] = 1; open_for_all();",
    ),
    "opens beside a claimed arena": (
        "arena",
        ":: stage[arena] == CLAIMED ->\n                if\n                :: before(arena, mine) -> goto withdraw",
        ":: stage[arena] == CLAIMED ->\n                if\n                :: before(arena, mine)",
    ),
    "opens beside an open arena": (
        "arena",
        ":: stage[arena] == OPEN -> goto withdraw",
        ":: stage[arena] == OPEN",
    ),
    "each waits for the other": ("arena", "((a) < (b))", "false"),
    "withdraws for no reason": ("arena", ":: stage[arena] >= CLOSED\n", ":: stage[arena] >= CLOSED -> goto withdraw\n"),
    "opens after one change": ("arena", "stage[arena] != CLAIMED) -> goto scan", "stage[arena] != CLAIMED)"),
    "closes when one rank has registered": (
        "arena",
        ":: (is_there(mine, 1) && is_there(mine, 2)) ->",
        ":: (is_there(mine, 1)) ->",
        ":: is_there(mine, 2) -> close_to_newcomers()",
        ":: true -> close_to_newcomers()",
    ),
    "closes without the lock": (
        "arena",
        ":: atomic { lock[mine] == 0 -> lock[mine] = me + 1 }\n        :: late",
        ":: true\n        :: late",
    ),
    "never closes": (
        "arena",
        "inline close_to_newcomers() { stage[mine] = CLOSED }",
        "inline close_to_newcomers() { skip }",
    ),
    "registers in a closed arena": (
        "arena",
        ":: (stage[mine] != OPEN || !lives(made_by(mine))) -> unlock(mine); goto next",
        ":: false -> unlock(mine); goto next",
    ),
    "registers a rank twice": ("arena", ":: is_there(mine, rank) -> unlock", ":: false -> unlock"),
    "registers without a lock": (
        "arena",
        ":: atomic { lock[mine] == 0 -> lock[mine] = me + 1 }\n                ::",
        ":: true\n                ::",
    ),
    "a rank that was let in leaves": (
        "arena",
        "if :: ADMITTED(mine, rank) == me -> joined[me] = mine; break :: else fi",
        "skip",
    ),
    "left-overs stay": (
        "arena",
        "named[arena] = named[arena] && lives(made_by(arena))",
        "skip",
    ),
    "removes what lives": (
        "arena",
        ":: !lives(made_by(mine)) -> remove_leftover(mine)",
        ":: true -> remove_leftover(mine)",
    ),
}

#: what shows only where a barrier follows another
IN_TWO_BARRIERS = {"one header for all", "ABORT is not looked at"}

#: what shows only where two processes claim to be the same rank
WITH_A_RANK_TWICE = {
    "closes without the lock",
    "registers in a closed arena",
    "registers a rank twice",
    "registers without a lock",
}

THREE_RANK_0S = {"CREATORS": 3, "JOINERS": 0}
A_RANK_TWICE = {"CREATORS": 1, "JOINERS": 3}


def verify(folder: Path, source: str, kind: Kind, **settings: int) -> str:
    """What the verifier of a model prints."""
    (folder / "model.pml").write_text(source)
    defined = [f"-D{name}={value}" for name, value in settings.items()]
    options, arguments = kind
    for command in (
        ["spin", "-a", *defined, "model.pml"],
        [str(COMPILER), "-w", *options, "-o", "pan", "pan.c"],
    ):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    verifier = ["./pan", *arguments, "-m100000", "-w24"]
    return subprocess.run(verifier, cwd=folder, check=True, capture_output=True, text=True, timeout=600).stdout


def judge(told: str) -> None:
    assert "Full statespace search" in told
    assert not re.search(r"max search depth too small|out of memory|Bit ?[Ss]tate", told), told
    assert re.search(r"errors: 0$", told, re.MULTILINE), told
    states = re.search(r"^ *([\d.e+]+) states, stored", told, re.MULTILINE)
    assert states
    print(f"{float(states[1]):,.0f} states, errors: 0")


def source(model: str) -> str:
    return (HERE / f"{model}.pml").read_text()


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("barrier", {"ROUNDS": 1}),
        pytest.param("barrier", {"ROUNDS": 2}, marks=pytest.mark.stress),
        ("arena", {"KILLS": 1}),
    ],
)
def test_every_state_is_right(tmp_path: Path, model: str, settings: dict[str, int]) -> None:
    told = verify(tmp_path, source(model), SAFETY, **settings)
    judge(told)
    unreached = re.findall(r"\((\d+) of \d+ states\)", told)
    assert unreached and set(unreached) == {"0"}, "a part of the model is never reached"


@pytest.mark.stress
@pytest.mark.parametrize("settings", [{**THREE_RANK_0S, "KILLS": 0}, A_RANK_TWICE])
def test_more_processes_than_ranks(tmp_path: Path, settings: dict[str, int]) -> None:
    """Parts of the model are left out, so not all of it is reached."""
    judge(verify(tmp_path, source("arena"), SAFETY, **settings))


@pytest.mark.stress
@pytest.mark.parametrize(("model", "settings"), [("barrier", {"ROUNDS": 1}), ("arena", {"KILLS": 0})])
def test_every_run_ends(tmp_path: Path, model: str, settings: dict[str, int]) -> None:
    """No state can be come to again, so no run goes on for ever; where it ends is right, says the test above."""
    judge(verify(tmp_path, source(model), CYCLES, **settings))


@pytest.mark.stress
@pytest.mark.parametrize(
    ("model", "kind", "settings"),
    [
        ("arena", SAFETY, {"CREATORS": 1, "KILLS": 2}),
        ("arena", SAFETY, {**THREE_RANK_0S, "KILLS": 2}),
        ("arena", SAFETY, {**A_RANK_TWICE, "KILLS": 2}),
        ("arena", CYCLES, {"KILLS": 1}),
        ("arena", CYCLES, THREE_RANK_0S),
        ("arena", CYCLES, A_RANK_TWICE),
        ("barrier", CYCLES, {"ROUNDS": 2}),
    ],
)
def test_larger_models(tmp_path: Path, model: str, kind: Kind, settings: dict[str, int]) -> None:
    judge(verify(tmp_path, source(model), kind, **settings))


@pytest.mark.stress
@pytest.mark.parametrize("name", MUTANTS)
def test_a_bug_in_the_model_is_found(tmp_path: Path, name: str) -> None:
    model, *changes = MUTANTS[name]
    wrong = source(model)
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert wrong.count(old) == 1, f"{model} does not have {old!r} once"
        wrong = wrong.replace(old, new)
    if model == "barrier":
        settings = {} if name in IN_TWO_BARRIERS else {"ROUNDS": 1}
    else:
        settings = A_RANK_TWICE if name in WITH_A_RANK_TWICE else {}
    told = verify(tmp_path, wrong, BUG, **settings)
    assert re.search(r"errors: [1-9]", told), told
