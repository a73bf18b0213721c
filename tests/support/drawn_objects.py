"""Random objects, made of all that pickle treats differently."""

import array
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from ml_dtypes import bfloat16


@dataclass
class Point:
    x: float
    y: list


def drawn(rng, depth: int = 0):
    """A random object, made of all that pickle treats differently."""
    size = int(rng.choice([0, 1, 7, 2_000, 2_049, 9_000, 70_000]))
    kinds = [
        lambda: int(rng.integers(1 << 62)),
        lambda: "ünï" * int(rng.integers(3_000)),
        lambda: bytes(rng.integers(0, 256, size, np.uint8)),
        lambda: bytearray(rng.integers(0, 256, size, np.uint8)),
        lambda: array.array("d", rng.random(size % 5_000)),
        lambda: rng.integers(-9, 9, size),
        lambda: np.asfortranarray(rng.random((size // 7, 7))),
        lambda: rng.random((size // 3, 6))[:, ::2],
        lambda: rng.integers(0, 9, size).astype(bfloat16),
        lambda: rng.random(size).astype(">f4"),
        lambda: Fraction(int(rng.integers(99)), 7),
        lambda: Point(float(rng.random()), [None, Ellipsis]),
    ]
    nested = [
        lambda: [drawn(rng, depth + 1) for _ in range(rng.integers(6))],
        lambda: {f"k{i}": drawn(rng, depth + 1) for i in range(rng.integers(4))},
        lambda: (drawn(rng, depth + 1),) * 2,
    ]
    every = kinds + nested * (depth < 3)
    return every[rng.integers(len(every))]()


def same(a, b) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.flags.aligned and bool((a == b).all())
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return a == b
