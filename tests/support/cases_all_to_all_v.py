"""Cases of all_to_all_v: random counts and displacements, compared with a double loop in numpy."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tests.support import layouts, models
from tests.support.dtypes import DTYPES, DType
from tests.support.suite import Case


@dataclass
class Exchange:
    """What all ranks send and receive. Tables by (this rank, the other)."""

    dtype: DType
    counts: np.ndarray
    send_displs: np.ndarray
    recv_displs: np.ndarray
    inputs: list[np.ndarray]
    outs: list[np.ndarray]


def draw(rng: np.random.Generator, n: int, kind: str, packed: bool) -> Exchange:
    """Random counts of a kind. Sends may overlap; receive regions lie apart, in any order, with gaps."""
    dtype = DTYPES[rng.integers(len(DTYPES))]
    counts = {
        "small": lambda: rng.integers(0, 9, (n, n)),
        "sparse": lambda: rng.integers(1, 50, (n, n)) * (rng.random((n, n)) < 0.3),
        "none": lambda: np.zeros((n, n), np.int64),
        "some empty": lambda: rng.integers(1, 20, (n, n)) * (rng.random((n, 1)) < 0.5),
        "large": lambda: rng.integers(0, (600 << 10) // (n * dtype.numpy.itemsize), (n, n)),
        "skewed": lambda: np.where(rng.random((n, n)) < 1 / n, (1 << 20) // dtype.numpy.itemsize, rng.integers(0, 3)),
    }[kind]()
    send_displs = np.cumsum(counts, 1) - counts
    recv_displs = np.cumsum(counts.T, 1) - counts.T
    sizes, rooms = counts.sum(1), counts.sum(0)
    if not packed:
        gap = int(rng.integers(0, 5))
        send_displs = np.array([[rng.integers(0, gap + 1 + counts.max() - c) for c in row] for row in counts])
        sizes = np.full(n, counts.max() + gap)
        for rank in range(n):
            place = 0
            for sender in rng.permutation(n):
                place += int(rng.integers(0, 4))
                recv_displs[rank, sender] = place
                place += counts[sender, rank]
            rooms[rank] = place + int(rng.integers(0, 4))
    inputs = [layouts.values(rng, dtype.numpy, (int(s),)) for s in sizes]
    outs = [layouts.values(rng, dtype.numpy, (int(r),)) for r in rooms]
    return Exchange(dtype, counts, send_displs, recv_displs, inputs, outs)


def case(seed: int, n: int, kind: str, packed: bool, layout: str, out: str, later: bool) -> Case:
    name = (
        f"all_to_all_v {kind}{' packed' if packed else ''} x={layout} out={out}{' async' if later else ''} {n=} {seed=}"
    )

    def check(comm) -> str:
        rng = np.random.default_rng(seed)
        plan = draw(rng, n, kind, packed)
        expect, roomy = rng.random() < 0.5, rng.random() < 0.5
        me = comm.rank
        arriving = plan.counts[:, me]
        x = layouts.INPUTS[layout](plan.inputs[me])
        if out == "none":
            length = int((plan.recv_displs[me] + arriving)[arriving > 0].max(initial=0))
            target, before = None, np.zeros(length, x.dtype.newbyteorder("=") if hasattr(x, "dtype") else None)
            before = np.zeros(length, plan.dtype.numpy)
        else:
            before = plan.outs[me]
            target = layouts.OUTPUTS[out](before)
        outs = [before if rank == me else plan.outs[rank] for rank in range(n)]
        wanted = one_result(plan, outs, me)
        got = comm.all_to_all_v(
            x,
            plan.counts[me] if rng.random() < 0.5 else plan.counts[me].tolist(),
            None if packed else plan.send_displs[me],
            recv_counts=arriving if expect else None,
            recv_displs=None if packed else plan.recv_displs[me],
            recv_room=arriving + 1 if roomy else None,
            out=target,
            async_op=later,
        )
        got, found = got.wait() if later else got
        if target is not None and got is not target:
            return "out was not returned"
        if found.dtype != np.int64 or found.tolist() != arriving.tolist():
            return f"receive counts {found!r}, wanted {arriving}"
        return layouts.same(got, wanted) or layouts.changed(x, plan.inputs[me], out)

    return name, check


def one_result(plan: Exchange, outs: list[np.ndarray], rank: int) -> np.ndarray:
    """What one rank gets; the others' results need not be worked out."""
    counts = np.where(np.arange(len(outs)) == rank, plan.counts, 0)
    return models.all_to_all_v(plan.inputs, counts, plan.send_displs, plan.recv_displs, outs)[rank]


def sample(seed: int, n: int, factor: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    flat = [name for name in layouts.OUTPUTS if name not in ("transposed", "fortran")]
    for kind, times in (("small", 20), ("sparse", 20), ("none", 3), ("some empty", 10), ("large", 4), ("skewed", 4)):
        for _ in range(times * factor):
            layout = str(rng.choice([*layouts.OUTPUTS, "read-only", "foreign"]))
            out = str(rng.choice(["none", "none", *flat]))
            yield case(
                int(rng.integers(1 << 32)), n, kind, rng.random() < 0.4, layout, out, rng.random() < 0.1
            )  # fmt: skip
