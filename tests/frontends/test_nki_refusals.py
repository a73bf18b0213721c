"""What nki.collectives refuses on one rank: type and text of each check, and what the other ranks get."""

import re

import numpy as np
import pytest

import shmcoll
from shmcoll.nki import collectives as ncc
from shmcoll.nki import language as nl
from shmcoll.nki.collectives import ReplicaGroup

SHAPE = "all_to_all_v: metadata_tensor must have shape {}, or the same behind a first axis of 1, for 1 ranks and "
NO_PRIORITY = "ValueError: {}: priority must be 0, 1, 2, 3 or None, got {}"
DIM = "{}: collective_dim must be {}"
RING = "collective_permute_implicit"
ONE_ARRAY = "must be a list of one array, got ndarray; write [x] for an array x"
FOREIGN = "; a tensor of another library shares its memory as tensor.numpy() or np.from_dlpack(tensor)"
GROUP = "replica_group must be a ReplicaGroup, got {}; write ReplicaGroup([[0, 1]]) for ranks 0 and 1"


def refusals() -> list[tuple]:
    """Calls on one rank, and what they are refused with. Nothing of it reaches another rank."""
    x, i, short, group, m = np.zeros(3), np.zeros(3, int), np.zeros(2), ReplicaGroup([[0]]), np.zeros((3, 1), np.uint32)
    frozen, frozen_m, table = np.zeros(3), m.copy(), np.zeros((2, 2))
    twice = np.lib.stride_tricks.as_strided(np.zeros(1), (3,), (0,))
    frozen.flags.writeable = frozen_m.flags.writeable = False
    a2av, agv, reduce, around = ncc.all_to_all_v, ncc.all_gather_v, ncc.all_reduce, ncc.collective_permute_implicit
    both = (ncc.all_gather, (0,)), (ncc.reduce_scatter, (0, nl.add)), (ncc.all_to_all, (0,)), (reduce, (nl.add,))
    return [
        # lists of tensors
        (a2av, (x, [x], group, m), f"TypeError: all_to_all_v: srcs {ONE_ARRAY}"),
        *[
            (
                a2av,
                (srcs, dsts, group, m),
                f"ValueError: all_to_all_v: {name} must hold exactly one array, got {n}; make a call for each array",
            )
            for srcs, dsts, name, n in (([x, x], [x], "srcs", 2), ([x], [], "dsts", 0))
        ],
        (a2av, ([x], [[1.0]], group, m), f"TypeError: all_to_all_v: dsts[0] must be a numpy array, got list{FOREIGN}"),
        (
            reduce,
            (x, [x], group, nl.add),
            "TypeError: all_reduce: srcs must be a list of arrays, got ndarray; write srcs=[x]",
        ),
        (
            reduce,
            ([x, x], [x, 1], group, nl.add),
            f"TypeError: all_reduce: dsts[1] must be a numpy array, got int{FOREIGN}",
        ),
        (
            reduce,
            ([x, x], [x], group, nl.add),
            "ValueError: all_reduce: srcs and dsts must hold one or more arrays each, and equally many; got 2 and 1",
        ),
        (
            reduce,
            ([], [], group, nl.add),
            "ValueError: all_reduce: srcs and dsts must hold one or more arrays each, and equally many; got 0 and 0",
        ),
        # dtypes and shapes, of one tensor and of several
        (
            a2av,
            ([x], [i], group, m),
            "TypeError: all_to_all_v on rank 0: dsts[0] has dtype int64, the result has float64",
        ),
        *[
            (
                function,
                ([x], [frozen], group, *rest),
                f"ValueError: {function.__name__} on rank 0: dsts[0] is read-only",
            )
            for function, rest in ((a2av, (m,)), (agv, (m,)), *both)
        ],
        *[
            (
                function,
                ([x], [twice], group, *rest),
                f"ValueError: {function.__name__} on rank 0: dsts[0] overlaps itself: of shape (3,) and strides (0,), "
                f"several of its elements share memory; pass an array with memory for each element",
            )
            for function, rest in ((a2av, (m,)), *both)
        ],
        *[
            (
                function,
                ([np.ma.masked_array(x)], [x], group, *rest),
                f"TypeError: {function.__name__} on rank 0: srcs[0] is a masked array, and its mask would be lost; "
                f"pass srcs[0].filled(value), srcs[0].compressed(), or srcs[0].data and the mask as two arrays",
            )
            for function, rest in ((a2av, (m,)), *both)
        ],
        (
            reduce,
            ([x, x.astype("m8[s]")], [x, x.astype("m8[s]")], group, nl.add),
            "TypeError: all_reduce on rank 0: dtype timedelta64[s] cannot be reduced; reduce srcs[1].view('int64'), "
            "and view the result as 'timedelta64[s]'",
        ),
        *[
            (function, (srcs, dsts, group, *rest), f"{error} on rank 0: dsts[{len(dsts) - 1}] has {wrong}")
            for function, rest in both
            for srcs, dsts, error, wrong in (
                ([x], [short], f"ValueError: {function.__name__}", "shape (2,), the result has (3,)"),
                ([x, x], [x, short], f"ValueError: {function.__name__}", "shape (2,), the result has (3,)"),
                ([x], [i], f"TypeError: {function.__name__}", "dtype int64, the result has float64"),
                ([x, x], [x, i], f"TypeError: {function.__name__}", "dtype int64, the result has float64"),
            )
        ],
        (
            reduce,
            ([x.astype(nl.float8_e5m2)], [x], group, nl.add),
            "TypeError: all_reduce on rank 0: dsts[0] has dtype float64, the result has float8_e5m2",
        ),
        (
            reduce,
            ([x.astype(nl.float8_e5m2)], [short.astype(nl.float8_e5m2)], group, nl.add),
            "ValueError: all_reduce on rank 0: dsts[0] has shape (2,), the result has (3,)",
        ),
        (
            ncc.all_gather,
            ([table], [x], group, 1),
            "ValueError: all_gather on rank 0: dsts[0] has shape (3,), the result has (2, 2)",
        ),
        (
            ncc.all_gather,
            ([x], [x], group, 1),
            "ValueError: all_gather: collective_dim=1 needs arrays of 2 dimensions; got shape (3,)",
        ),
        # arguments that every function has
        *[
            (a2av, ([x], [x], group, m, False, False, p), NO_PRIORITY.format("all_to_all_v", f"{p!r}"))
            for p in (4, "0")
        ],
        *[(f, ([x], [x], group, *rest, 4), NO_PRIORITY.format(f.__name__, 4)) for f, rest in both],
        (ncc.collective_permute, ([x], [x], [], -1), NO_PRIORITY.format("collective_permute", -1)),
        (around, ([[x]], [[x]], group, [0], True), NO_PRIORITY.format(RING, True)),
        (a2av, ([x], [x], [[0]], m), f"TypeError: all_to_all_v: {GROUP.format('list')}"),
        (reduce, ([x], [x], None, nl.add), f"TypeError: all_reduce: {GROUP.format('NoneType')}"),
        (
            reduce,
            ([x], [x], ReplicaGroup([[0, 1]]), nl.add),
            "ValueError: all_reduce: ReplicaGroup([[0, 1]]) names rank 1, but the job has 1 ranks; start more: "
            "shmrun -n 2 program.py",
        ),
        *[
            (function, ([x], [x], group, value, *rest[1:]), f"{error}: {DIM.format(function.__name__, text)}")
            for function, rest in both[:3]
            for value, error, text in (
                (2, "ValueError", "0 or 1, got 2" if function is ncc.all_gather else "0, got 2"),
                (-1, "ValueError", "0 or 1, got -1" if function is ncc.all_gather else "0, got -1"),
                ("0", "TypeError", "an integer, got str"),
                (False, "TypeError", "an integer, got bool"),
            )
        ],
        (
            reduce,
            ([x], [x], group, "add"),
            "TypeError: all_reduce: op must be nl.add, nl.minimum or nl.maximum, got 'add'",
        ),
        (
            ncc.reduce_scatter,
            ([x], [x], group, 0, np.multiply),
            "TypeError: reduce_scatter: op must be nl.add, nl.minimum or nl.maximum, got <ufunc 'multiply'>",
        ),
        # metadata
        (
            a2av,
            ([x], [x], group, [[0], [0], [0]]),
            "TypeError: all_to_all_v: metadata_tensor must be a numpy array, got list; write np.array(rows, np.uint32)",
        ),
        (
            agv,
            ([x], [x], group, m.astype(np.int64)),
            "TypeError: all_gather_v: metadata_tensor must be uint32 (or int32), got int64; convert it, as in "
            "metadata.astype(np.uint32)",
        ),
        *[
            (
                a2av,
                ([x], [x], group, np.zeros(shape, np.uint32), False, rdispls),
                f"ValueError: {SHAPE.format(fitting)}has_rdispls={rdispls}, got {shape}",
            )
            for shape, rdispls, fitting in (
                ((5, 1), False, "(3, 1) or (4, 1)"),
                ((2, 3, 1), False, "(3, 1) or (4, 1)"),
                ((1, 3, 2), False, "(3, 1) or (4, 1)"),
                ((3, 1), True, "(4, 1)"),
                ((3,), False, "(3, 1) or (4, 1)"),
            )
        ],
        (
            a2av,
            ([x], [x], group, frozen_m),
            "ValueError: all_to_all_v: metadata_tensor is read-only, but row 2 is written; pass a copy, or "
            "recv_counts_known=True",
        ),
        (
            agv,
            ([x], [x], group, np.array([[2], [2], [0]], np.uint32)),
            "ValueError: all_gather_v: 2 elements from displacement 2 are sent, but srcs[0] has 3",
        ),
        # permutes
        (
            ncc.collective_permute,
            ([x, x], [x], []),
            "ValueError: collective_permute: srcs must hold exactly one array, got 2; make a call for each array",
        ),
        (
            ncc.collective_permute,
            ([x], [x], [(0, 1)]),
            "ValueError: collective_permute on rank 0: target 1 is not a rank of this group of 1; use 0 or start more "
            "ranks: shmrun -n 4 script.py",
        ),
        (
            ncc.collective_permute,
            ([x], [x], 3),
            "TypeError: collective_permute on rank 0: source_target_pairs must be a sequence of (source, target), "
            "got int",
        ),
        (
            ncc.collective_permute,
            ([x], [x], [(0,)]),
            "TypeError: collective_permute on rank 0: (0,) in source_target_pairs is not a pair (source, target)",
        ),
        (
            ncc.collective_permute,
            ([x], [short], []),
            "ValueError: collective_permute on rank 0: dsts[0] has shape (2,), the result has (3,)",
        ),
        (
            around,
            (x, [[x]], group),
            f"TypeError: {RING}: srcs_by_channel must be a list with a list for each channel, such as [[x]], "
            "got ndarray",
        ),
        (around, ([x], [[x]], group), f"TypeError: {RING}: srcs_by_channel[0] {ONE_ARRAY}"),
        (
            around,
            ([[x]], [[x]], group, [0, 1]),
            f"ValueError: {RING}: channel_ids must be different numbers for the 1 channels of srcs_by_channel, "
            "got [0, 1]",
        ),
        (
            around,
            ([[x], [x]], [[x], [x]], group, [1, 1]),
            f"ValueError: {RING}: channel_ids must be different numbers for the 2 channels of srcs_by_channel, "
            "got [1, 1]",
        ),
        (
            around,
            ([[x], [x]], [[x]], group, [0, 1]),
            f"ValueError: {RING}: channel_ids must be different numbers for the 1 channels of dsts_by_channel, "
            "got [0, 1]",
        ),
        (
            around,
            ([[x]], [[x]], group, [-1]),
            f"ValueError: {RING}: a number of channel_ids must not be negative, got -1",
        ),
        (
            around,
            ([[x]], [[x]], group, [True]),
            f"TypeError: {RING}: a number of channel_ids must be an integer, got bool",
        ),
        (around, ([[x]], [[x]], group, 0), f"TypeError: {RING}: channel_ids must be a list of integers, got int"),
        (
            around,
            ([[x], [x]], [[x], [short]], group, [0, 1]),
            f"ValueError: {RING} on rank 0: dsts_by_channel[1][0] has shape (2,), the result has (3,)",
        ),
        (
            around,
            ([[x]], [[i]], group),
            f"TypeError: {RING} on rank 0: dsts_by_channel[0][0] has dtype int64, the result has float64",
        ),
        *[
            (
                ncc.collective_permute_implicit_reduce,
                ([[x]], [[other]], [[x]], group, nl.add),
                f"{error}: {RING}_reduce: srcs1_by_channel[0][0] has {text}",
            )
            for other, error, text in (
                (i, "TypeError", "dtype int64, srcs0_by_channel[0][0] has float64"),
                (short, "ValueError", "shape (2,), srcs0_by_channel[0][0] has (3,)"),
            )
        ],
        *[
            (
                ncc.collective_permute_implicit_current_processing_rank_id,
                arguments,
                f"{error}: {RING}_current_processing_rank_id: {text}",
            )
            for arguments, error, text in (
                (("0", group), "TypeError", "iteration_id must be an integer, got str"),
                ((-1, group), "ValueError", "iteration_id must not be negative, got -1"),
                ((0, group, 1.0), "TypeError", "channel_id must be an integer, got float"),
                ((0, [[0]]), "TypeError", GROUP.format("list")),
            )
        ],
    ]


