"""`shmcoll.map`: results in order, each item once, and the next item to the next rank that is free."""

import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import shmcoll
from tests.support.waiting import until


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_results_come_in_the_order_of_the_items(method: str) -> None:
    def items() -> Iterator[str]:
        yield from ("a", "bb", "ccc")

    assert shmcoll.map(lambda text: (text, len(text)), items(), 2, method=method) == [("a", 1), ("bb", 2), ("ccc", 3)]


def test_each_item_is_taken_once(seed: int) -> None:
    draw = random.Random(seed)
    items = [draw.randrange(1000) for _ in range(500)]
    done = shmcoll.map(lambda item: (item, os.environ["RANK"]), items, 4)
    assert [item for item, _ in done] == items


def test_a_rank_that_is_free_takes_the_next_item(tmp_path: Path) -> None:
    """The first item ends when all others are done, which the other rank alone can do."""

    def work(item: int) -> str:
        if item:
            (tmp_path / str(item)).touch()
        else:
            until(lambda: sum(1 for _ in tmp_path.iterdir()) == 20)
        return os.environ["RANK"]

    first, *others = shmcoll.map(work, range(21), 2, timeout=60)
    assert set(others) == {"0", "1"} - {first}


def test_there_are_no_more_ranks_than_items() -> None:
    assert shmcoll.map(lambda _: os.environ["WORLD_SIZE"], "ab", 8) == ["2", "2"]
    assert shmcoll.map(int, [], 8) == []


def test_the_default_is_one_rank_for_each_core() -> None:
    from shmcoll.engine.system.cores import usable_cores

    sizes = shmcoll.map(lambda _: int(os.environ["WORLD_SIZE"]), range(usable_cores() + 1))
    assert set(sizes) == {usable_cores()}


def test_the_exception_of_an_item_ends_the_call_and_names_the_item(tmp_path: Path) -> None:
    def work(item: int) -> int:
        (tmp_path / str(item)).touch()
        if item == 3:
            raise ValueError("bad sample")
        return 1 // (item < 10)  # items that nobody takes after the failure

    with pytest.raises(ValueError, match="bad sample") as caught:
        shmcoll.map(work, range(100_000), 1)
    assert caught.value.__notes__ == ["item 3 of shmcoll.map", "raised by rank 0 of shmcoll.map"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "2", "3"]


def test_other_ranks_take_no_more_items_after_a_failure(tmp_path: Path) -> None:
    def work(item: int) -> None:
        if item == 0:
            raise ValueError("bad sample")
        until((tmp_path / "failed").exists)
        (tmp_path / f"item {item}").touch()

    def tell() -> None:
        time.sleep(0.5)
        (tmp_path / "failed").touch()

    thread = threading.Thread(target=tell)
    thread.start()
    try:
        with pytest.raises(ValueError, match="bad sample"):
            shmcoll.map(work, range(1000), 2)
    finally:
        thread.join()
    assert len([path for path in tmp_path.iterdir() if path.name.startswith("item")]) <= 1


def test_a_rank_that_dies_ends_the_call() -> None:
    with pytest.raises(shmcoll.RankFailed, match=r"rank 0 of shmcoll.map exited with code 3, without a result"):
        shmcoll.map(lambda _: os._exit(3), [1], 1)


def test_items_may_share_an_array() -> None:
    x = shmcoll.shared(np.zeros(6))

    def fill(item: tuple[int, np.ndarray]) -> None:
        number, part = item
        part[:] = number

    shmcoll.map(fill, [(i, x[2 * i : 2 * i + 2]) for i in range(3)], 2)
    assert x.tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("error", "text", "arguments"),
    [
        (TypeError, "fn must be callable, got 3 of type int", (3, [])),
        (TypeError, "items must be an iterable of the arguments of fn, got 3", (int, 3)),
        (
            TypeError,
            "n must be an int, got [3, 4] of type list; items is one iterable, of the arguments of fn. Of several, "
            "make one: shmcoll.map(lambda item: fn(*item), zip(items, more))",
            (max, [1, 2], [3, 4]),
        ),
        (TypeError, "n must be an int, got '2' of type str", (int, [1], "2")),
        (ValueError, "n must be at least 1, got 0", (int, [1], 0)),
    ],
)
def test_bad_arguments(error: type[Exception], text: str, arguments: tuple) -> None:
    with pytest.raises(error) as caught:
        shmcoll.map(*arguments)
    assert str(caught.value) == text


def test_an_item_that_cannot_be_pickled() -> None:
    with pytest.raises(TypeError, match=r"cannot be sent to the ranks: TypeError: cannot pickle '_thread.lock'"):
        shmcoll.map(id, [1, threading.Lock()], 2)
    with pytest.raises(TypeError, match=r"it is in item 1$"):
        shmcoll.map(id, [1, threading.Lock()], 2)


def test_a_result_that_cannot_be_pickled_is_that_of_an_item() -> None:
    def letters(item: int) -> Iterator[str]:
        yield from "ab"

    async def later(item: int) -> int:
        return item

    lock = threading.Lock
    for fn, text in (
        (
            letters,
            "item 0, a generator, cannot be pickled: TypeError: cannot pickle 'generator' object; make a list of it",
        ),
        (later, "item 0, a coroutine, .*; give it to asyncio.run in the function"),
        (lambda item: lock() if item == 2 else item, "item 2, a _thread.lock, cannot be pickled: "),
    ):
        with pytest.raises(TypeError, match=f"^the result of {text}"):
            shmcoll.map(fn, range(3), 1)


def test_a_collective_in_map_is_named_as_the_mistake() -> None:
    with pytest.raises(shmcoll.RankFailed) as e:
        shmcoll.map(lambda item: item and shmcoll.init().barrier(), range(2), 2)
    assert e.value.__notes__[:2] == [
        "item 1 of shmcoll.map",
        "The ranks have different items, so fn cannot call collectives: use shmcoll.run",
    ]


def test_a_rank_does_not_map() -> None:
    with pytest.raises(shmcoll.CallNotAllowed, match=r"shmcoll.map was called by rank 0 of a job"):
        shmcoll.run(lambda: shmcoll.map(int, [1]), 1)
