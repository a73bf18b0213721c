"""Every call in groups of 2 and 4 actors, of numpy arrays and of tensors of torch, and over gloo where torch is there.

Prints the names of what is wrong.
"""

import importlib.util

import members
import numpy as np
import ray
from members import eight_calls, joined, on_all, other_calls


def as_array(array):
    return array


def as_tensor(array):
    import torch

    return torch.from_numpy(array)


def as_strided(array):
    """A tensor whose elements are not next to each other."""
    import torch

    return torch.from_numpy(np.stack([array, array], -1))[..., 0]


def differences(where, ours, theirs):
    return [
        f"{where}, rank {rank}: {name}: {ours[rank][name]} is not {value}"
        for rank, told in enumerate(theirs)
        for name, value in told.items()
        if not np.array_equal(ours[rank][name], value)
    ]


def expected(n):
    """What the calls of `other_calls` give."""
    return [
        {
            "gather": [[part] * 2 if rank == 1 else [0, 0] for part in range(n)],
            "scatter": [rank, rank],
            "alltoall": [[10 * part + rank] for part in range(n)],
            "rows": [[part] * 2 for part in range(n) for _ in range(part)],
        }
        for rank in range(n)
    ]


def in_a_group(n, makes):
    group = joined(members.members(n))
    wrong = []
    of_numpy = on_all(group, eight_calls, as_array)
    for make in makes:
        wrong += differences(f"{make.__name__}, {n}", on_all(group, eight_calls, make), of_numpy)
        wrong += differences(f"{make.__name__}, {n}", on_all(group, other_calls, make), expected(n))
    if len(makes) > 1:
        over_gloo = joined(members.members(n, namespace="gloo"), backend="gloo")
        wrong += differences(f"gloo, {n}", of_numpy, on_all(over_gloo, eight_calls, as_array))
        for actor in over_gloo:
            ray.kill(actor)
    for actor in group:
        ray.kill(actor)
    return wrong


members.start()
has_torch = importlib.util.find_spec("torch") is not None
tried = [as_array, as_tensor, as_strided] if has_torch else [as_array]
print("gloo beside it" if has_torch else "without gloo")
print(*in_a_group(2, tried), *in_a_group(4, tried), sep="\n")