def test_refusals(ranks, told):
    def run(comm) -> list[tuple[str, str]]:
        return [(told(lambda f=f, a=a: f(*a)), text) for f, a, text in refusals()]

    assert [pair for pair in ranks(1, run)[0] if pair[0] != pair[1]] == []


def wrong_values() -> list:
    """What no parameter, or only a few of them, can take."""
    x, frozen = np.ones(4, np.float32), np.ones(4, np.float32)
    frozen.flags.writeable = False
    tensors = [np.array(3.0), np.array(["a"]), np.array([object()]), x.astype("M8[s]"), np.zeros(4, "i4,f4"), frozen]
    return [
        *(None, 3, -1, 2.5, "x", b"x", True, [], {}, {"a": 1}, (1, 2), print, np.add, np.float32(1), x, object()),
        *(
            [None],
            [[None]],
            [3],
            [(0,)],
            [(0, 9)],
            [("a", 0)],
            [(0, 0), (0, 0)],
            [x, x],
            [[x], [x]],
            ReplicaGroup([[9]]),
        ),
        *(np.zeros(shape, np.uint32) for shape in ((3, 2), (5, 1), (3,), (1, 1, 3, 1))),
        *([one] for one in (*tensors, np.ma.ones(4))),
        *([[one]] for one in tensors),
    ]


