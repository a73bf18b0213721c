"""A function that prints an exception by `sys.excepthook` has not failed, and what it prints is seen."""

import sys

import pytest

import shmcoll

pytestmark = pytest.mark.slow


def test_a_rank_that_prints_an_exception_lives(capfd):
    def work() -> int:
        comm = shmcoll.init()
        if comm.rank == 0:
            try:
                raise ValueError("printed")
            except ValueError:
                sys.excepthook(*sys.exc_info())
        return comm.all_reduce(1)

    assert shmcoll.run(work, 2) == [2, 2]
    assert capfd.readouterr().err.count("ValueError: printed\n") == 1
