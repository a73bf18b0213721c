"""The settings under which collectives are tried: the number of ranks, and how many cases are drawn."""

import pytest

from tests.support import switches

SOME = (1, 2, 3, 8)
MORE = (4, 5, 6, 7, 16)
SEVERAL = (1, 2, 3)  # for what is also tried with 8 ranks in a job of cases of all kinds
FEW = (3,)  # for ways that differ in each rank's own part only


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name, usual in (("n", SOME), ("several", SEVERAL), ("few", FEW)):
        if name in metafunc.fixturenames:
            # under stress all numbers of ranks have more cases: see `factor`
            long_forms = [n for n in (*SOME, *MORE) if _stress(metafunc.config) or n not in usual]
            marks = {8: pytest.mark.slow} | dict.fromkeys(long_forms, pytest.mark.stress)
            metafunc.parametrize(name, [pytest.param(n, marks=marks.get(n, ())) for n in (*SOME, *MORE)])


@pytest.fixture
def plain_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Go in through `PlainEntry`, for interpreters whose arrays have their fields elsewhere."""
    switches.use_entry(monkeypatch, fast=False)


@pytest.fixture
def the_other_ways(plain_entry: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """In through `PlainEntry`, and out past the caches."""
    monkeypatch.setenv("SHMCOLL_STREAM_BYTES", "128")


@pytest.fixture
def hasty_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A send without memory is refused sooner."""
    switches.set_limit("HEAP_PATIENCE", 0.1, monkeypatch)


@pytest.fixture
def factor(request: pytest.FixtureRequest) -> int:
    """How many times more cases are drawn: a sample by default; under `stress` as many as there are pairs of a form of
    an operation and a shape, so that each meets every dtype and operator."""
    return 30 if _stress(request.config) else 1


def _stress(config: pytest.Config) -> bool:
    return config.option.stress or "stress" in config.option.markexpr.replace("not stress", "")
