"""Calls with a root: a wrong argument raises on the rank that finds it, and on all ranks if they find it together.

Of few bytes, a rank whose `out` the root does not fit finds that alone: the others have gone on."""

from functools import partial
from typing import Any

import numpy as np

from shmcoll.engine.layout import EAGER_BYTES
from tests.support.wrong_arguments import array, right, wrong

ROOTED = ("broadcast", "reduce", "gather", "gather_v", "scatter", "scatter_v")

#: arguments that no rank can judge by itself: method, whether on the root, argument, what is wrong with it
TOGETHER = {
    ("scatter_v", False, "out", "dtype"),
    ("scatter_v", False, "out", "shape"),
    ("scatter_v", True, "out", "shape"),
    ("gather_v", True, "out", "short"),
    ("gather_v", True, "recv_counts", "others"),
    ("scatter_v", True, "send_displs", "beyond"),
}
#: arguments that their rank judges by what the root sends: no other rank is told
BY_WHAT_COMES = {("scatter", False, "out", "dtype"), ("scatter", False, "out", "shape")}
#: what is ignored on the ranks other than the root
IGNORED = ("out of reduce", "out of gather", "out of gather_v", "recv_counts of gather_v", "recv_displs of gather_v")
IGNORED += ("x of scatter", "x of scatter_v", "send_counts of scatter_v", "send_displs of scatter_v")


def of_roots(comm: Any) -> list[str]:
    told: list[str] = []
    for operation in ROOTED:
        call = getattr(comm, operation)
        for later in (False, True):

            def make(given: dict[str, Any], call: Any = call, later: bool = later) -> Exception | None:
                try:
                    call(**given, async_op=True).wait() if later else call(**given)
                except (TypeError, ValueError) as error:
                    return error
                return None

            for odd in (0, 1):
                for name in right(comm)[operation]:
                    is_ignored = odd != 0 and f"{name} of {operation}" in IGNORED
                    for what, one in cases(operation, name, right(comm)[operation]):
                        if operation == "gather_v" and (name, what) == ("out", "shape"):  # which may be longer
                            continue
                        given = right(comm)[operation] | ({name: one} if comm.rank == odd else {})
                        case = (operation, odd == 0, name, what)
                        told.extend(
                            judge(
                                comm,
                                f"{operation}({name}: {what}) on {odd}",
                                partial(make, given),
                                odd,
                                case in TOGETHER,
                                is_ignored or (case in BY_WHAT_COMES and comm.rank != odd),
                            )
                        )
    return told


def judge(comm: Any, what: str, call: Any, odd: int, together: bool, is_ignored: bool) -> list[str]:
    if comm.rank != odd and not together and not is_ignored:
        return []
    error = call()
    if is_ignored:
        return [f"{what}: {error!r}"] if error else []
    if error is None or (together and not isinstance(error, ValueError)):
        return [f"{what}: {error!r}"]
    return []


def cases(operation: str, name: str, values: dict[str, Any]) -> list[tuple[str, Any]]:
    found = [(what, one) for what, one in wrong(name, values, reduces=operation == "reduce")]
    if (operation, name) == ("gather_v", "out"):
        found.append(("short", array(23)))
    if (operation, name) == ("gather_v", "recv_counts"):
        found.append(("others", [12, 11]))
    if (operation, name) == ("scatter_v", "send_displs"):
        found.append(("beyond", [0, 13]))
    return found


def test_who_raises_is_the_same_for_every_call_with_a_root(ranks):
    for told in ranks(2, of_roots):
        assert not told, "\n".join(told)


def test_the_error_that_all_find_is_the_same_on_all(ranks):
    def text(comm: Any) -> list[str]:
        told = []
        for operation in ("scatter", "scatter_v"):
            given = right(comm)[operation] | ({"out": array((9, 9))} if comm.rank else {})
            if operation == "scatter" and comm.rank == 0:  # so long that all ranks enter together
                given |= {"x": array((2 * EAGER_BYTES, 3)), "out": array((EAGER_BYTES, 3))}
            try:
                getattr(comm, operation)(**given)
            except ValueError as error:
                told.append(str(error))
        return told

    first, second = ranks(2, text)
    assert len(first) == 2
    assert first == second
    assert np.unique(first).size == 2
