"""What each collective means, in plain numpy, on the arrays of all ranks at once. Slow and obvious."""

import numpy as np

FOLD = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum, "avg": np.add}
BOOL_FOLD = {"sum": np.logical_or, "prod": np.logical_and, "min": np.logical_and, "max": np.logical_or}


def all_reduce(inputs: list[np.ndarray], op: str) -> np.ndarray:
    dtype = inputs[0].dtype
    half = dtype.itemsize == 2 and dtype.kind not in "iu"
    wide = np.dtype(np.float32) if half else dtype
    fold = (BOOL_FOLD if dtype.kind == "b" else FOLD)[op]
    total = inputs[0].astype(wide)
    with np.errstate(over="ignore"):
        for x in inputs[1:]:
            total = np.asarray(fold(total, x.astype(wide)), wide)
        if op == "avg":
            real = np.float32 if wide in (np.float32, np.complex64) else np.float64
            total = (total.reshape(-1).view(real) / real(len(inputs))).view(wide).reshape(total.shape)
        return total.astype(dtype)


def all_to_all(inputs: list[np.ndarray], split_axis: int, concat_axis: int) -> list[np.ndarray]:
    n = len(inputs)
    blocks = [np.split(x, n, axis=split_axis) for x in inputs]
    return [np.concatenate([blocks[sender][rank] for sender in range(n)], axis=concat_axis) for rank in range(n)]


def gather(inputs: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.atleast_1d(x) for x in inputs])


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
