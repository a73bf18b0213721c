"""ops.AllReduce and ops.AlltoAll: results, what comes out for what goes in, and refusals in MindSpore's words."""

import ml_dtypes
import numpy as np

import shmcoll.mindspore as ms
from shmcoll.mindspore import Tensor, communication, ops
from tests.support import models

NOT_INITED = (
    "RuntimeError: Distributed Communication has not been inited."
    "You can't invoke this interface yet. Please call `init()` method first."
)


def kind(x) -> tuple:
    return type(x).__name__, str(x.dtype), x.tolist()


# --- AllReduce --------------------------------------------------------------------------------------------------------


def test_all_reduce_gives_back_what_it_is_given(ranks):
    def results(comm) -> list:
        communication.init()
        x = np.arange(3, dtype=np.float32) + comm.rank
        tensor = Tensor(x)
        found = [kind(ops.AllReduce()(x)), kind(ops.AllReduce()(tensor))]
        found += [kind(ops.AllReduce(op)(x)) for op in (ops.ReduceOp.MAX, "min", ops.ReduceOp.PROD, ops.ReduceOp.AVG)]
        found += [kind(ops.AllReduce()(Tensor(2.0))), kind(ops.AllReduce()(np.array(7, np.int8)))]
        found += [kind(ops.AllReduce("max", "nccl_world_group")(Tensor([1, 2], ms.bfloat16)))]
        return [*found, kind(x), kind(tensor)]

    for rank, found in enumerate(ranks(2, results)):
        own = [rank, rank + 1.0, rank + 2.0]
        assert found == [
            ("ndarray", "float32", [1, 3, 5]),
            ("Tensor", "Float32", [1, 3, 5]),
            ("ndarray", "float32", [1, 2, 3]),
            ("ndarray", "float32", [0, 1, 2]),
            ("ndarray", "float32", [0, 2, 6]),
            ("ndarray", "float32", [0.5, 1.5, 2.5]),
            ("Tensor", "Float32", 4.0),
            ("ndarray", "int8", 14),
            ("Tensor", "BFloat16", [1, 2]),
            ("ndarray", "float32", own),
            ("Tensor", "Float32", own),
        ]


def test_all_reduce_refuses_at_construction(told):
    assert told(lambda: ops.AllReduce(3, 4)) == "TypeError: For 'AllReduce', the 'op' must be str, but got int."
    assert told(lambda: ops.AllReduce(group=4)) == "TypeError: For 'AllReduce', the 'group' must be str, but got int."
    assert ops.AllReduce(group="mine").group == "mine"  # the call refuses it
    assert ops.AllReduce("no such op").op == "no such op"


def test_fusion_is_an_integer(told):
    for value, name in (("2", "str"), (2.0, "float"), (True, "bool"), (None, "NoneType")):
        assert told(lambda value=value: ops.AllReduce().add_prim_attr("fusion", value)) == (
            f"TypeError: For 'AllReduce', the 'fusion' must be int, but got {name}."
        )
    reduce = ops.AllReduce()
    assert reduce.add_prim_attr("fusion", 2) is reduce
    assert repr(reduce) == ("Prim[AllReduce]<op=sum, group=hccl_world_group, fusion=2, index=0, no_eliminate=True>")


def test_all_reduce_refuses_at_the_call(ranks, told):
    def refusals(comm) -> list[str]:
        before = told(lambda: ops.AllReduce()(np.ones(2)))
        communication.init()
        return [
            before,
            told(lambda: ops.AllReduce()([1.0])),
            told(lambda: ops.AllReduce()(np.array([True]))),
            told(lambda: ops.AllReduce()(Tensor([True]))),
            told(lambda: ops.AllReduce("no such op")(np.ones(2))),
            told(lambda: ops.AllReduce("avg")(np.ones(2, int))),
            told(lambda: ops.AllReduce()(np.ones(1))),
        ]

    bool_refused = "TypeError: For 'AllReduce', the dtype of the input must be a number, but got Bool."
    for rank, found in enumerate(ranks(2, refusals)):
        assert found[:4] == [
            NOT_INITED,
            "TypeError: For 'AllReduce', input must be a Tensor, but got: list.",
            bool_refused,
            bool_refused,
        ]
        assert found[4].startswith(f"ValueError: all_reduce on rank {rank}: unknown op 'no such op'")
        assert found[5].startswith(f"TypeError: all_reduce on rank {rank}: avg of int64")
        assert found[6] == "nothing wrong: array([2.])"


# --- AlltoAll ---------------------------------------------------------------------------------------------------------


