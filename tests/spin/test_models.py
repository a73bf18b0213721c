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
pytestmark = pytest.mark.skipif(
    not (COMPILER and shutil.which("spin")), reason="needs spin and cc (apt-get install spin gcc)"
)

Kind = tuple[tuple[str, ...], tuple[str, ...]]

#: how the verifier is built, and what it is told: assertions and ends that are none; or cycles. One that searches
#: everything is worth optimising; bugs it finds sooner where it tries what a process can do in the reverse order
SAFETY: Kind = (("-O2", "-DSAFETY"), ())
CYCLES: Kind = (("-O2", "-DNP"), ("-l",))
BUG: Kind = (("-O0", "-DSAFETY", "-DREVERSE"), ())

#: name -> (model, what stands in it once, what becomes of it)
MUTANTS = {
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
    "unlinks before all have attached": ("arena", "gather(); take_away();", "take_away(); gather();"),
    "lets in before it unlinks": (
        "arena",
        "take_away(); admit(1); admit(2);",
        "admit(1); admit(2); take_away();",
    ),
    "keeps the name when ranks do not come": (
        "arena",
        ":: late -> take_away(); goto ended",
        ":: late -> goto ended",
    ),
    "lets in who has not come": ("arena", "(registered[object] == 6 &&", "(registered[object] != 0 &&"),
    "left-overs stay": ("arena", ":: !lives(made_by(found)) -> remove()", ":: !lives(made_by(found))"),
    "removes what lives": ("arena", ":: !lives(made_by(found)) -> remove()", ":: remove()"),
    "removes without a lock": ("arena", "atomic { lock[found] == 0 -> lock[found] = me + 1 }", "skip"),
    "removes another object's name": ("arena", ":: name == found ->", ":: true ->"),
    "does not look once more for its admission": (
        "arena",
        "if :: admitted[object] & bit_of(me) -> break :: else fi",
        "skip",
    ),
}

#: what shows only where a barrier follows another
IN_TWO_BARRIERS = {"one header for all", "ABORT is not looked at"}


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


@pytest.mark.parametrize(("model", "settings"), [("barrier", {"ROUNDS": 1}), ("arena", {"KILLS": 0})])
def test_every_run_ends(tmp_path: Path, model: str, settings: dict[str, int]) -> None:
    """No state can be come to again, so no run goes on for ever; where it ends is right, says the test above."""
    judge(verify(tmp_path, source(model), CYCLES, **settings))


@pytest.mark.stress
@pytest.mark.parametrize(
    ("model", "kind", "settings"),
    [
        ("arena", SAFETY, {"KILLS": 2}),
        ("arena", CYCLES, {"KILLS": 1}),
        ("barrier", CYCLES, {"ROUNDS": 2}),
    ],
)
def test_larger_models(tmp_path: Path, model: str, kind: Kind, settings: dict[str, int]) -> None:
    judge(verify(tmp_path, source(model), kind, **settings))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_bug_in_the_model_is_found(tmp_path: Path, name: str) -> None:
    model, old, new = MUTANTS[name]
    right = source(model)
    assert right.count(old) == 1, f"{model} does not have {old!r} once"
    settings = {} if name in IN_TWO_BARRIERS or model == "arena" else {"ROUNDS": 1}
    told = verify(tmp_path, right.replace(old, new), BUG, **settings)
    assert re.search(r"errors: [1-9]", told), told
