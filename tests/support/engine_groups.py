"""What the groups of vLLM and of SGLang have in common in tests: a rank dies between two calls."""

import os
import signal
from typing import Any

import torch

import shmcoll


def all_reduce_beside_the_dead(comm: Any, group: Any) -> Any:
    """Call twice; rank 1 is killed in between. Return what the others learn: the rank, and the text."""
    group.all_reduce(torch.ones(1))
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        group.all_reduce(torch.ones(3))
    except shmcoll.RankFailed as error:
        return error.rank, str(error)
    return None


def check_that_rank_1_is_named(outcomes: list[Any]) -> None:
    survivor, dead = outcomes
    assert dead.status == -signal.SIGKILL
    assert survivor.error is None, survivor.traceback
    assert survivor.value[0] == 1 and "rank 1" in survivor.value[1]
