"""A call with wrong arguments: the error, its words, and a group that goes on as if nothing had been called."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support import switches
from tests.support.calls import SHORT

X = np.ones((4, 6), np.float32)
Call = Callable[[Any], Any]


def read_only(shape: tuple) -> np.ndarray:
    array = np.zeros(shape, np.float32)
    array.flags.writeable = False
    return array


#: on rank 1 of 2: the call, the error, and what its message must contain
WRONG: dict[str, tuple[Call, type[Exception], str]] = {
    "x is None": (lambda c: c.all_reduce(None), TypeError, "all_reduce on rank 1: x is not an array: NoneType"),
    "x is None with out": (lambda c: c.all_reduce(None, out=X.copy()), TypeError, "x is not an array: NoneType"),
    "x is a string": (lambda c: c.all_reduce("abc"), TypeError, "x is not an array: str; for Python objects use"),
    "x is ragged": (lambda c: c.gather([[1], [1, 2]]), TypeError, "gather on rank 1: x is not an array: list"),
    "x is an object": (lambda c: c.all_to_all(object()), TypeError, "all_to_all on rank 1: x is not an array: object"),
    "dtype of dates": (
        lambda c: c.reduce(np.zeros(3, "M8[s]")),
        TypeError,
        "datetime64[s] cannot be reduced; reduce x.view",
    ),
    "dtype of records": (
        lambda c: c.scan(np.zeros(3, "i4,i4,i4")),
        TypeError,
        "cannot be reduced; make a call for each field, as of x['f0']",
    ),
    "dtype longdouble": (
        lambda c: c.reduce_scatter(np.zeros(4, np.longdouble)),
        TypeError,
        "cannot be reduced; convert it, as in x.astype('float64')",
    ),
    "unknown op": (lambda c: c.all_reduce(X, "median"), ValueError, "unknown op 'median'; use one of sum, prod, min"),
    "op is a number": (lambda c: c.all_reduce(X, 1), TypeError, "op must be a string, got int"),
    "op is a list": (lambda c: c.all_reduce(X, []), TypeError, "op must be a string, got list"),
    "op is None": (lambda c: c.all_reduce(X, None), TypeError, "op must be a string, got NoneType"),
    "avg of integers": (lambda c: c.all_reduce(X.astype(int), "avg"), TypeError, "avg of int64 is not defined"),
    "avg of bool": (lambda c: c.all_reduce(X > 0, "avg"), TypeError, "avg of bool is not defined"),
    "out is a list": (lambda c: c.all_reduce(X, out=[0]), TypeError, "out must be an array, got list"),
    "dtype of out": (lambda c: c.all_reduce(X, out=X.astype("f8")), TypeError, "out has dtype float64, the result has"),
    "shape of out": (
        lambda c: c.all_reduce(X, out=X[0].copy()),
        ValueError,
        "out has shape (6,), the result has (4, 6)",
    ),
    "read-only out": (
        lambda c: c.all_reduce(X, out=read_only((4, 6))),
        ValueError,
        "all_reduce on rank 1: out is read",
    ),
    "not divisible": (
        lambda c: c.all_to_all(np.zeros((3, 4))),
        ValueError,
        "all_to_all on rank 1: axis 0 of length 3 cannot be split among 2 ranks; shape (3, 4)",
    ),
    "0-d": (lambda c: c.all_to_all(np.float32(1)), IndexError, "split_axis 0 is out of range for 0 dimensions"),
    "split axis": (lambda c: c.all_to_all(X, 2), IndexError, "split_axis 2 is out of range for 2 dimensions"),
    "concat axis": (lambda c: c.all_to_all(X, 0, -3), IndexError, "concat_axis -3 is out of range for 2 dimensions"),
    "axis is bool": (lambda c: c.all_to_all(X, True), TypeError, "split_axis must be an integer, got bool"),
    "axis is float": (lambda c: c.all_to_all(X, 1.0), TypeError, "split_axis must be an integer, got float"),
    "shape of the exchanged": (lambda c: c.all_to_all(X, 0, 1, out=X.copy()), ValueError, "the result has (2, 12)"),
    "root": (lambda c: c.gather(X, 2), ValueError, "gather on rank 1: root 2 is not a rank of this group of 2"),
    "negative root": (lambda c: c.gather(X, -1), ValueError, "root -1 is not a rank of this group of 2"),
    "root is a string": (lambda c: c.gather(X, "0"), TypeError, "got str; did you mean root=0?"),
    "counts in place of the root": (
        lambda c: c.gather_v(X, [1, 2]),
        TypeError,
        "root must be an integer, got list; did you mean comm.gather_v(x, recv_counts=[1, 2])?",
    ),
    "nobody has an array": (
        lambda c: c.broadcast(None, 1),
        TypeError,
        "broadcast on rank 1: x is not an array: NoneType; this rank sends, so it must pass an array; for Python",
    ),
    "root is None": (lambda c: c.gather(X, None), TypeError, "root must be an integer, got NoneType"),
    "length of out": (lambda c: c.gather(X, 1, out=[X.copy()]), ValueError, "out is a list of 1 arrays for 2 ranks"),
    "list of lists": (lambda c: c.gather(X, 1, out=[[], []]), TypeError, "out must be an array, got list"),
    "list overlaps": (
        lambda c: c.gather(X, 1, out=[G := X.copy(), G]),
        ValueError,
        "array 1 of out overlaps one before",
    ),
    "shape of the gathered": (lambda c: c.gather(X, 1, out=X.copy()), ValueError, "the result has (8, 6)"),
    "root of reduce": (
        lambda c: c.reduce(X, 2),
        ValueError,
        "reduce on rank 1: root 2 is not a rank of this group of 2",
    ),
    "op of reduce": (lambda c: c.reduce(X, 1, "median"), ValueError, "reduce on rank 1: unknown op 'median'"),
    "shape of the reduced": (lambda c: c.reduce(X, 1, out=X[0].copy()), ValueError, "out has shape (6,), the result"),
    "algorithm of reduce": (
        lambda c: c.reduce(X, algorithm="tree"),
        ValueError,
        "reduce on rank 1: unknown algorithm 'tree'; use one of flat, ring, cells",
    ),
    "blocks that cannot be equal": (
        lambda c: c.reduce_scatter(X[:3]),
        ValueError,
        "reduce_scatter on rank 1: axis 0 of length 3 cannot be split among 2 ranks; shape (3, 6)",
    ),
    "reduce_scatter of 0-d": (
        lambda c: c.reduce_scatter(np.float32(1)),
        ValueError,
        "reduce_scatter on rank 1: x has no",
    ),
    "reduce_scatter of a short list": (
        lambda c: c.reduce_scatter([X]),
        ValueError,
        "reduce_scatter on rank 1: x is a list of 1 arrays for 2 ranks",
    ),
    "reduce_scatter of a mixed list": (
        lambda c: c.reduce_scatter([X, X.astype("f8")]),
        TypeError,
        "reduce_scatter on rank 1: array 1 of x has dtype float64, array 0 has float32",
    ),
    "reduce_scatter of unlike shapes": (
        lambda c: c.reduce_scatter([X, X[0]]),
        ValueError,
        "reduce_scatter on rank 1: array 1 of x has shape (6,), array 0 has (4, 6)",
    ),
    "shape of a reduced block": (
        lambda c: c.reduce_scatter(X, out=X.copy()),
        ValueError,
        "reduce_scatter on rank 1: out has shape (4, 6), the result has (2, 6)",
    ),
    "sum of counts": (
        lambda c: c.reduce_scatter_v(X, [12, 11]),
        ValueError,
        "reduce_scatter_v on rank 1: counts [12, 11] are 23 elements together, x has 24",
    ),
    "number of counts of reduce_scatter_v": (
        lambda c: c.reduce_scatter_v(X, [24]),
        ValueError,
        "reduce_scatter_v on rank 1: counts must have one entry for each of 2 ranks, got shape (1,)",
    ),
    "counts of floats of reduce_scatter_v": (
        lambda c: c.reduce_scatter_v(X, [12.0, 12.0]),
        TypeError,
        "reduce_scatter_v on rank 1: counts must be integers, got float64",
    ),
    "negative count of reduce_scatter_v": (
        lambda c: c.reduce_scatter_v(X, [25, -1]),
        ValueError,
        "counts has an entry out of range: [25, -1]",
    ),
    "size of the block": (
        lambda c: c.reduce_scatter_v(X, [20, 4], out=np.zeros((2, 3), np.float32)),
        ValueError,
        "reduce_scatter_v on rank 1: out has 6 elements, the result has 4",
    ),
    "no array for the block": (
        lambda c: c.reduce_scatter_v(X, [20, 4], out=[0] * 4),
        TypeError,
        "reduce_scatter_v on rank 1: out must be an array, got list",
    ),
    "running average": (
        lambda c: c.scan(X, "avg"),
        ValueError,
        "scan on rank 1: avg has no running form; use sum, and divide",
    ),
    "running average before": (lambda c: c.exscan(X, "avg"), ValueError, "exscan on rank 1: avg has no running form"),
    "scan of None": (lambda c: c.scan(None), TypeError, "scan on rank 1: x is not an array: NoneType"),
    "dtype of the scanned": (
        lambda c: c.scan(X, out=X.astype("f8")),
        TypeError,
        "out has dtype float64, the result has",
    ),
    "read-only out of exscan": (lambda c: c.exscan(X, out=read_only((4, 6))), ValueError, "out is read-only"),
    "algorithm of scan": (lambda c: c.scan(X, algorithm="ring"), ValueError, "use one of flat, chain"),
    "broadcast root": (
        lambda c: c.broadcast(X, 2),
        ValueError,
        "broadcast on rank 1: root 2 is not a rank of this group",
    ),
    "broadcast into a list": (
        lambda c: c.broadcast([1, 2]),
        TypeError,
        "broadcast on rank 1: x is written on all ranks except the root, and a list cannot be; pass an array, or None",
    ),
    "broadcast into an object": (lambda c: c.broadcast({}), TypeError, "Python objects use comm.broadcast_object"),
    "broadcast into read-only": (
        lambda c: c.broadcast(read_only((4, 6))),
        TypeError,
        "broadcast on rank 1: x is read-only; on all ranks except the root it is written",
    ),
    "broadcast of a string": (
        lambda c: c.broadcast("abc", 1),
        TypeError,
        "broadcast on rank 1: x is not an array: str; for Python objects use comm.broadcast_object",
    ),
    "broadcast of a mixed list": (
        lambda c: c.broadcast([1, "a"], 1),
        TypeError,
        "broadcast on rank 1: x is a list that holds strings; for Python objects use "
        "comm.broadcast_object(x, root=root); or pass np.array(x)",
    ),
    "gather of an object": (
        lambda c: c.gather({}),
        TypeError,
        "gather on rank 1: x is not an array: dict; pass an arr",
    ),
    "scatter of objects": (
        lambda c: c.scatter([{}, {}], 1),
        TypeError,
        "(dict); for Python objects use comm.scatter_object(values, root=root), with one object",
    ),
    "broadcast of objects in fields": (
        lambda c: c.broadcast(np.zeros(2, [("a", "O")]), 1),
        TypeError,
        "for Python objects use comm.broadcast_object",
    ),
    "op in the place of the root": (
        lambda c: c.reduce(X, "max"),
        TypeError,
        "reduce on rank 1: root must be an integer, got str; did you mean comm.reduce(x, op='max')?",
    ),
    "counts in the place of the root": (
        lambda c: c.scatter_v(X, [12, 12]),
        TypeError,
        "scatter_v on rank 1: root must be an integer, got list; did you mean comm.scatter_v(x, send_counts=[12, 12])?",
    ),
    "axis of counts": (
        lambda c: c.all_gather_v(X, axis=1),
        ValueError,
        "all_gather_v on rank 1: axis must be 0, to count rows, or None, to count elements; got 1",
    ),
    "axis is no integer": (lambda c: c.gather_v(X, axis="0"), TypeError, "axis must be an integer, got str"),
    "rows of a number": (
        lambda c: c.all_to_all_v(5, [1, 0], axis=0),
        ValueError,
        "all_to_all_v on rank 1: x is 0-d and has no rows, which axis=0 counts; leave axis out",
    ),
    "sum of rows": (
        lambda c: c.reduce_scatter_v(X, [1, 2], axis=0),
        ValueError,
        "reduce_scatter_v on rank 1: counts [1, 2] are 3 rows together, x has 4: counts are in rows",
    ),
    "rows of out": (
        lambda c: c.all_gather_v(X, axis=0, out=np.zeros((8, 5), np.float32)),
        ValueError,
        "all_gather_v on rank 1: out has shape (8, 5), a row of the result has (6,)",
    ),
    "counts of rows beyond all words": (
        lambda c: c.all_to_all_v(X, [1 << 47, 0], [0, 0], axis=0),
        ValueError,
        "send_counts has an entry out of range: [140737488355328, 0]",
    ),
    "all_gather of None": (
        lambda c: c.all_gather(None),
        TypeError,
        "all_gather on rank 1: x is not an array: NoneType",
    ),
    "shape of all gathered": (
        lambda c: c.all_gather(X, out=X.copy()),
        ValueError,
        "all_gather on rank 1: out has shape (4, 6), the result has (8, 6)",
    ),
    "dtype of all gathered": (
        lambda c: c.all_gather(X, out=np.zeros((8, 6))),
        TypeError,
        "out has dtype float64, the result has float32",
    ),
    "read-only out of all_gather": (lambda c: c.all_gather(X, out=read_only((8, 6))), ValueError, "out is read-only"),
    "length of all gathered": (
        lambda c: c.all_gather(X, out=[X.copy()]),
        ValueError,
        "all_gather on rank 1: out is a list of 1 arrays for 2 ranks",
    ),
    "mixed list of all_gather": (
        lambda c: c.all_gather(X, out=[X.copy(), X.astype(int)]),
        TypeError,
        "out has dtype int64, the result has float32",
    ),
    "list of all_gather overlaps": (
        lambda c: c.all_gather(X, out=[G := X.copy(), G[:]]),
        ValueError,
        "all_gather on rank 1: array 1 of out overlaps one before it",
    ),
    "scatter root": (
        lambda c: c.scatter(X, -1),
        ValueError,
        "scatter on rank 1: root -1 is not a rank of this group of 2",
    ),
    "scatter root is None": (lambda c: c.scatter(X, None), TypeError, "root must be an integer, got NoneType"),
    "scatter of nothing": (lambda c: c.scatter(None, 1), TypeError, "scatter on rank 1: x is not an array: NoneType"),
    "scatter of 0-d": (
        lambda c: c.scatter(np.float32(1), 1),
        ValueError,
        "scatter on rank 1: x has no axis that could be split among 2 ranks; it is 0-d",
    ),
    "scatter is not divisible": (
        lambda c: c.scatter(np.zeros((3, 4)), 1),
        ValueError,
        "scatter on rank 1: axis 0 of length 3 cannot be split among 2 ranks; shape (3, 4)",
    ),
    "length of scattered list": (
        lambda c: c.scatter([X], 1),
        ValueError,
        "scatter on rank 1: x is a list of 1 arrays for 2 ranks",
    ),
    "dtypes of scattered list": (
        lambda c: c.scatter([X, X.astype("f8")], 1),
        TypeError,
        "scatter on rank 1: array 1 of x has dtype float64, array 0 has float32",
    ),
    "shapes of scattered list": (
        lambda c: c.scatter([X, X[:2]], 1),
        ValueError,
        "scatter on rank 1: array 1 of x has shape (2, 6), array 0 has (4, 6)",
    ),
    "shape of the scattered": (
        lambda c: c.scatter(X, 1, out=X.copy()),
        ValueError,
        "scatter on rank 1: out has shape (4, 6), the result has (2, 6)",
    ),
    "out of scatter is a list": (lambda c: c.scatter(None, out=[1]), TypeError, "out must be an array, got list"),
    "out of scatter is read-only": (lambda c: c.scatter(None, out=read_only((2,))), ValueError, "out is read-only"),
    "axis of lists": (
        lambda c: c.all_to_all([X, X], 1),
        ValueError,
        "all_to_all on rank 1: split_axis of lists of blocks must be 0, got 1",
    ),
    "axis into lists": (
        lambda c: c.all_to_all(X, 0, -1, out=[X, X]),
        ValueError,
        "concat_axis of lists of blocks must be 0, got -1",
    ),
    "length of exchanged list": (
        lambda c: c.all_to_all([X, X, X]),
        ValueError,
        "all_to_all on rank 1: x is a list of 3 arrays for 2 ranks",
    ),
    "dtypes of exchanged list": (lambda c: c.all_to_all([X, X > 0]), TypeError, "array 1 of x has dtype bool, array 0"),
    "shapes of exchanged list": (lambda c: c.all_to_all([X, X.T]), ValueError, "array 1 of x has shape (6, 4)"),
    "exchanged list of a string": (lambda c: c.all_to_all([X, "a"]), TypeError, "x is not an array: str"),
    "length of list to exchange into": (
        lambda c: c.all_to_all(X, out=[X.copy()]),
        ValueError,
        "all_to_all on rank 1: out is a list of 1 arrays for 2 ranks",
    ),
    "list to exchange into": (lambda c: c.all_to_all(X, out=[1, 2]), TypeError, "out must be an array, got int"),
    "shape of list to exchange into": (
        lambda c: c.all_to_all(X, out=[X.copy(), X.copy()]),
        ValueError,
        "out has shape (4, 6), the result has (2, 6)",
    ),
    "exchanged list cannot be split": (lambda c: c.all_to_all(X[:3], out=[X, X]), ValueError, "axis 0 of length 3"),
    "exchanged twice into one": (
        lambda c: c.all_to_all([X, X], out=[E := X.copy(), E]),
        ValueError,
        "all_to_all on rank 1: array 1 of out overlaps one before it",
    ),
    "no pairs": (
        lambda c: c.collective_permute(X, None),
        TypeError,
        "pairs must be a sequence of (source, target)",
    ),
    "one pair, not in a list": (
        lambda c: c.collective_permute(X, (0, 1)),
        TypeError,
        "collective_permute on rank 1: 0 in pairs is not a pair (source, target)",
    ),
    "a pair of three": (lambda c: c.collective_permute(X, [(0, 1, 2)]), TypeError, "(0, 1, 2) in pairs is not a pair"),
    "a pair of strings": (lambda c: c.collective_permute(X, ["01"]), TypeError, "'01' in pairs is not a pair"),
    "source of floats": (lambda c: c.collective_permute(X, [(0.0, 1)]), TypeError, "source must be an integer, got fl"),
    "source of a pair": (
        lambda c: c.collective_permute(X, [(0, 1), (2, 0)]),
        ValueError,
        "collective_permute on rank 1: source 2 is not a rank of this group of 2; use 0 to 1",
    ),
    "target of a pair": (lambda c: c.collective_permute(X, [(0, -1)]), ValueError, "target -1 is not a rank of this"),
    "a source twice": (
        lambda c: c.collective_permute(X, [(0, 1), (0, 0)]),
        ValueError,
        "collective_permute on rank 1: rank 0 is the source of two pairs; one is allowed",
    ),
    "a target twice": (
        lambda c: c.collective_permute(X, [(0, 1), (1, 1)]),
        ValueError,
        "collective_permute on rank 1: rank 1 is the target of two pairs; one is allowed",
    ),
    "shape of the permuted": (
        lambda c: c.collective_permute(X, [(0, 1)], out=X[0].copy()),
        ValueError,
        "out has shape (6,), the result has (4, 6)",
    ),
    "no place on the grid": (
        lambda c: c.grid((2, 2)),
        ValueError,
        "grid on rank 1: dims [2, 2] do not give a place to each of 2 ranks; their product must be 2, and a 0 lets it",
    ),
    "no axis of a grid": (lambda c: c.grid(()), ValueError, "dims is empty; give the number of ranks along each axis"),
    "a grid that cannot be chosen": (lambda c: c.grid((3, 0)), ValueError, "dims [3, 0] do not give a place to each"),
    "negative dims": (lambda c: c.grid((-2, -1)), ValueError, "dims [-2, -1] do not give a place to each of 2 ranks"),
    "dims of floats": (lambda c: c.grid(2.0), TypeError, "grid on rank 1: dims must be an integer, got float"),
    "number of periods": (
        lambda c: c.grid((2, 1), (True,)),
        ValueError,
        "grid on rank 1: periods (True,) must be True or False, or one of them for each of 2 axes",
    ),
    "a halo of a list": (
        lambda c: c.grid(2).exchange([1, 2, 3]),
        TypeError,
        "halo_exchange on rank 1: x must be a numpy array, whose halo is written; got list",
    ),
    "a halo of objects": (lambda c: c.grid(2).exchange(np.zeros(3, object)), TypeError, "whose elements have no fixed"),
    "a halo that is read-only": (lambda c: c.grid(2).exchange(read_only((4, 6))), ValueError, "x is read-only"),
    "a halo of a part": (
        lambda c: c.grid(2).exchange(np.zeros((4, 6))[:, :3]),
        ValueError,
        "halo_exchange on rank 1: x must be C-contiguous, aligned and in native byte order",
    ),
    "a halo of nine dimensions": (
        lambda c: c.grid(2).exchange(np.zeros((3,) * 9)),
        ValueError,
        "x has 9 dimensions, at most 8 are possible",
    ),
    "fewer axes than the grid": (
        lambda c: c.grid((2, 1)).exchange(np.zeros(3)),
        ValueError,
        "halo_exchange on rank 1: x has 1 dimensions, fewer than the 2 axes of the grid",
    ),
    "an axis twice": (
        lambda c: c.grid((2, 1)).exchange(np.zeros((3, 3)), axes=(1, -1)),
        ValueError,
        "halo_exchange on rank 1: axes (1, -1) must be 2 different ones, one for each axis of the grid",
    ),
    "axis of a halo": (lambda c: c.grid(2).exchange(X, axes=2), IndexError, "axis 2 is out of range for 2 dimensions"),
    "no width": (lambda c: c.grid(2).exchange(X, 0), ValueError, "width must be at least 1, got 0"),
    "width of floats": (lambda c: c.grid(2).exchange(X, 1.0), TypeError, "width must be an integer, got float"),
    "an array that is all halo": (
        lambda c: c.grid(2).exchange(X, 2),
        ValueError,
        "axis 0 of length 4 is too short for a halo of width 2 on both sides and as much between them; shape (4, 6)",
    ),
    "number of counts": (lambda c: c.all_to_all_v(X, [1]), ValueError, "send_counts must have one entry for each of 2"),
    "counts of floats": (lambda c: c.all_to_all_v(X, [1.0, 2]), TypeError, "send_counts must be integers, got float64"),
    "counts of bool": (lambda c: c.all_to_all_v(X, [True, False]), TypeError, "send_counts must be integers, got bool"),
    "negative count": (lambda c: c.all_to_all_v(X, [1, -2]), ValueError, "entry out of range: [1, -2]"),
    "huge count": (lambda c: c.all_to_all_v(X, [1, 1 << 60]), ValueError, "send_counts has an entry out of range"),
    "count beyond int64": (
        lambda c: c.all_to_all_v(X, np.uint64([1, 1 << 63])),
        ValueError,
        "send_counts has an entry out of",
    ),
    "table of counts": (lambda c: c.all_to_all_v(X, [[1, 2]]), ValueError, "got shape (1, 2)"),
    "counts are None": (
        lambda c: c.all_to_all_v(X, None),
        TypeError,
        "send_counts must be 2 integers, one for each rank, got None",
    ),
    "displacements": (
        lambda c: c.all_to_all_v(X, [12, 12], [-1, 0]),
        ValueError,
        "send_displs has an entry out of range",
    ),
    "received": (lambda c: c.all_to_all_v(X, [12, 12], recv_counts=[1]), ValueError, "recv_counts must have one entry"),
    "places": (lambda c: c.all_to_all_v(X, [12, 12], recv_displs="ab"), TypeError, "recv_displs must be integers"),
    "room": (
        lambda c: c.all_to_all_v(X, [12, 12], recv_room=[-1, 0]),
        ValueError,
        "recv_room has an entry out of range",
    ),
    "out of v": (lambda c: c.all_to_all_v(X, [12, 12], out=[0] * 9), TypeError, "out must be an array, got list"),
    "dtype of v": (lambda c: c.all_to_all_v(X, [12, 12], out=np.zeros(9)), TypeError, "out has dtype float64"),
    "read-only out of v": (lambda c: c.all_to_all_v(X, [12, 12], out=read_only((9,))), ValueError, "out is read-only"),
    "rows for elements": (
        lambda c: c.all_to_all_v(X, [1, 3]),
        ValueError,
        "all_to_all_v on rank 1: send_counts [1, 3] are 4 elements together, x has 24: counts are in elements; they "
        "add up to the rows of x: pass axis=0",
    ),
    "less than x": (
        lambda c: c.all_to_all_v(X, (1, 2)),
        ValueError,
        "all_to_all_v on rank 1: send_counts [1, 2] are 3 elements together, x has 24: counts are in elements",
    ),
    "rows scattered": (
        lambda c: c.scatter_v(X, 1, send_counts=np.array([2, 2])),
        ValueError,
        "scatter_v on rank 1: send_counts [2, 2] are 4 elements together, x has 24: counts are in elements; they add "
        "up to the rows of x: pass axis=0",
    ),
    "rows reduced": (
        lambda c: c.reduce_scatter_v(X, [1, 3]),
        ValueError,
        "reduce_scatter_v on rank 1: counts [1, 3] are 4 elements together, x has 24: counts are in elements; they add "
        "up to the rows of x: pass axis=0",
    ),
    "root of gather_v": (
        lambda c: c.gather_v(X, 2),
        ValueError,
        "gather_v on rank 1: root 2 is not a rank of this group",
    ),
    "gather_v of None": (lambda c: c.gather_v(None), TypeError, "gather_v on rank 1: x is not an array: NoneType"),
    "gather_v, counts": (
        lambda c: c.gather_v(X, 1, recv_counts=[1]),
        ValueError,
        "gather_v on rank 1: recv_counts must have one entry for each of 2 ranks, got shape (1,)",
    ),
    "gather_v, places": (
        lambda c: c.gather_v(X, 1, recv_displs=[0, -1]),
        ValueError,
        "gather_v on rank 1: recv_displs has an entry out of range: [0, -1]",
    ),
    "gather_v, out": (lambda c: c.gather_v(X, 1, out=[0]), TypeError, "out must be an array, got list"),
    "gather_v, dtype": (lambda c: c.gather_v(X, 1, out=np.zeros(9)), TypeError, "out has dtype float64, the result"),
    "gather_v, read-only": (lambda c: c.gather_v(X, 1, out=read_only((48,))), ValueError, "out is read-only"),
    "all_gather_v of strings": (
        lambda c: c.all_gather_v("ab"),
        TypeError,
        "x is not an array: str; for Python objects",
    ),
    "all_gather_v, counts": (
        lambda c: c.all_gather_v(X, recv_counts=[1.0, 2.0]),
        TypeError,
        "all_gather_v on rank 1: recv_counts must be integers, got float64",
    ),
    "all_gather_v, out": (lambda c: c.all_gather_v(X, out=[0]), TypeError, "out must be an array, got list"),
    "all_gather_v, dtype": (lambda c: c.all_gather_v(X, out=np.zeros(9)), TypeError, "out has dtype float64, the"),
    "root of scatter_v": (
        lambda c: c.scatter_v(X, "1", send_counts=[1, 2]),
        TypeError,
        "scatter_v on rank 1: root must be an integer, got str",
    ),
    "scatter_v of None": (
        lambda c: c.scatter_v(None, 1, send_counts=[1, 2]),
        TypeError,
        "scatter_v on rank 1: x is not an array",
    ),
    "scatter_v without counts": (
        lambda c: c.scatter_v(X, 1),
        TypeError,
        "scatter_v on rank 1: send_counts must be 2 integers, one for each rank, got None",
    ),
    "scatter_v, places": (
        lambda c: c.scatter_v(X, 1, send_counts=[1, 2], send_displs=[0, 1, 2]),
        ValueError,
        "scatter_v on rank 1: send_displs must have one entry for each of 2 ranks, got shape (3,)",
    ),
    "scatter_v, dtype": (
        lambda c: c.scatter_v(X, 1, send_counts=[12, 12], out=np.zeros(2)),
        TypeError,
        "scatter_v on rank 1: out has dtype float64, the result has float32",
    ),
    "scatter_v, out off the root": (
        lambda c: c.scatter_v(None, out=[1]),
        TypeError,
        "scatter_v on rank 1: out must be an array, got list",
    ),
    "scatter_v, read-only off the root": (
        lambda c: c.scatter_v(None, out=read_only((1,))),
        ValueError,
        "scatter_v on rank 1: out is read-only",
    ),
    "scatter_v, foreign out off the root": (
        lambda c: c.scatter_v(None, out=X.astype(X.dtype.newbyteorder())),
        TypeError,
        "scatter_v on rank 1: out has dtype >f4, the result has float32",
    ),
}


def refuse_all(comm, later: bool) -> list[str]:
    """Rank 1 makes every wrong call; after each, all ranks make right ones."""
    told = []
    for name, (call, kind, words) in WRONG.items():
        if comm.rank == 1:
            before = comm._dispatcher.failures._sequence()
            try:
                call(Later(comm) if later else comm)
                told.append(f"{name}: nothing was raised")
            except Exception as error:
                if type(error) is not kind or words not in str(error):
                    told.append(f"{name}: {type(error).__name__}: {error}")
            if comm._dispatcher.failures._sequence() != before:
                told.append(f"{name}: took a sequence number")
        for right in SHORT.values():
            right(comm)
    return told


class Later:
    """A communicator, or a grid of it, whose every call is asynchronous, and waited for."""

    def __init__(self, comm: Any):
        self._comm = comm

    def __getattr__(self, name: str) -> Call:
        if name == "grid":
            return lambda *args: Later(self._comm.grid(*args))
        return lambda *args, **keywords: getattr(self._comm, name)(*args, async_op=True, **keywords).wait(20)


@pytest.mark.parametrize("later", [False, True], ids=["at once", "asynchronous"])
def test_wrong_arguments_are_refused_and_the_group_goes_on(ranks, later):
    assert ranks(2, refuse_all, later) == [[], []]


def test_the_other_entry_refuses_the_same(ranks, monkeypatch):
    switches.use_entry(monkeypatch, fast=False)
    assert ranks(2, refuse_all, False) == [[], []]


# --- what the ranks find together -------------------------------------------------------------------------------------

#: of 3 ranks, of which rank 0 scatters float32[2, 64]: the outs of ranks 1 and 2, and the words of all ranks
UNFIT: dict[str, tuple[Any, Any, str]] = {
    "length": (
        np.zeros((1, 64), np.float32),
        None,
        "out of rank 1 is float32[1, 64], but rank 0 sends it float32[2, 64]",
    ),
    "dtype": (None, np.zeros((2, 64)), "out of rank 2 is float64[2, 64], but rank 0 sends it float32[2, 64]"),
    "dimensions": (
        np.zeros((2, 64), np.float32),
        np.zeros(128, np.float32),
        "out of rank 2 is float32[128], but rank 0 sends it float32[2, 64]",
    ),
    "strided": (
        np.zeros((4, 128), np.float32)[::2, ::2],
        np.zeros((2, 128), np.float32)[:, ::3],
        "out of rank 2 is float32[2, 43], but rank 0 sends it float32[2, 64]",
    ),
}


def unfit_out(comm) -> list[list[str]]:
    told = []
    for *outs, _ in UNFIT.values():
        out = np.full((2, 64), 9, np.float32) if comm.rank == 0 else outs[comm.rank - 1]
        x = np.ones((6, 64), np.float32) if comm.rank == 0 else None
        for later in (False, True):
            with pytest.raises(ValueError) as error:
                got = comm.scatter(x, out=out, async_op=later)
                got.wait(20)
            told.append([str(error.value).partition(": ")[2], str(out is None or not (out == 1).any())])
            for right in SHORT.values():
                right(comm)
    return told


def test_an_out_that_does_not_fit_what_is_scattered_is_told_to_all_ranks_and_nothing_moves(ranks):
    wanted = [[words, "True"] for *_, words in UNFIT.values() for _ in range(2)]
    assert ranks(3, unfit_out) == [wanted] * 3


def test_many_dimensions_are_compared_too(ranks):
    def differ(comm) -> str:
        x = np.zeros((2,) * 12) if comm.rank == 0 else None
        with pytest.raises(ValueError) as error:
            comm.scatter(x, out=np.zeros((1, *(2,) * 8, 4, 1, 2)) if comm.rank else None)
        return str(error.value).partition(": ")[2]

    words = "an out differs from float64[1, 2, 2, 2, 2, 2, 2, 2, ...], which rank 0 sends, in a dimension after these"
    assert ranks(2, differ) == [words] * 2