def test_every_wrong_argument_is_told_by_nkis_names(ranks):
    """As `TypeError` or `ValueError` with the name of the function, and without names of the communicator's calls."""

    def run(comm) -> list[str]:
        x, group, found = np.ones(4, np.float32), ReplicaGroup([[0]]), []
        several = {"srcs": [x], "dsts": [x], "replica_group": group, "priority": None}
        channels = {"dsts_by_channel": [[x]], "replica_group": group, "channel_ids": [0], "priority": None}
        counted = several | {"metadata_tensor": np.zeros((4, 1), np.uint32), "recv_counts_known": True}
        calls = {
            ncc.all_reduce: several | {"op": nl.add},
            ncc.all_gather: several | {"collective_dim": 0},
            ncc.reduce_scatter: several | {"collective_dim": 0, "op": nl.add},
            ncc.all_to_all: several | {"collective_dim": 0},
            ncc.all_to_all_v: counted | {"has_rdispls": True},
            ncc.all_gather_v: counted | {"has_rdispls": True},
            ncc.collective_permute: {"srcs": [x], "dsts": [x], "source_target_pairs": [(0, 0)], "priority": None},
            ncc.collective_permute_implicit: channels | {"srcs_by_channel": [[x]]},
            ncc.collective_permute_implicit_reduce: channels
            | {"srcs0_by_channel": [[x]], "srcs1_by_channel": [[x]], "op": nl.add},
            ncc.collective_permute_implicit_current_processing_rank_id: {"iteration_id": 0, "replica_group": group},
        }
        refused = 0
        for function, arguments in calls.items():
            for name in arguments:
                for value in wrong_values():
                    try:
                        function(**{**arguments, name: value})
                    except (TypeError, ValueError) as error:
                        refused += 1
                        text = str(error)
                        ours = re.search(r"\bout\b|\bx (is|has|holds)|[^_]pairs (must|is)|IndexError", text)
                        if not text.startswith(function.__name__) or ours or type(error) not in (TypeError, ValueError):
                            found.append(f"{name}={value!r}: {text}")
        return [*found, refused > 1000]

    assert ranks(1, run) == [[True]]


