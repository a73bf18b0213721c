"""A call that is refused has changed nothing: every byte of every argument, and the memory around it, is as before.

Its traceback has at most one frame of ours.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import shmcoll
from tests.support.frames import ours
from tests.support.wrong_arguments import ROOM, array, batches, copied, memory, right, wrong

REDUCING = ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_v", "scan", "exscan")
MESSAGES = ("send", "recv", "sendrecv")
LOCAL = (TypeError, ValueError, IndexError)


class Judge:
    """Calls that must be refused, and what was wrong with any."""

    def __init__(self) -> None:
        self.refused = 0
        self.told: list[str] = []

    def attempt(
        self, what: str, call: Callable[..., Any], given: dict[str, Any], kinds: Any = LOCAL, *, needed: bool = True
    ) -> bool:
        """Make a call; return whether it was refused."""
        arguments = list(given.values())
        before, error = memory(arguments), None
        for size in {len(one) for one in before}:  # what is allocated and not written has other bytes than arguments
            for less in (0, 2 * ROOM):
                np.full(max(size - less, 0), 0x5A, np.uint8)
        try:
            call(**given)
        except Exception as raised:
            error = raised
        if memory(arguments) != before:
            self.told.append(f"{what}: bytes have changed ({error})")
        if needed and not isinstance(error, kinds):
            self.told.append(f"{what}: {error!r}")
        if error is not None and len(found := ours(error)) > 1:
            self.told.append(f"{what}: frames of ours: {found}")
        self.refused += error is not None
        return error is not None

    def attempt_both(self, what: str, call: Callable[..., Any], given: dict[str, Any], kinds: Any = LOCAL) -> None:
        """Make a call, and make it asynchronously."""
        self.attempt(what, call, given, kinds)
        self.attempt(f"{what}, later", lambda **them: call(**them, async_op=True).wait(), given, kinds)


def of_one_rank(comm: Any) -> tuple[int, list[str]]:
    """The plan of a call says whether this rank uses an argument. If so, the call is refused as well, in each form."""
    judge = Judge()
    for operation, values in right(comm).items():
        plan = partial(comm.plan, operation)
        for name in values:
            for what, one in wrong(name, values, reduces=operation in REDUCING):
                given = right(comm)[operation] | {name: one}
                what = f"{operation}({name}: {what})"
                if not judge.attempt(f"plan of {what}", plan, given, needed=False):
                    continue
                judge.attempt_both(what, getattr(comm, operation), given)
                if operation in ("send", "recv"):
                    both = right(comm)["send"] | right(comm)["recv"] | given
                    judge.attempt(f"batch of {what}", lambda **them: comm.batch(batches(them)), both)
            for what, some in copied(name, values):
                judge.attempt(f"plan of {operation}({what})", plan, right(comm)[operation] | some, needed=False)
    return judge.refused, judge.told


def test_of_one_rank(ranks):
    for refused, told in ranks(2, of_one_rank):
        assert not told, "\n".join(told)
        assert refused > 1000


def of_groups_with_neighbours(comm: Any) -> tuple[int, list[str]]:
    """What has no plan: halos, graphs, objects, and a message that has been taken."""
    judge, other = Judge(), (comm.rank + 1) % comm.size
    grid, graph = comm.grid(comm.size), comm.graph([other])
    calls: dict[str, tuple[Any, dict[str, Any]]] = {
        "exchange": (grid.exchange, {"x": array((9, 2)), "width": 1, "axes": 0}),
        "graph.all_gather": (graph.all_gather, {"x": array((4, 3)), "out": array((4, 3))}),
        "graph.all_to_all": (graph.all_to_all, {"x": array((4, 3)), "out": array((4, 3))}),
        "graph.all_gather_v": (graph.all_gather_v, {"x": array((4, 3))}),
        "graph.all_to_all_v": (graph.all_to_all_v, {"x": array((4, 3)), "send_counts": [12]}),
        "broadcast_object": (comm.broadcast_object, {"value": [array(4)], "root": 0}),
        "gather_object": (comm.gather_object, {"value": [array(4)], "root": 0}),
        "scatter_object": (comm.scatter_object, {"values": [array(4)] * comm.size, "root": 0}),
        "reduce_object": (comm.reduce_object, {"value": array(4), "root": 0}),
        "send_object": (comm.send_object, {"value": array(4), "dest": other, "tag": 0}),
        "recv_object": (comm.recv_object, {"source": other, "tag": 0}),
    }
    for operation, (method, values) in calls.items():
        for name in values:
            listed = list(wrong(name, values))
            if operation == "exchange" and name == "x":
                listed += [*copied(name, values), *wrong("out", {"out": array((2, 2))})]
                listed = [(what, one) for what, one in listed if what not in ("subclass", "shape")]
            for what, one in listed:
                given = values | (one if isinstance(one, dict) else {name: one})
                judge.attempt_both(f"{operation}({name}: {what})", method, given)
    comm.send(array(12), comm.rank)
    taken = comm.mprobe(comm.rank)
    for what, one in wrong("out", {"out": array((4, 3))}):
        if what != "shape":  # a longer one is welcome
            judge.attempt(f"Message.recv({what})", taken.recv, {"out": one})
    graph.close()
    return judge.refused, judge.told


def test_of_groups_with_neighbours(ranks):
    for refused, told in ranks(2, of_groups_with_neighbours):
        assert not told, "\n".join(told)
        assert refused > 100


LONG = 240  # elements of a scatter that all ranks enter together
AHEAD = ("broadcast", "gather", "reduce", "scan", "exscan")  # here of few bytes: a rank may have its result at once


def of_all_ranks(comm: Any) -> list[str]:
    """What the ranks find together, and what a receiver finds: the group lives on."""
    judge, n, rank = Judge(), comm.size, comm.rank
    odd = rank == 1
    for layout in ("apart", "strided", "shared"):

        def x(dtype: Any = "f4", layout: str = layout, count: int = 12) -> np.ndarray:
            return array((count, 2), dtype)[:, 0] if layout == "strided" else array(count, dtype)

        def out(count: int, dtype: Any = "f4", layout: str = layout) -> np.ndarray:
            return array((count, 2), dtype)[:, 0] if layout == "strided" else array(count, dtype)

        cases: dict[str, dict[str, Any]] = {
            "scatter: shape": {"x": x(count=LONG), "out": out(LONG // n + odd)},
            "scatter: dtype": {"x": x(count=LONG), "out": out(LONG // n, "f8" if odd else "f4")},
            "scatter: text": {"x": x("S4", count=LONG), "out": out(LONG // n, "V4" if odd else "S4")},
            "scatter_v: short": {"x": x(), "send_counts": [6] * n, "out": out(6 - odd)},
            "scatter_v: dtype": {"x": x(), "send_counts": [6] * n, "out": out(6, "f8" if odd else "f4")},
            "gather_v: counts": {"x": x(), "root": 1, "recv_counts": [12, 11], "out": out(24)},
            "gather_v: short": {"x": x(), "root": 1, "out": out(23)},
            "gather_v: over one another": {"x": x(), "root": 1, "recv_displs": [0, 5], "out": out(24)},
            "all_gather_v: short": {"x": x(), "out": out(24 - odd)},
            "all_gather_v: counts": {"x": x(), "recv_counts": [12, 12 - odd], "out": out(24)},
            "all_to_all_v: counts": {"x": x(), "send_counts": [6] * n, "recv_counts": [6, 6 + odd], "out": out(13)},
            "all_to_all_v: short": {"x": x(), "send_counts": [6] * n, "out": out(12 - odd)},
            "all_to_all_v: beyond": {"x": x(), "send_counts": [6] * n, "send_displs": [0, 6 + odd], "out": out(12)},
            "all_to_all_v: room": {"x": x(), "send_counts": [6] * n, "recv_room": [6, 6 - odd], "out": out(12)},
        }
        for what, values in cases.items():
            operation = what.partition(":")[0]
            if layout == "shared" and values["x"].dtype == values["out"].dtype:
                room = np.concatenate([values["x"], values["out"]])
                values |= {"x": room[3 : 3 + values["x"].size], "out": room[: values["out"].size]}
            judge.attempt_both(f"{what}, {layout}", getattr(comm, operation), values, ValueError)
        for what, one in {"dtype": out(12, "f8"), "short": out(11), "text": out(12, "i4")}.items():
            comm.send(array(12), rank)
            judge.attempt_both(f"recv: {what}", partial(comm.recv, source=rank), {"out": one})
            judge.attempt(f"batch: {what}", lambda out: comm.batch([shmcoll.Recv(out, rank)])[0].wait(), {"out": one})
            if comm.recv(source=rank)[0].size != 12:
                judge.told.append(f"{what}: the message has not stayed")
        comm.barrier()
    return judge.told


def test_of_all_ranks(ranks):
    for told in ranks(2, of_all_ranks):
        assert not told, "\n".join(told)


def of_mismatches(comm: Any) -> list[str]:
    """The same call with another dtype, or another length, on one rank; in place, too."""
    judge = Judge()
    for operation in right(comm):
        if operation in (*MESSAGES, *AHEAD, "scatter", "scatter_v"):
            continue
        for dtype in ("f8", "S4"):
            if operation in REDUCING and dtype == "S4":
                continue
            values = right(comm)[operation]
            if comm.rank == 1:
                values |= {name: array(one.shape, dtype) for name, one in values.items() if isinstance(one, np.ndarray)}
            with comm.dup() as own:
                judge.attempt(f"{operation} of {dtype}", getattr(own, operation), values, shmcoll.CollectiveMismatch)
    return judge.told


def test_of_mismatches(ranks):
    for told in ranks(2, of_mismatches):
        assert not told, "\n".join(told)
