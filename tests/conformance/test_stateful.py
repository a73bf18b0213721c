"""Random sequences of operations over random groups on real ranks, against a plain numpy model (Hypothesis)."""

import layouts
import models
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from servants import Servants

RANKS = 4
DTYPES = ("int64", "float32", "uint8", "float16", "complex64", "bool")
OPS = ("sum", "min", "max", "land")
LENGTHS = st.sampled_from((0, 1, 3, 17, 1000, 70_000))


class Programs(RuleBasedStateMachine):
    """`groups` are the open groups by name: their members in order; '' is the world."""

    seed = 0

    def __init__(self) -> None:
        super().__init__()
        self.servants = Servants(RANKS)
        self.groups: dict[str, list[int]] = {"": list(range(RANKS))}
        self.pending: list[tuple[str, str, dict]] = []
        self.made = 0
        self.draws = 0

    def teardown(self) -> None:
        for name, group, wanted in self.pending:
            self.settle(name, group, wanted)
        self.servants.dismiss()

    # --- groups -------------------------------------------------------------------------------------------------------

    @rule(data=st.data(), colors=st.lists(st.sampled_from((None, 0, 1)), min_size=RANKS, max_size=RANKS))
    def split(self, data: st.DataObject, colors: list) -> None:
        group = self.some_group(data)
        members = self.groups[group]
        keys = data.draw(st.permutations(range(len(members))))
        self.made += 1
        names = {color: f"{self.made}.{color}" for color in (0, 1)}
        told = self.servants.tell(
            {
                rank: ("split", group, names.get(colors[rank], f"{self.made}.none"), colors[rank], key)
                for rank, key in zip(members, keys, strict=True)
            }
        )
        order = [rank for _, rank in sorted(zip(keys, members, strict=True))]
        for color, name in names.items():
            part = [rank for rank in order if colors[rank] == color]
            assert all(told[rank] == part for rank in part)
            if part:
                self.groups[name] = part
        assert all(told[rank] is None for rank in members if colors[rank] is None)

    @rule(data=st.data())
    def subgroup(self, data: st.DataObject) -> None:
        group = self.some_group(data)
        members = self.groups[group]
        places = data.draw(st.sets(st.sampled_from(range(len(members))), min_size=1))
        part = sorted(members[place] for place in places)
        self.made += 1
        told = self.servants.tell({rank: ("subgroup", group, f"s{part}", sorted(places)) for rank in part})
        assert all(answer == part for answer in told.values())
        self.groups[f"s{part}"] = part

    @precondition(lambda self: len(self.groups) > 1)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        group = data.draw(st.sampled_from(sorted(set(self.groups) - {""})))
        for pending in [p for p in self.pending if p[1] == group]:
            self.settle(*pending)
        self.pending = [p for p in self.pending if p[1] != group]
        assert set(self.servants.tell(dict.fromkeys(self.groups.pop(group), ("close", group))).values()) == {None}

    # --- operations ---------------------------------------------------------------------------------------------------

    @rule(data=st.data(), length=LENGTHS, dtype=st.sampled_from(DTYPES), op=st.sampled_from(OPS), later=st.booleans())
    def operate(self, data: st.DataObject, length: int, dtype: str, op: str, later: bool) -> None:
        group = self.some_group(data)
        n = len(self.groups[group])
        root = data.draw(st.integers(0, n - 1))
        what = data.draw(st.sampled_from(sorted(CALLS)))
        inputs = [self.array(length * (n if what in PER_RANK else 1), dtype) for _ in range(n)]
        arguments, wanted = CALLS[what](inputs, root, op)
        members = self.groups[group]
        if later:
            self.made += 1
            name = f"w{self.made}"
            told = self.servants.tell(
                {rank: ("start", group, name, what, *arguments[i]) for i, rank in enumerate(members)}
            )
            assert set(told.values()) == {None}
            self.pending.append((name, group, dict(zip(members, wanted, strict=True))))
        else:
            told = self.servants.tell({rank: (what, group, *arguments[i]) for i, rank in enumerate(members)})
            self.compare(told, dict(zip(members, wanted, strict=True)))

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def wait(self, data: st.DataObject) -> None:
        self.settle(*self.pending.pop(data.draw(st.integers(0, len(self.pending) - 1))))

    def settle(self, name: str, _group: str, wanted: dict) -> None:
        self.compare(self.servants.tell(dict.fromkeys(wanted, ("wait", name))), wanted)

    def compare(self, told: dict, wanted: dict) -> None:
        for rank, want in wanted.items():
            got = told[rank]
            assert not isinstance(got, str), f"rank {rank}: {got}"
            for one, other in zip(*((v if isinstance(v, (list, tuple)) else [v]) for v in (got, want)), strict=True):
                wrong = layouts.same(one, other) if other is not None else "not None" * (one is not None)
                assert not wrong, f"rank {rank}: {wrong}"

    def some_group(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.groups)))

    def array(self, length: int, dtype: str) -> np.ndarray:
        """Small integers, which every dtype here holds and adds exactly."""
        self.draws += 1
        return np.random.default_rng([self.seed, self.draws]).integers(0, 6, length).astype(dtype)


