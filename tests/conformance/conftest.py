"""The settings under which every collective is tried: number of ranks, and the thresholds that choose the algorithm."""

import importlib

import pytest

SOME = (1, 2, 3, 8)
FEW = (1, 3)  # for the other ways in and out, and where there are several algorithms
MORE = (4, 5, 6, 7, 16)

ALGORITHMS = {
    "usual": {},
    "ring": {"SHMCOLL_FLAT_BYTES": "128", "SHMCOLL_RING_BYTES": "1", "SHMCOLL_SLICE_BYTES": "512"},
    "flat": {"SHMCOLL_FLAT_BYTES": str(256 << 10), "SHMCOLL_SLICE_BYTES": "4096"},
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "n" in metafunc.fixturenames:
        # under stress all numbers of ranks have more cases: see `factor`
        usual = SOME
        if "the_other_ways" in metafunc.fixturenames or "algorithm" in metafunc.fixturenames:
            usual = FEW
        long_forms = [n for n in (*SOME, *MORE) if _stress(metafunc.config) or n not in usual]
        marks = dict.fromkeys(long_forms, pytest.mark.stress)
        metafunc.parametrize("n", [pytest.param(n, marks=marks.get(n, ())) for n in (*SOME, *MORE)])
    if "algorithm" in metafunc.fixturenames:
        metafunc.parametrize("algorithm", ALGORITHMS)


@pytest.fixture
def environment(algorithm: str) -> dict[str, str]:
    return ALGORITHMS[algorithm]


@pytest.fixture
def the_other_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """In through `PlainEntry`, for interpreters whose arrays have their fields elsewhere; out past the caches."""
    monkeypatch.setattr("shmcoll.engine.native.entry.FAST", False)
    monkeypatch.setenv("SHMCOLL_STREAM_BYTES", "128")


@pytest.fixture
def hasty_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A send without memory is refused sooner."""
    monkeypatch.setattr(importlib.import_module("shmcoll.calls.send"), "HEAP_PATIENCE", 0.1)


@pytest.fixture
def factor(request: pytest.FixtureRequest) -> int:
    """How many times more cases are drawn: a sample by default; under `stress` as many as there are pairs of a form of
    an operation and a shape, so that each meets every dtype and operator."""
    return 30 if _stress(request.config) else 1


def _stress(config: pytest.Config) -> bool:
    return config.option.stress or "stress" in config.option.markexpr
