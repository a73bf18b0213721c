"""`shmcoll.run` raises what an asynchronous call has raised that the function has not waited for."""

import numpy as np
import pytest

import shmcoll

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_failure_is_raised(method):
    def alone(kept: list) -> int:
        comm = shmcoll.init()
        kept.append(comm.all_reduce(np.ones(3), "median", async_op=True))
        return comm.rank

    with pytest.raises(ValueError, match="unknown op 'median'") as told:
        shmcoll.run(alone, 1, [], method=method)
    assert any("nobody waited for" in note for note in told.value.__notes__)


def test_who_waits_gets_results():
    def waits() -> int:
        comm = shmcoll.init()
        with pytest.raises(ValueError):
            comm.all_reduce(np.ones(3), "median", async_op=True).wait()
        comm.recv(source=comm.rank, async_op=True).cancel()
        return comm.rank

    assert shmcoll.run(waits, 2) == [0, 1]
