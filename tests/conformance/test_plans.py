"""Plans on real ranks: each operation, in and out of place, with inputs that change between the calls."""

from functools import partial
from typing import Any

import numpy as np
import pytest

import shmcoll
from tests.support.wrong_arguments import LAYOUTS, copied, right


def every_operation(comm) -> list[str]:
    """What differs from the methods, after three calls of each plan."""
    n, rank, wrong = comm.size, comm.rank, []
    block = np.zeros(6, np.int64)
    whole = np.zeros(6 * n, np.int64)
    calls = {
        "all_reduce": [((block, "max"), {}), ((block,), {"out": block.copy()}), ((block,), {"out": block})],
        "reduce": [((block,), {"root": n - 1, "out": np.empty_like(block) if rank == n - 1 else None})],
        "reduce_scatter": [((whole, "prod"), {})],
        "scan": [((block, "min"), {"algorithm": "flat"})],
        "exscan": [((block,), {})],
        "broadcast": [((block, n - 1), {})],
        "all_gather": [((block,), {"out": np.empty_like(whole)})],
        "gather": [((block,), {"root": 0})],
        "scatter": [((whole if rank == 0 else None,), {"out": np.empty_like(block)})],
        "all_to_all": [((whole,), {}), ((whole.reshape(n, 6), 0, 1), {})],
        "collective_permute": [((block, [(0, n - 1)]), {}), ((block, [(n - 1, 0)]), {"out": block})],
        "barrier": [((), {})],
    }
    for operation, several in calls.items():
        for args, keywords in several:
            plan = comm.plan(operation, *args, **keywords)
            for i in range(3):
                for fresh in (block, whole):
                    fresh[:] = np.arange(fresh.size) * (i + 2) + rank
                keywords_now = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in keywords.items()}
                args_now = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
                wanted = getattr(comm, operation)(*args_now, **keywords_now)
                got = plan.start().wait() if i == 2 else plan()
                if not np.array_equal(got, wanted):
                    wrong.append(f"{plan} {keywords} call {i}: {got}, not {wanted}")
                if keywords.get("out") is not None and got is not keywords["out"]:
                    wrong.append(f"{plan}: out was not returned")
    return wrong


def test_every_operation(ranks, n):
    assert ranks(n, every_operation) == [[]] * n


def operators(comm) -> list:
    x = np.arange(4.0) + comm.rank
    plans = [
        comm.plan("all_reduce", x, "avg"),
        comm.plan("all_reduce", x.astype(np.float16), "sum", algorithm="flat"),
        comm.plan("all_reduce", x, shmcoll.op(first_if_greater)),
    ]
    return [plan().tolist() for plan in plans]


def first_if_greater(a, b):
    return a if a > b else b


@pytest.mark.slow
def test_operators(ranks):
    assert ranks(2, operators) == [[[0.5, 1.5, 2.5, 3.5], [1.0, 3.0, 5.0, 7.0], [1.0, 2.0, 3.0, 4.0]]] * 2


def refused(comm) -> list[str]:
    x = np.ones(4)
    told = []
    for operation, args, keywords in (
        ("split", (0,), {}),
        ("all_reduce", ([1.0, 2.0],), {}),
        ("all_reduce", (x[::2],), {}),
        ("all_reduce", (x,), {"out": np.ones((4, 2))[:, 0]}),
        ("all_reduce", (x, shmcoll.premul_sum(2.0)), {}),
        ("all_reduce", (x,), {"async_op": True}),
        ("all_reduce", (x, "xor"), {}),
        ("all_reduce", (x,), {"out": np.ones(3)}),
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            comm.plan(operation, *args, **keywords)
        told.append(str(caught.value))
    comm.barrier()
    return told


def test_what_cannot_be_planned_is_refused(ranks):
    told = ranks(1, refused)[0]
    copied = "would be copied at every call: "
    assert told[0].startswith("plan on rank 0: there is no plan of 'split'; there are plans of barrier, all_reduce, ")
    assert told[1] == "plan of all_reduce on rank 0: x must be a numpy array, to be used in place; got a list"
    assert told[2] == f"plan of all_reduce on rank 0: x {copied}it is not C-contiguous"
    assert told[3] == f"plan of all_reduce on rank 0: out {copied}it is not C-contiguous"
    assert told[4] == f"plan of all_reduce on rank 0: x {copied}the operation converts its dtype float64"
    assert told[5] == "plan of all_reduce on rank 0: async_op belongs to the call; use plan.start()"
    assert "xor" in told[6]
    assert "shape" in told[7]


def receiver_without_out(comm) -> str:
    if comm.rank == 0:
        return ""
    with pytest.raises(ValueError, match="pass out") as caught:
        comm.plan("scatter", None, 0)
    return str(caught.value)


def test_a_result_of_unknown_size_is_refused(ranks):
    assert ranks(2, receiver_without_out)[1] == (
        "plan of scatter on rank 1: only the call finds out the size of its result; pass out"
    )


def of_layouts(comm) -> list[str]:
    """Every call with arrays of every layout, in place, too: its plan does the same, or says why not."""
    told, other = [], (comm.rank + 1) % comm.size

    def made(operation: str, call: Any) -> np.ndarray:
        """The result of a call; of a send, what the other rank gets."""
        if operation == "recv":
            comm.send(np.full(12, comm.rank, "f4"), other, 1)
        result = call()
        result = comm.recv(source=other) if operation == "send" else result
        return np.asarray(result[0] if isinstance(result, tuple) else result)

    for operation, values in right(comm).items():
        for name, layout in ((name, layout) for name in ("x", "out") if name in values for layout in LAYOUTS):
            if (name, layout) == ("out", "swapped"):  # which is another dtype
                continue

            def arguments(operation: str = operation, name: str = name, layout: str = layout) -> dict[str, Any]:
                fresh = right(comm)[operation]
                fresh |= dict(copied(name, fresh)).get(layout, {})
                for i, one in enumerate(value for value in fresh.values() if isinstance(value, np.ndarray)):
                    one[...] = np.arange(one.size).reshape(one.shape) * (i + 1) + comm.rank
                return fresh

            what = f"{operation}({name}: {layout})"
            wanted, refused = made(operation, partial(getattr(comm, operation), **arguments())), ""
            try:
                plan = comm.plan(operation, **arguments())
            except ValueError as error:
                refused = str(error)
            if any(comm.all_gather_object(refused)):
                if refused and not any(why in refused for why in WHY):
                    told.append(f"{what}: {refused}")
                if operation in IN_PLACE and layout in ("shifted", "the same"):
                    told.append(f"{what}: {refused}")
            elif not np.array_equal(made(operation, plan), wanted):
                told.append(f"{what}: another result")
    return told


#: what works on overlapping arrays in a plan as in a call
IN_PLACE = ("all_to_all_v", "all_gather_v", "gather_v", "scatter_v", "reduce_scatter_v")
WHY = (
    "x would be copied at every call: it ",
    "out would be copied at every call: it ",
    "out must be a numpy array, to be used in place; got a memoryview",
    "x must be a numpy array, to be used in place; got a memoryview",
)


def test_a_plan_takes_what_its_call_takes_or_says_why_not(ranks):
    for told in ranks(2, of_layouts):
        assert not told, "\n".join(told)
