"""all_to_all: its arguments and its call, of arrays and of lists."""

from typing import Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.arrays import Results, addresses, cut, deliver, exact, place_for, product, whole_shape
from shmcoll.calls.common_dtype import agreeing, move
from shmcoll.calls.in_place import all_clear_of, clear_of
from shmcoll.engine.kernels.element_marks import MARK_SHIFT, element_mark
from shmcoll.runtime.dispatcher import Dispatcher


@agreeing
def all_to_all(dispatcher: Dispatcher, x: Any, split_axis: int, concat_axis: int, out: Any) -> Any:
    if given.is_list_of_arrays(x) or isinstance(out, (list, tuple)):
        return _all_to_all_of_lists(dispatcher, x, split_axis, concat_axis, out)
    size = dispatcher.size
    with dispatcher.checking("all_to_all") as check:
        array = given.as_moved(x, *check)
        split = given.as_axis(split_axis, "split_axis", array.ndim, *check)
        concat = given.as_axis(concat_axis, "concat_axis", array.ndim, *check)
        given.check_divisible(array, split, size, *check)
        block = list(array.shape)
        block[split] //= size
        shape = list(block)
        shape[concat] *= size
        if out is not None:
            given.as_output(out, tuple(shape), array.dtype, *check)
            array = clear_of(array, out, *((array, out) if split == concat else ()))

    def run() -> Any:
        target = place_for(out, shape, array.dtype)
        item = array.itemsize
        run, target_run = product(block[split:]) * item, product(block[concat:]) * item
        dispatcher.run(
            "all_to_all",
            exact(array),
            exact(target),
            0,
            split,
            concat | element_mark(array.dtype) << MARK_SHIFT,
            0,
            product(block) * item,
            run,
            run * size if product(block[:split]) > 1 else run,
            target_run,
            target_run * size if product(block[:concat]) > 1 else target_run,
            *(0, 0, 0),
        )
        return deliver(target, out)

    return move(dispatcher, "all_to_all", array.dtype, out, run)


def _all_to_all_of_lists(dispatcher: Dispatcher, x: Any, split_axis: int, concat_axis: int, out: Any) -> Any:
    """Make a call of which x, out or both are lists of n blocks. The other one is an array of all blocks along axis
    0."""
    size = dispatcher.size
    with dispatcher.checking("all_to_all") as check:
        for axis, name in ((split_axis, "split_axis"), (concat_axis, "concat_axis")):
            if given.as_index(axis, name, *check) != 0:
                raise ValueError(f"all_to_all on rank {check[1]}: {name} of lists of blocks must be 0, got {axis}")
        if given.is_list_of_arrays(x):
            sources = given.as_list(x, size, *check)
        else:
            array = given.as_moved(x, *check)
            given.check_divisible(array, 0, size, *check)
            sources = cut(array, size)
        block, dtype = sources[0].shape, sources[0].dtype
        results = Results(out, size, block, dtype, check)
        sources = all_clear_of(sources, results.targets)

    def run() -> Any:
        _, to_table = results.place()
        from_table = addresses(sources)
        read = exact(sources[0])
        extents = (*whole_shape(block, size), *read.shape[len(block) :])  # an array of bytes has one more
        shape = np.array([len(extents), *extents], np.int64)
        second = element_mark(dtype) << MARK_SHIFT
        runs = (product(block) * dtype.itemsize,) * 5
        tables = (from_table.ctypes.data, to_table.ctypes.data, shape.ctypes.data)
        dispatcher.run("all_to_all", read, None, 0, 0, second, 0, *runs, *tables)
        return results.deliver()

    return move(dispatcher, "all_to_all", dtype, out, run)
