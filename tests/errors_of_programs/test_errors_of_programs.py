"""Wrong programs in the classes of the MPI Bugs Initiative: each is told what is wrong, and its right twin nothing."""

import inspect
import re
import sys
import traceback
from typing import Any

import pytest

from tests.errors_of_programs import call_ordering, concurrency, invalid_parameter, left_behind, parameter_matching
from tests.errors_of_programs.programs import PROGRAMS, Program, X
from tests.support import switches
from tests.support.frames import line_of

MODULES = (invalid_parameter, parameter_matching, call_ordering, concurrency, left_behind)
SLICE = 2_000_000  # ns


def run(world: Any, programs: list[Program], wrong: bool) -> list[tuple[str, str, str]]:
    """Return what this rank is told by each program: the type and the text of the error, and its innermost line."""
    told = []
    for one in programs:
        comm = world.dup()
        switches.set_slice(comm, SLICE)
        comm.timeout = one.limit if one.limit and wrong else comm.timeout
        try:
            one.call(comm, wrong)
            told.append(("", "", ""))
        except BaseException as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            told.append((type(error).__name__, str(error), f"{frame.filename}:{frame.lineno}"))
        if one.limit and wrong:
            world.barrier()  # no rank closes the group before the limit of another one has passed
        comm.close()
        world.barrier()
        if world.rank == 0:
            print(f"== {one.name}", file=sys.stderr, flush=True)
        world.barrier()
    return told


def names_its_line(pattern: str, text: str, one: Program) -> bool:
    """Return whether a text fits a pattern, in which HERE stands for a line of the program."""
    lines, first = inspect.getsourcelines(one.call)
    found = re.search(pattern.replace("HERE", rf"\S*{one.call.__module__.split('.')[-1]}\.py:(\d+)"), text, re.DOTALL)
    return found is not None and all(first <= int(line) < first + len(lines) for line in found.groups() if line)


def by_program(err: str) -> dict[str, list[str]]:
    """Return the lines on stderr that each program has caused."""
    lines: dict[str, list[str]] = {}
    mine: list[str] = []
    for line in err.splitlines():
        if line.startswith("== "):
            lines[line[3:]], mine = mine, []
        else:
            mine.append(line)
    return lines


@pytest.mark.parametrize("check", [False, True], ids=["unchecked", "checked"])
def test_wrong_programs_are_told_what_is_wrong(ranks: Any, capfd: pytest.CaptureFixture[str], check: bool) -> None:
    programs = [one for one in PROGRAMS if one.check == check]
    told = ranks(3, run, programs, True, environment={"SHMCOLL_CHECK": "1" if check else "0"})
    err = by_program(capfd.readouterr().err)
    wrong = []
    for i, one in enumerate(programs):
        for rank in range(3):
            kind, text, line = told[rank][i]
            expected = one.told.get(rank)
            if kind != (expected[0].__name__ if expected else "") or (
                expected and not (names_its_line(expected[1], text, one) and "errors_of_programs" in line)
            ):
                wrong.append((one.name, rank, kind, text, line))
        lines = err[one.name]
        if len(lines) != len(one.lines) or not all(
            any(names_its_line(pattern, line, one) for line in lines) for pattern in one.lines
        ):
            wrong.append((one.name, "stderr", lines))
    assert not wrong, "\n".join(map(str, wrong))


def test_right_programs_are_told_nothing(ranks: Any, capfd: pytest.CaptureFixture[str]) -> None:
    told = ranks(3, run, PROGRAMS, False, environment={"SHMCOLL_CHECK": "1"})
    err = by_program(capfd.readouterr().err)
    wrong = [
        (one.name, rank, *told[rank][i]) for i, one in enumerate(PROGRAMS) for rank in range(3) if told[rank][i][0]
    ]
    assert not wrong, "\n".join(map(str, wrong))
    assert {name: lines for name, lines in err.items() if lines} == {}


def leave(world: Any) -> None:
    """Each rank leaves a message in the world, and one in a group that it does not close."""
    first, second = world.dup(), world.dup()
    other = 1 - world.rank
    world.send(X, other, tag=1)
    (first if world.rank else second).send(X, other, tag=2)
    world.barrier()


def test_what_is_left_at_the_end_of_a_job_is_told(ranks: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """No rank waits for another one: they leave their groups in another order."""
    ranks(2, leave, environment={"SHMCOLL_CHECK": "1"})
    in_group = ", in the group of world ranks 0, 1"
    received = {
        f"shmcoll: rank {rank}{where}: messages were never received: from rank {1 - rank}: 1 with tag {tag}"
        for rank in range(2)
        for tag, where in ((1, ""), (2, in_group))
    }
    sent = {
        f"shmcoll: rank {rank}{where}: rank {1 - rank} has never received send(dest={1 - rank}, tag={tag}) at {line}"
        for rank in range(2)
        for tag, where, line in ((1, "", line_of(leave, 4)), (2, in_group, line_of(leave, 5)))
    }
    assert set(capfd.readouterr().err.splitlines()) == received | sent
