"""Keyword arguments of the function, beside those of `shmcoll.run` itself."""

import functools
from typing import Any

import pytest

import shmcoll


def patient(x: int = 0, timeout: float = 1.5, *, method: str = "none") -> tuple[int, float, str]:
    return x, timeout, method


def test_keywords_go_to_the_function() -> None:
    def scaled(x: int, *, by: int, **others: int) -> tuple[int, dict[str, int]]:
        return x * by * shmcoll.init().rank, others

    assert shmcoll.run(scaled, 2, 3, by=10, of=1, n=2) == [(0, {"of": 1, "n": 2}), (30, {"of": 1, "n": 2})]


@pytest.mark.parametrize("options", [{"timeout": 30.0}, {"method": "spawn"}, {"timeout": 30.0, "x": 1}])
def test_an_option_that_the_function_has_too_is_refused(options: dict[str, Any]) -> None:
    name = next(iter(options))
    with pytest.raises(TypeError) as caught:
        shmcoll.run(patient, 1, **options)
    assert str(caught.value) == (
        f"{name}={options[name]!r} is unclear: shmcoll.run and the function patient both have a parameter {name}. "
        f"For the function, bind it: functools.partial(fn, {name}=...). "
        f"For shmcoll.run, bind the function's as well, or give it by position."
    )


def test_the_two_ways_that_the_refusal_names_work() -> None:
    assert shmcoll.run(functools.partial(patient, timeout=7.0), 1) == [(0, 7.0, "none")]
    assert shmcoll.run(functools.partial(patient, timeout=7.0), 1, timeout=30.0) == [(0, 7.0, "none")]
    assert shmcoll.run(patient, 1, 2, 7.0, timeout=30.0) == [(2, 7.0, "none")]
    with pytest.raises(TimeoutError):
        shmcoll.run(functools.partial(_sleep, timeout=60.0), 1, timeout=0.3)


def _sleep(timeout: float) -> None:
    import time

    time.sleep(timeout)


def test_an_option_is_clear_where_the_function_takes_any_keyword() -> None:
    def anything(**keywords: int) -> dict[str, int]:
        return keywords

    assert shmcoll.run(anything, 1, timeout=30.0, a=1) == [{"a": 1}]
    assert shmcoll.run(dict, 1, timeout=30.0, a=1) == [{"a": 1}]


def test_a_keyword_that_the_function_does_not_take_is_the_functions_error() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'scale'") as caught:
        shmcoll.run(_sleep, 1, scale=3)
    assert caught.value.__notes__ == ["raised by rank 0 of shmcoll.run"]


def test_ranks_that_stay_take_keywords_too() -> None:
    with shmcoll.ranks(1) as r:
        assert r.run(divmod, 7, 2) == [(3, 1)]
        assert r.run(dict, a=1, method="mine", on_failure="mine") == [{"a": 1, "method": "mine", "on_failure": "mine"}]
        with pytest.raises(TypeError, match=r"timeout=3 is unclear: Ranks.run and the function patient both"):
            r.run(patient, timeout=3)
