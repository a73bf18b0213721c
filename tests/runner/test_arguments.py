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
        (
            TypeError,
            "shmcoll.run got nprocs=2 and 7 in its place, the second; the arguments of the function come after the "
            "number of ranks: shmcoll.run(int, 2, 7, 'x')",
            (int, 7, "x"),
            {"nprocs": 2},
        ),
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


def test_ranks_are_not_a_function() -> None:
    with shmcoll.ranks(1) as r:
        for call, meant in (
            (lambda: r(int, "7"), "r.run(int, ...)"),
            (lambda: r(int), "r.run(int)"),
            (lambda: r(), "r.run(fn)"),
        ):
            with pytest.raises(TypeError) as caught:
                call()
            assert str(caught.value) == f"a Ranks object is not a function; call one on its ranks: {meant}"
        assert r.run(int, "7") == [7]
