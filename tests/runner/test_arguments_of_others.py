"""Wrong arguments of `shmcoll.run`, `map` and `ranks`, and those that other libraries have."""

import re
from importlib.util import find_spec

import pytest

import shmcoll
from shmcoll.runner import api, mapping, pool
from tests.support.wrong_calls import wrong_calls


def nothing() -> None:
    pass


def test_all_are_refused_in_one_line(monkeypatch):
    """None of these calls starts anything."""
    monkeypatch.setattr(api, "_run", lambda *_: [])
    monkeypatch.setattr(mapping, "start", lambda *_: [])
    monkeypatch.setattr(pool, "Ranks", lambda *_: None)
    told = []
    for call in wrong_calls(shmcoll, ["run", "map", "imap", "ranks"]):
        try:
            getattr(shmcoll, call.method)(*call.args, **call.keywords)
        except (TypeError, ValueError) as error:
            text = str(error)
            if "\n" in text or len(text) > 250 or re.search(r"(?<![\w.])_\w", text):
                told.append(f"{call.what}: {text}")
        except RuntimeError as error:  # of an object that raises
            assert "not " in str(error), call.what
    assert not told, "\n".join(told)


UNEXPECTED = "got an unexpected keyword argument"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: shmcoll.map(len, [1], n_jobs=2), f"shmcoll.map() {UNEXPECTED} 'n_jobs'; did you mean n=?"),
        (lambda: shmcoll.map(len, [1], max_workers=2), f"shmcoll.map() {UNEXPECTED} 'max_workers'; did you mean n=?"),
        (lambda: shmcoll.map(len, [1], chunksize=2), f"shmcoll.map() {UNEXPECTED} 'chunksize'; did you mean chunk=?"),
        (lambda: shmcoll.imap(len, [1], verbose=1), f"shmcoll.imap() {UNEXPECTED} 'verbose'; did you mean progress=?"),
        (lambda: shmcoll.map(func=len), "map() missing 1 required positional argument: 'fn'"),
        (lambda: shmcoll.map(len), "shmcoll.map needs an iterable of the arguments of fn: shmcoll.map(len, items)"),
        (
            lambda: shmcoll.map(len, [1], 2),
            "the iterables must be one of the arguments of fn, got 2; did you mean n=2?",
        ),
        (lambda: shmcoll.map([1], len), "got [1] of type list; did you mean shmcoll.map(len, [1])?"),
        (lambda: shmcoll.ranks(2, backend="fork"), f"shmcoll.ranks() {UNEXPECTED} 'backend'; did you mean method=?"),
        (lambda: shmcoll.ranks(processes=2), "ranks() missing 1 required positional argument: 'n'"),
        (lambda: shmcoll.run(nothing, 2, n_jobs=2), f"shmcoll.run() {UNEXPECTED} 'n_jobs'; did you mean nprocs=?"),
        (lambda: shmcoll.run(nothing, processes=2), "run() missing 1 required positional argument: 'nprocs'"),
        (lambda: shmcoll.run(2, nothing), "got 2 of type int; did you mean shmcoll.run(nothing, 2)?"),
        (lambda: shmcoll.run(nothing(), 2), "pass the function itself, and not what a call of it returns"),
    ],
)
def test_what_they_are_called_here(call, text):
    with pytest.raises(TypeError) as told:
        call()
    assert str(told.value).endswith(text)


@pytest.mark.parametrize("package", ["mindspore", "nki", "mpi4py"])
def test_a_package_that_is_missing(package):
    """The note of the error says what replaces it, in every kind of job."""
    if find_spec(package):
        pytest.skip(f"{package} is installed")

    def imports() -> None:
        __import__(package)

    for start in (lambda: shmcoll.run(imports, 1), call_of_ranks_that_stay(imports)):
        with pytest.raises(ModuleNotFoundError) as told:
            start()
        assert [note for note in told.value.__notes__ if package in note and "shmcoll" in note]


def call_of_ranks_that_stay(function):
    def call() -> None:
        with shmcoll.ranks(1) as ranks:
            ranks.run(function)

    return call