def test_all_to_all_equals_the_model(ranks, seed):
    """Every pair of dims, negative ones too, of shapes with every divisible extent; Tensors and arrays."""
    n = 3
    rng = np.random.default_rng(seed)
    cases = []
    for shape in ((n,), (n, 2), (2 * n, n), (n, 1, 2 * n), (0, n)):
        inputs = [rng.integers(-99, 99, shape) for _ in range(n)]
        for split in range(-len(shape), len(shape)):
            for concat in range(-len(shape), len(shape)):
                if shape[split] % n == 0:
                    cases.append((inputs, split, concat))

    def wrong(comm) -> list[str]:
        communication.init()
        found = []
        for i, (inputs, split, concat) in enumerate(cases):
            array = inputs[comm.rank].astype([np.int64, np.float32, np.uint8, ml_dtypes.bfloat16][i % 4])
            x = array if i % 3 else Tensor(array)
            got = ops.AlltoAll(n, split, concat)(x)
            wanted = models.all_to_all([one.astype(array.dtype) for one in inputs], split, concat)[comm.rank]
            plain = np.asarray(got)
            if (type(got), plain.dtype, got.shape) != (type(x), wanted.dtype, wanted.shape) or (plain != wanted).any():
                found.append(f"{array.shape} {split} {concat}: {got!r}")
        return found

    assert len(cases) > 50
    assert ranks(n, wrong) == [[]] * n


def test_all_to_all_of_bool(ranks):
    def result(comm) -> list:
        communication.init()
        return ops.AlltoAll(2, 0, 0)(np.array([comm.rank == 0, True])).tolist()

    assert ranks(2, result) == [[True, False], [True, True]]


def test_all_to_all_refuses_at_construction(told):
    assert told(lambda: ops.AlltoAll(8.0, 0, 0, group=3)) == (
        "TypeError: For 'AlltoAll', the type of 'group' should be 'str', but got type 'int'."
    )
    for arguments, name in (((8.0, "0", 0), "float"), ((8, "0", None), "str"), ((8, 0, True), "bool")):
        assert told(lambda arguments=arguments: ops.AlltoAll(*arguments, group="mine")) == (
            f"TypeError: The type of '<class 'int'>' must be 'int', but got '{name}'."
        )


def test_all_to_all_reads_the_number_of_ranks_at_construction(told, monkeypatch):
    monkeypatch.setenv("RANK_SIZE", "8")
    made = ops.AlltoAll(4, 0, 0)
    monkeypatch.setenv("RANK_SIZE", "4")
    assert made.rank_size == 8
    assert told(lambda: made(np.ones(4))) == (
        "ValueError: For 'AlltoAll, the 'split_count' must be equal to 'rank_size', "
        "but got 'split_count': 4, 'rank_size': 8"
    )
    assert repr(ops.AlltoAll(4, -2, 1)) == (
        "Prim[AlltoAll]<split_count=4, split_dim=-2, concat_dim=1, group=hccl_world_group, no_eliminate=True, "
        "rank_size=4>"
    )


def test_all_to_all_refuses_at_the_call_in_order(told, monkeypatch):
    """Each call has every later mistake as well."""
    monkeypatch.setenv("RANK_SIZE", "4")
    assert told(lambda: ops.AlltoAll(3, 5, 5)(5)) == (
        "TypeError: For 'AlltoAll', input must be a Tensor, but got: Int64."
    )
    for dtype, name in ((np.complex64, "Complex64"), ("S2", "|S2")):
        assert told(lambda dtype=dtype: ops.AlltoAll(3, 5, 5)(np.zeros(2, dtype))) == (
            "TypeError: For 'AlltoAll', the dtype of the input must be one of Bool, Int8, Int16, Int32, Int64, UInt8, "
            f"UInt16, UInt32, UInt64, Float16, BFloat16, Float32, Float64, but got {name}."
        )
    assert told(lambda: ops.AlltoAll(3, 5, 5)(np.zeros(2))) == (
        "ValueError: For 'AlltoAll, the 'split_count' must be equal to 'rank_size', "
        "but got 'split_count': 3, 'rank_size': 4"
    )
    x = np.zeros((6, 4))
    assert told(lambda: ops.AlltoAll(4, 2, 2)(x)) == "IndexError: Invalid concat dim 2 is greater than shape size 2"
    assert told(lambda: ops.AlltoAll(4, 0, -3)(x)) == "IndexError: Invalid concat dim -3 is greater than shape size 2"
    assert told(lambda: ops.AlltoAll(4, -3, 0)(x)) == "IndexError: Invalid split dim -3 is greater than shape size 2"
    assert told(lambda: ops.AlltoAll(4, 0, 0)(Tensor(2))) == (
        "IndexError: Invalid concat dim 0 is greater than shape size 0"
    )
    assert told(lambda: ops.AlltoAll(4, -2, 1)(x)) == (
        "ValueError: For 'AlltoAll', the 'x_shape[split_dim]' must be divisible by 'split_count', "
        "but got 'x_shape[split_dim]' 6, 'split_count' 4."
    )
    assert told(lambda: ops.AlltoAll(4, 1, 1)(x)) == NOT_INITED