def test_coalesced_tensors_are_checked_before_the_first_one_moves(ranks, told):
    def run(comm) -> list:
        x, first, wrong = np.ones(2), np.zeros(2), np.zeros(3)
        refusal = told(lambda: ncc.all_reduce([x, x], [first, wrong if comm.rank else first], group, nl.add))
        return [refusal, first.tolist()]

    group = ReplicaGroup([[0, 1]])
    outcomes = ranks.outcomes(2, run)
    assert outcomes[1].value == [
        "ValueError: all_reduce on rank 1: dsts[1] has shape (3,), the result has (2,)",
        [0.0, 0.0],
    ]
    assert outcomes[0].value[0].startswith("RankFailed: all_reduce #1 on rank 0: rank 1 left the job")


def test_what_cannot_be_divided_is_refused(ranks, told):
    """Of one tensor, of float8, and of the second of two tensors."""

    def run(comm) -> list[str]:
        group, fine, odd, small = ReplicaGroup([[1, 0]]), np.zeros(2), np.zeros(3), np.zeros(3, nl.float8_e4m3)
        calls = [
            *[lambda x=x: ncc.reduce_scatter([x], [x[:1]], group, 0, nl.add) for x in (odd, small)],
            lambda: ncc.reduce_scatter([fine, odd], [fine[:1], odd[:1]], group, 0, nl.add),
            lambda: ncc.all_to_all([odd], [odd], group, 0),
            lambda: ncc.all_to_all([fine, odd], [fine, odd], group, 0),
        ]
        return [told(call).partition(";")[0] for call in calls]

    texts = [
        f"ValueError: {name} on rank {{}}: axis 0 of length 3 cannot be split among 2 ranks"
        for name in ("reduce_scatter", "reduce_scatter", "reduce_scatter", "all_to_all", "all_to_all")
    ]
    names = "1 (world rank 0)", "0 (world rank 1)"
    assert ranks(2, run) == [[text.format(name) for text in texts] for name in names]


