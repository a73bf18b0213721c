"""What each collective means, in plain numpy, on the arrays of all ranks at once. Slow and obvious."""

import numpy as np

FOLD = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "avg": np.add,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}
BOOL_FOLD = {"sum": np.logical_or, "prod": np.logical_and, "min": np.logical_and, "max": np.logical_or}
LOGICAL_FOLD = {"land": np.logical_and, "lor": np.logical_or, "lxor": np.logical_xor}
PAIR_FOLD = {"argmin": np.argmin, "argmax": np.argmax}


def all_reduce(inputs: list[np.ndarray], op: str, _rank: int = 0) -> np.ndarray:
    dtype = inputs[0].dtype
    if op in LOGICAL_FOLD:
        return np.asarray(LOGICAL_FOLD[op].reduce([x != 0 for x in inputs]), dtype)
    if op in PAIR_FOLD:
        return best_pairs(inputs, op)
    half = dtype.itemsize == 2 and dtype.kind not in "iu"
    wide = np.dtype(np.float32) if half else dtype
    fold = ({**FOLD, **BOOL_FOLD} if dtype.kind == "b" else FOLD)[op]
    total = inputs[0].astype(wide)
    with np.errstate(over="ignore"):
        for x in inputs[1:]:
            total = np.asarray(fold(total, x.astype(wide)), wide)
        if op == "avg":
            real = np.float32 if wide in (np.float32, np.complex64) else np.float64
            total = (total.reshape(-1).view(real) / np.asarray(len(inputs), real)).view(wide).reshape(total.shape)
        return total.astype(dtype)


reduce = all_reduce  # at the root


def best_pairs(inputs: list[np.ndarray], op: str) -> np.ndarray:
    """What numpy finds when the pairs of each element stand in the order of their indices."""
    pairs = np.stack(inputs)
    pairs = np.take_along_axis(pairs, np.argsort(pairs["index"], axis=0, kind="stable"), 0)
    values = pairs["value"].astype(np.float32) if pairs["value"].dtype.itemsize == 2 else pairs["value"]
    return np.take_along_axis(pairs, PAIR_FOLD[op](values, axis=0)[None], 0)[0]


def reduce_scatter(inputs: list[np.ndarray], op: str, rank: int) -> np.ndarray:
    return all_reduce([np.split(x, len(inputs))[rank] for x in inputs], op)


def scan(inputs: list[np.ndarray], op: str, rank: int) -> np.ndarray:
    return all_reduce(inputs[: rank + 1], op)


def exscan(inputs: list[np.ndarray], op: str, rank: int) -> np.ndarray | None:
    return all_reduce(inputs[:rank], op) if rank else None


def all_to_all(inputs: list[np.ndarray], split_axis: int, concat_axis: int) -> list[np.ndarray]:
    n = len(inputs)
    blocks = [np.split(x, n, axis=split_axis) for x in inputs]
    return [np.concatenate([blocks[sender][rank] for sender in range(n)], axis=concat_axis) for rank in range(n)]


def gather(inputs: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.atleast_1d(x) for x in inputs])


def collective_permute(inputs: list[np.ndarray], pairs: list[tuple[int, int]], rank: int) -> np.ndarray:
    sources = [source for source, target in pairs if target == rank]
    return inputs[sources[0]] if sources else np.zeros_like(inputs[rank])


def all_to_all_v(
    inputs: list[np.ndarray],
    counts: np.ndarray,
    send_displs: np.ndarray,
    recv_displs: np.ndarray,
    outs: list[np.ndarray],
) -> list[np.ndarray]:
    """counts and send_displs by (sender, receiver), recv_displs by (receiver, sender); outs: as they are before."""
    results = [out.copy() for out in outs]
    for sender, x in enumerate(inputs):
        for receiver, result in enumerate(results):
            count, begin, place = counts[sender, receiver], send_displs[sender, receiver], recv_displs[receiver, sender]
            result.reshape(-1)[place : place + count] = x.reshape(-1)[begin : begin + count]
    return results


def gather_v(inputs: list[np.ndarray], displs: np.ndarray, out: np.ndarray) -> np.ndarray:
    """displs by sender; out: as it is before."""
    result = out.copy()
    for x, place in zip(inputs, displs, strict=True):
        result.reshape(-1)[place : place + x.size] = x.reshape(-1)
    return result


def scatter_v(x: np.ndarray, counts: np.ndarray, displs: np.ndarray) -> list[np.ndarray]:
    return [x.reshape(-1)[begin : begin + count] for count, begin in zip(counts, displs, strict=True)]
