"""Wrong programs of torch in the classes of the MPI Bugs Initiative, and their right twins: one job of three ranks."""

import re
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")

import torch.distributed as dist  # noqa: E402

from tests.support.patience import PATIENCE  # noqa: E402
from tests.support.waiting import until  # noqa: E402
from tests.torch.test_failures import begin  # noqa: E402

LONG, SHORT = timedelta(seconds=PATIENCE), timedelta(seconds=0.5)
HERE = rf"at \S*{Path(__file__).name}:\d+"


def x(dtype: Any = torch.float64, count: int = 8) -> Any:
    return torch.ones(count, dtype=dtype)


def is_odd(wrong: bool) -> bool:
    return wrong and dist.get_rank() == 1


def root(group: Any, wrong: bool) -> None:
    dist.broadcast(x(), src=int(is_odd(wrong)), group=group)
    dist.barrier(group=group)  # a root that has run ahead learns of it here


def operator(group: Any, wrong: bool) -> None:
    dist.all_reduce(x(), op=dist.ReduceOp.MAX if is_odd(wrong) else dist.ReduceOp.SUM, group=group)


def datatype(group: Any, wrong: bool) -> None:
    dist.all_reduce(x(torch.int64 if is_odd(wrong) else torch.float64), group=group)


def count(group: Any, wrong: bool) -> None:
    dist.all_reduce(x(count=7 if is_odd(wrong) else 8), group=group)


def splits(group: Any, wrong: bool) -> None:
    dist.all_to_all_single(x(count=6), x(count=6), [2, 2, 2], [1, 4, 1] if is_odd(wrong) else [2, 2, 2], group=group)


def order(group: Any, wrong: bool) -> None:
    dist.barrier(group=group) if is_odd(wrong) else dist.all_reduce(x(), group=group)
    dist.all_reduce(x(), group=group) if wrong else dist.barrier(group=group)


def order_of_asynchronous_calls(group: Any, wrong: bool) -> None:
    calls = [lambda: dist.all_reduce(x(), group=group, async_op=True), lambda: dist.barrier(group=group, async_op=True)]
    for work in [call() for call in (reversed(calls) if is_odd(wrong) else calls)]:
        work.wait()


def missing_call(group: Any, wrong: bool) -> None:
    if is_odd(wrong):
        dist.destroy_process_group(group)
    else:
        dist.all_reduce(x(), group=group)


def tag(group: Any, wrong: bool) -> None:
    if dist.get_rank() == 0:
        dist.send(x(), 1, group=group, tag=3)
    elif dist.get_rank() == 1:
        dist.recv(x(), 0, group=group, tag=4 if wrong else 3)


def datatype_of_a_message(group: Any, wrong: bool) -> None:
    if dist.get_rank() == 0:
        dist.send(x(), 1, group=group)
    elif dist.get_rank() == 1:
        dist.recv(x(torch.int64 if wrong else torch.float64), 0, group=group)


def receives_in_a_circle(group: Any, wrong: bool) -> None:
    after, before = (dist.get_rank() + 1) % 3, (dist.get_rank() - 1) % 3
    if wrong:
        dist.recv(x(), after, group=group)
    dist.send(x(), before, group=group)
    dist.recv(x(), after, group=group)


def threads(group: Any, wrong: bool) -> None:
    errors: list[BaseException] = []

    def reduce() -> None:
        try:
            dist.all_reduce(x(), group=group)
        except RuntimeError as error:
            errors.append(error)

    if dist.get_rank() == 1:
        begun = [threading.Thread(target=reduce) for _ in range(1 + wrong)]
        for thread in begun:
            thread.start()
        until(lambda: errors or not wrong)
    dist.barrier()  # the others come now
    if dist.get_rank() == 1:
        for thread in begun:
            thread.join()
    else:
        dist.all_reduce(x(), group=group)
    if errors:
        raise errors[0]


def disagree(odd: str) -> dict[int, str]:
    return dict.fromkeys(range(3), rf"the ranks disagree.* rank 1 called {odd} {HERE}")


#: what each rank is told, and whether it is by the limit
CASES: list[tuple[Any, dict[int, str], bool]] = [
    (root, disagree(r"broadcast\(float64\[8\], root=1\)"), False),
    (operator, disagree(r"all_reduce\(float64\[8\], max\)"), False),
    (datatype, disagree(r"all_reduce\(int64\[8\], sum\)"), False),
    (count, disagree(r"all_reduce\(float64\[7\], sum\)"), False),
    (splits, dict.fromkeys(range(3), "rank [02] expects 2 elements from rank 1, which sends 1"), False),
    (order, disagree(r"barrier\(\)"), False),
    (order_of_asynchronous_calls, disagree(r"barrier\(\)"), False),
    (missing_call, dict.fromkeys((0, 2), rf"all_reduce #1 on rank [02].*rank 1 has closed the group {HERE}"), False),
    (
        tag,
        {1: rf"recv\(source=0, tag=4\) on rank 1.* {HERE}: .*\(waiting to be received: from rank 0: 1 with tag 3"},
        True,
    ),
    (
        datatype_of_a_message,
        {1: "the next message, from rank 0 with tag 0, has 8 x float64, out has room for 8 x int64"},
        False,
    ),
    (
        receives_in_a_circle,
        dict.fromkeys(range(3), rf"recv\(source=[012], tag=0\) on rank [012].* {HERE}: timed out"),
        True,
    ),
    (
        threads,
        {1: rf"all_reduce {HERE} on rank 1: thread .* is in all_reduce of the same communicator, called {HERE}"},
        False,
    ),
]


def told(comm: Any, store: Path) -> list[tuple[str, str, str]]:
    """Return what this rank is told otherwise than it should be."""
    begin(comm, store, LONG)
    wrong = []
    for call, expected, is_late in CASES:
        for mistake in (False, True):
            group = dist.new_group(timeout=SHORT if mistake and is_late else LONG)
            said = ""
            try:
                call(group, mistake)
            except (RuntimeError, TypeError, ValueError) as error:
                said = f"{type(error).__name__}: {error}"
            pattern = expected.get(dist.get_rank(), "") if mistake else ""
            if bool(said) != bool(pattern) or not re.search(pattern, said, re.DOTALL):
                wrong.append((call.__name__, str(mistake), said))
            dist.barrier()
    dist.destroy_process_group()
    return wrong


def test_wrong_programs_are_told_what_is_wrong_and_right_ones_nothing(ranks: Any, tmp_path: Path) -> None:
    assert ranks(3, told, tmp_path / "store") == [[]] * 3