def _same(call):  # the same arguments on every rank but for the array
    def make(inputs, root, op):
        return [((x, *call(root, op)), {}) for x in inputs]

    return make


def _all_reduce(inputs, root, op):
    return _same(lambda _r, o: (o,))(inputs, root, op), [models.all_reduce(inputs, op)] * len(inputs)


def _reduce(inputs, root, op):
    total = models.all_reduce(inputs, op)
    return _same(lambda r, o: (r, o))(inputs, root, op), [total if i == root else None for i in range(len(inputs))]


def _reduce_scatter(inputs, root, op):
    wanted = [models.reduce_scatter(inputs, op, rank) for rank in range(len(inputs))]
    return _same(lambda _r, o: (o,))(inputs, root, op), wanted


def _scan(inputs, root, op):
    return _same(lambda _r, o: (o,))(inputs, root, op), [models.scan(inputs, op, r) for r in range(len(inputs))]


def _broadcast(inputs, root, op):
    return _same(lambda r, _o: (r,))(inputs, root, op), [inputs[root]] * len(inputs)


def _gather(inputs, root, op):
    whole = np.concatenate(inputs)
    return _same(lambda r, _o: (r,))(inputs, root, op), [whole if i == root else None for i in range(len(inputs))]


def _all_gather(inputs, root, op):
    return _same(lambda _r, _o: ())(inputs, root, op), [np.concatenate(inputs)] * len(inputs)


def _scatter(inputs, root, op):
    x = inputs[root]
    arguments = [((x if i == root else None, root), {}) for i in range(len(inputs))]
    return arguments, np.split(x, len(inputs))


def _all_to_all(inputs, root, op):
    blocks = [np.split(x, len(inputs)) for x in inputs]
    wanted = [np.concatenate([sent[i] for sent in blocks]) for i in range(len(inputs))]
    return _same(lambda _r, _o: ())(inputs, root, op), wanted


def _all_gather_v(inputs, root, op):
    cut = [x[: len(x) // (i + 1)] for i, x in enumerate(inputs)]
    counts = np.array([len(x) for x in cut])
    return [((x,), {}) for x in cut], [(np.concatenate(cut), counts)] * len(cut)


CALLS = {
    "all_reduce": _all_reduce,
    "reduce": _reduce,
    "reduce_scatter": _reduce_scatter,
    "scan": _scan,
    "broadcast": _broadcast,
    "gather": _gather,
    "all_gather": _all_gather,
    "scatter": _scatter,
    "all_to_all": _all_to_all,
    "all_gather_v": _all_gather_v,
}
PER_RANK = ("reduce_scatter", "scatter", "all_to_all")


def run_programs(seed: int, examples: int, steps: int, *phases: Phase) -> None:
    """Without the phase of shrinking a failure is long, but told within the time that a test has."""
    options = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        phases=(Phase.generate, *phases),
        suppress_health_check=list(HealthCheck),
    )
    machine = type("Programs", (Programs,), {"seed": seed})
    run_state_machine_as_test(seeded(seed)(machine), settings=options)


def test_random_programs(seed):
    run_programs(seed, 25, 25)


@pytest.mark.stress
def test_many_random_programs(seed):
    run_programs(seed, 300, 60, Phase.shrink)
