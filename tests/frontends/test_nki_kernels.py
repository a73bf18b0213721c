"""`nki.jit`, `nki.simulate` and what `nki.isa` has: what kernels need around a collective."""

import numpy as np
import pytest

from shmcoll import nki
from shmcoll.nki import isa
from shmcoll.nki import language as nl


def test_kernels_run_as_python():
    @nki.jit
    def double(x, factor=2):
        """Return a multiple."""
        return x * factor

    @nki.jit(mode="auto")
    def negative(x):
        return -x

    assert (double(3), double[2](3, factor=3), nki.simulate(double)(4), nki.simulate(abs)(-1)) == (6, 9, 8, 1)
    assert (negative(3), double.__name__, double.__doc__) == (-3, "double", "Return a multiple.")


def test_copies_and_fills():
    x, out = np.arange(6, dtype=np.float32).reshape(2, 3), nl.ndarray((3, 2), nl.int32, buffer=nl.psum)
    isa.dma_copy(out, x)
    assert out.tolist() == [[0, 1], [2, 3], [4, 5]]
    isa.dma_copy(dst=out.T, src=x, dst_rmw_op=nl.add)
    assert out.tolist() == [[0, 4], [3, 7], [6, 10]]
    isa.tensor_copy(out[:, 0], x[1], engine=isa.vector_engine)
    isa.memset(out[:, 1], 7, engine=isa.engine.gpsimd)
    isa.core_barrier(out, (0, 1))
    assert out.tolist() == [[3, 7], [4, 7], [5, 7]]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: isa.dma_copy(x, 5), "TypeError: dma_copy: src must be a numpy array, got int"),
        (lambda x: isa.dma_copy(x, x[:2]), "ValueError: dma_copy: dst has 3 elements, and src 2; cut the larger one"),
        (
            lambda x: isa.dma_copy(np.broadcast_to(x, 3), x),
            "ValueError: dma_copy: dst is read-only; write to an array of",
        ),
        (
            lambda x: isa.memset(np.broadcast_to(x, 3), 1),
            "ValueError: memset: dst is read-only; write to an array of the",
        ),
        (lambda x: nki.jit(x), "TypeError: jit: fn must be a function, got ndarray; write @nki.jit above one"),
        (lambda x: nki.simulate(x), "TypeError: simulate: kernel must be a function, got ndarray; call it as "),
        (
            lambda x: isa.dma_copy(x, x, dst_rmw_op=max),
            "TypeError: dma_copy: dst_rmw_op must be None or nl.add, got <built-in",
        ),
        (lambda x: isa.tensor_copy(x, x[:1]), "ValueError: tensor_copy: dst has 3 elements, and src 1"),
        (lambda x: isa.memset([1], 0), "TypeError: memset: dst must be a numpy array, got list"),
        (lambda x: isa.core_barrier(None, (0, 1)), "TypeError: core_barrier: data must be a numpy array, got NoneType"),
    ],
)
def test_refusals(told, call, text):
    assert told(lambda: call(np.zeros(3))).startswith(text)