def test_prepare_and_trigger_are_refused_out_of_turn(ranks, told):
    def run(comm) -> list[str]:
        x, group, m = np.zeros(3), ReplicaGroup([[0]]), np.array([[1], [0], [9]], np.uint32)
        call = ([x], [x.copy()], group, m)
        found = [
            told(lambda: ncc.all_to_all_v_trigger(None)),
            told(lambda: ncc.all_to_all_v_prepare(*call, priority=7)),
        ]
        first = ncc.all_gather_v_prepare(*call, name="one")
        found += [told(lambda: ncc.all_gather_v_prepare(*call)), told(lambda: ncc.all_to_all_v_prepare(*call))]
        found += [told(lambda: ncc.all_to_all_v_trigger(first)), m[2, 0]]
        ncc.all_gather_v_trigger(first)
        found += [told(lambda: ncc.all_gather_v_trigger(first)), m[2, 0]]
        too_long = ncc.all_to_all_v_prepare([x], [x[:0]], group, m)
        found.append(told(lambda: ncc.all_to_all_v_trigger(too_long)))
        ncc.all_to_all_v_trigger(ncc.all_to_all_v_prepare(*call))
        return found

    too_long = "ValueError: all_to_all_v #2:"
    pending = "<NkiInstruction all_gather_v 'one'>"
    waits = f"{pending} has been prepared and not triggered; each prepare needs its trigger before the next prepare"
    assert ranks(1, run) == [
        [
            "TypeError: all_to_all_v_trigger: prepare_instr must be what all_to_all_v_prepare returns, got NoneType",
            NO_PRIORITY.format("all_to_all_v", 7),
            f"RuntimeError: all_gather_v_prepare: {waits}",
            f"RuntimeError: all_to_all_v_prepare: {waits}",
            f"RuntimeError: all_to_all_v_trigger: {pending} needs all_gather_v_trigger",
            9,
            f"RuntimeError: all_gather_v_trigger: {pending} has been triggered",
            1,
            f"{too_long} 1 elements from rank 0 at displacement 0 of rank 0 do not fit its result of 0",
        ]
    ]


@pytest.mark.parametrize("wrong", ["metadata", "group", "op"])
def test_a_rank_that_refuses_and_ends_makes_the_others_fail(ranks, wrong):
    """Their error names it; nobody waits for the time-out."""

    def run(comm) -> None:
        x, group = np.ones(2), ReplicaGroup([[0, 1]])
        bad = wrong if comm.rank else ""
        if wrong == "op":
            ncc.all_reduce([x], [x], group, np.multiply if bad else nl.add)
        else:
            m = np.zeros((2 if bad == "metadata" else 3, 2), np.uint32)
            ncc.all_to_all_v([x], [x], [[0, 1]] if bad == "group" else group, m)

    one, other = ranks.outcomes(2, run)
    assert isinstance(other.error, (TypeError, ValueError))
    assert isinstance(one.error, shmcoll.RankFailed)
    assert "rank 1 raised" in str(one.error)
