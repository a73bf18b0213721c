"""Arguments that `shmcoll.run` refuses, before it starts anything."""

import pytest

import shmcoll


@pytest.mark.parametrize(
    ("error", "text", "arguments", "options"),
    [
        (TypeError, "fn must be callable, got 'f' of type str", ("f", 2), {}),
        (TypeError, "nprocs must be an int, got 2.0 of type float", (int, 2.0), {}),
        (TypeError, "nprocs must be an int, got True of type bool", (int, True), {}),
        (TypeError, "nprocs must be an int, got '2' of type str", (int, "2"), {}),
        (ValueError, "nprocs must be at least 1, got 0", (int, 0), {}),
        (ValueError, "nprocs must be at least 1, got -3", (int, -3), {}),
        (ValueError, "method must be 'fork' or 'spawn', got 'forkserver'", (int, 2), {"method": "forkserver"}),
        (TypeError, "timeout must be a number of seconds or None, got '3'", (int, 2), {"timeout": "3"}),
        (ValueError, "timeout must be a positive number of seconds, got 0", (int, 2), {"timeout": 0}),
        (ValueError, "timeout must be a positive number of seconds, got nan", (int, 2), {"timeout": float("nan")}),
    ],
)
def test_bad_arguments(error: type[Exception], text: str, arguments: tuple, options: dict) -> None:
    with pytest.raises(error) as caught:
        shmcoll.run(*arguments, **options)
    assert str(caught.value) == text
