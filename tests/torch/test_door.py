"""`shmbench --door torch` and `shmbench compare --door torch`, on ranks of the test process."""

from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: make test-torch")

from shmbench.commands import door


def calls_of_the_door(_comm: Any) -> list[door.Line]:
    return door._on_rank("torch", 1, "", compares=False, quick=False)


def test_the_door_gives_what_native_calls_give(ranks: Any) -> None:
    lines, _ = ranks(2, calls_of_the_door)
    assert {"all_reduce", "all_to_all_single", "barrier"} <= {line.name for line in lines}
    assert [line.name for line in lines if line.wrong] == []


def rivals_of_the_door(_comm: Any) -> list[door.Line]:
    return door._on_rank("torch", 1, "", compares=True, quick=True)


@pytest.mark.slow
def test_torch_is_measured_beside_gloo(ranks: Any) -> None:
    lines, _ = ranks(2, rivals_of_the_door)
    assert [line.name for line in lines if line.wrong] == []
    for line in lines:
        assert {"gloo", "shmcoll"} <= set(line.microseconds)
        assert line.name in door._compared(line)
        assert ("operator" in line.microseconds) == line.name.startswith("inference: ")
    assert "tokens in a second" in door._compared(lines[-1])


def test_it_wants_a_door_with_rivals(capsys: Any) -> None:
    with pytest.raises(SystemExit) as caught:
        door.main(["compare", "--door", "nki"])
    assert caught.value.code == 2
    assert "unknown door 'nki': choose one of map, mpi, torch" in capsys.readouterr().err
