"""all_to_all: its arguments and its call, of arrays and of lists."""

from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.arrays import addresses, cut, deliver, exact, place_for, product, whole_shape

if TYPE_CHECKING:
    from shmcoll.runtime.dispatcher import Dispatcher


def all_to_all(dispatcher: "Dispatcher", x: Any, split_axis: int, concat_axis: int, out: Any) -> Any:
    if given.is_list_of_arrays(x) or isinstance(out, (list, tuple)):
        return _all_to_all_of_lists(dispatcher, x, split_axis, concat_axis, out)
    size = dispatcher.size
    with dispatcher.checking("all_to_all") as check:
        array = given.as_array(x, *check)
        split = given.as_axis(split_axis, "split_axis", array.ndim, *check)
        concat = given.as_axis(concat_axis, "concat_axis", array.ndim, *check)
        given.check_divisible(array, split, size, *check)
        block = list(array.shape)
        block[split] //= size
        shape = list(block)
        shape[concat] *= size
        if out is not None:
            given.as_output(out, tuple(shape), array.dtype, *check)
            if isinstance(x, np.ndarray) and given.overlap(x, out):
                given.check_overlap(x, out, *check)
                if split != concat:
                    array = array.copy()
    target = place_for(out, shape, array.dtype)
    item = array.itemsize
    run, target_run = product(block[split:]) * item, product(block[concat:]) * item
    dispatcher.run(
        "all_to_all",
        exact(array),
        target,
        0,
        split,
        concat,
        0,
        product(block) * item,
        run,
        run * size if product(block[:split]) > 1 else run,
        target_run,
        target_run * size if product(block[:concat]) > 1 else target_run,
        *(0, 0, 0),
    )
    return deliver(target, out)


def _all_to_all_of_lists(dispatcher: "Dispatcher", x: Any, split_axis: int, concat_axis: int, out: Any) -> Any:
    """x, out or both are lists of n blocks; the other is an array of all blocks along axis 0."""
    size, listed = dispatcher.size, isinstance(out, (list, tuple))
    with dispatcher.checking("all_to_all") as check:
        for axis, name in ((split_axis, "split_axis"), (concat_axis, "concat_axis")):
            if given.as_index(axis, name, *check) != 0:
                raise ValueError(f"all_to_all on rank {check[1]}: {name} of lists of blocks must be 0, got {axis}")
        if given.is_list_of_arrays(x):
            sources = given.as_list(x, size, *check)
        else:
            array = given.as_array(x, *check)
            given.check_divisible(array, 0, size, *check)
            sources = cut(array, size)
        block, dtype = sources[0].shape, sources[0].dtype
        whole = whole_shape(block, size)
        if listed:
            targets = given.as_outputs(out, size, block, dtype, *check)
        else:
            targets = [] if out is None else cut(given.as_output(out, whole, dtype, *check), size)
        theirs = cut(x, size) if isinstance(x, np.ndarray) else x if given.is_list_of_arrays(x) else sources
        given.check_blocks(theirs, targets, *check)
    if listed:
        places = [place_for(target, block, dtype) for target in targets]
    else:
        result = place_for(out, whole, dtype)
        places = cut(result, size)
    from_table, to_table = addresses(sources), addresses(places)
    shape = np.array([len(whole), *whole], np.int64)
    runs = (product(block) * dtype.itemsize,) * 5
    tables = (from_table.ctypes.data, to_table.ctypes.data, shape.ctypes.data)
    dispatcher.run("all_to_all", exact(sources[0]), None, 0, 0, 0, 0, *runs, *tables)
    if not listed:
        return deliver(result, out)
    for place, target in zip(places, targets, strict=True):
        deliver(place, target)
    return out
