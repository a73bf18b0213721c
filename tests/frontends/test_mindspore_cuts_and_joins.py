"""Functions of `ops` and `mint` that programs need around collectives, and the methods of tensors that do the same."""

import numpy as np
import pytest

import shmcoll.mindspore as ms
from shmcoll.mindspore import Tensor, mint, ops

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def same(found, wanted):
    np.testing.assert_array_equal(np.array(found), wanted)


def shapes(parts):
    assert all(type(one) is Tensor for one in parts)
    return [one.shape for one in parts]


def test_cuts():
    x = Tensor(X)
    for found in (ops.split(x, 3, axis=1), mint.split(x, 3, dim=1), x.split(3, axis=1), x.chunk(2, axis=1)):
        assert type(found) is tuple
        assert shapes(found) in ([(3, 3), (3, 1)], [(3, 2), (3, 2)])
        same(mint.cat(found, dim=-1), X)
    assert shapes(x.split([2, 0, 1])) == [(2, 4), (0, 4), (1, 4)]
    assert shapes(ops.chunk(x, 2)) == shapes(mint.chunk(x, 2, dim=0)) == [(2, 4), (1, 4)]
    assert shapes(ops.chunk(x, 5)) == [(1, 4)] * 3
    assert shapes(ops.Split(1, 2)(x)) == [(3, 2)] * 2
    assert [type(one) for one in ops.split(X, 2)] == [np.ndarray] * 2


def test_joins():
    x, y = Tensor(X), Tensor(X + 1)
    for found in (ops.cat((x, y), 1), ops.concat([x, y], axis=1), ops.Concat(1)([x, y]), mint.concat([x, y], dim=1)):
        same(found, np.concatenate([X, X + 1], 1))
    same(ops.stack([x, y], axis=2), np.stack([X, X + 1], 2))
    same(mint.stack([x, y], dim=1), np.stack([X, X + 1], 1))


def test_new_tensors_and_other_shapes():
    x = Tensor(X)
    made = [ops.zeros(2), ops.ones((1, 2), ms.int32), mint.full((2,), 7, dtype=ms.float16), x.new_zeros((2,))]
    made += [ops.zeros_like(x), mint.ones_like(x, dtype=ms.int8), x.new_empty(1, dtype=ms.int64)]
    assert [(one.shape, str(one.dtype)) for one in made] == [
        ((2,), "Float32"), ((1, 2), "Int32"), ((2,), "Float16"), ((2,), "Float32"),
        ((3, 4), "Float32"), ((3, 4), "Int8"), ((1,), "Int64"),
    ]  # fmt: skip
    assert [float(one.sum()) for one in made[:6]] == [0, 2, 14, 0, 0, 12]
    same(ops.transpose(x, (1, 0)), X.T)
    same(ops.MatMul(transpose_b=True)(x, x), X @ X.T)
    same(ops.MatMul(transpose_a=True)(x, x), X.T @ X)
    assert ops.reshape(x, (4, 3)).shape == (4, 3) and ops.cast(x, ms.int32).dtype == ms.int32
    assert ops.stop_gradient(x) is x
    assert x.sum(dim=1, keepdim=True).shape == (3, 1) and x.sum(axis=0).tolist() == X.sum(0).tolist()
    assert str(x.astype(ms.int8).sum().dtype) == "Int64" and float(np.sum(x)) == X.sum()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: ops.split(x, 0), "ValueError: For split, the value of 'split_size_or_sections' must be more than"),
        (lambda x: x.split([1, 1]), "ValueError: The sum of 'split_size_or_sections' should be equal to 3, but got 2."),
        (lambda x: x.split([4, -1]), "TypeError: Each element in 'split_size_or_sections' should be non-negative, but"),
        (
            lambda x: x.split(1.5),
            "TypeError: For split, the type of 'split_size_or_sections' must be int, tuple(int) o",
        ),
        (lambda x: x.chunk(0), "ValueError: For ops.chunk parameter 'chunks' must be greater than 0, but got 0"),
        (lambda x: ops.Split(0, 2)(x), "ValueError: For 'Split', x_shape[0] must be divisible by output_num = 2, but"),
        (lambda x: ops.cat([x, 1.0]), "TypeError: For 'cat', the input must be a Tensor, but got float."),
        (lambda x: ms.set_device("TPU"), "ValueError: The argument 'device_target' must be one of ['CPU', 'GPU', 'Asc"),
        (
            lambda x: ms.set_device(0),
            "TypeError: The parameter 'device_target' must be <class 'str'>, but got <class 'int'>",
        ),
        (lambda x: ms.set_device("CPU", -1), "ValueError: For 'context.set_context', the argument 'device_id' must be"),
    ],
)
def test_refusals(told, call, text):
    assert told(lambda: call(Tensor(X))).startswith(text)
