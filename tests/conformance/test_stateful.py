"""Random sequences of operations over random groups on real ranks, against a plain numpy model (Hypothesis).

Collectives and plans of them, objects, and messages of both kinds, all of them blocking or asynchronous. Of messages
the model is, for each ordered pair of a group, a queue of what has been sent and a list of receives that are posted.
"""

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

import shmcoll
from tests.support import layouts, models
from tests.support.drawn_objects import drawn, same
from tests.support.servants import Servants

ANY = shmcoll.ANY
RANKS = 4
DTYPES = ("int64", "float32", "uint8", "float16", "complex64", "bool")
OPS = ("sum", "min", "max", "land")
LENGTHS = st.sampled_from((0, 1, 3, 17, 1000, 70_000))
TAGS = st.integers(0, 3)  # odd ones are for objects
EXCHANGE = 4  # the tag of sendrecv, which no other receive asks for


@dataclass
class Exactly:
    """What an operation on objects, or a receive, must return: this very value, of this type."""

    value: Any


@dataclass
class Pending:
    """An asynchronous operation that has begun. `wanted`: results by rank; None: of a receive whose message has not
    been sent. `asked`: of a posted receive, its place in the group and its tag."""

    name: str
    group: str
    wanted: dict[int, Any] | None
    asked: tuple[int, int] = (0, 0)


@dataclass
class Planned:
    group: str
    what: str
    root: int
    op: str
    inputs: list[np.ndarray]


OBJECTS = ("broadcast_object", "gather_object", "all_gather_object", "scatter_object")
PLANNED = ("all_reduce", "reduce", "reduce_scatter", "scan", "broadcast", "gather", "all_gather", "all_to_all")


class Programs(RuleBasedStateMachine):
    """`groups` are the open groups by name: their members in order; '' is the world."""

    seed = 0

    def __init__(self) -> None:
        super().__init__()
        self.servants = Servants(RANKS)
        self.groups: dict[str, list[int]] = {"": list(range(RANKS))}
        self.pending: list[Pending] = []
        self.plans: dict[str, Planned] = {}
        self.sent: dict[
            tuple[str, int, int], list[tuple[int, Any]]
        ] = {}  # group, source, dest: messages nobody asked for
        self.posted: dict[tuple[str, int, int], list[Pending]] = {}  # receives whose message has not been sent
        self.made = 0
        self.draws = 0

    def teardown(self) -> None:
        for group in self.groups:
            self.settle_all(group)
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
        part = [members[place] for place in sorted(places)]  # in the order of the group, which `split` may have changed
        self.made += 1
        told = self.servants.tell({rank: ("subgroup", group, f"s{part}", sorted(places)) for rank in part})
        assert all(answer == part for answer in told.values())
        self.groups[f"s{part}"] = part

    @precondition(lambda self: len(self.groups) > 1)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        group = data.draw(st.sampled_from(sorted(set(self.groups) - {""})))
        self.settle_all(group)
        for key in [key for key in self.sent if key[0] == group]:
            del self.sent[key]  # never received
        self.plans = {name: plan for name, plan in self.plans.items() if plan.group != group}
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
        self.call(group, what, dict(enumerate(arguments)), dict(enumerate(wanted)), later)

    @rule(data=st.data(), what=st.sampled_from(OBJECTS), later=st.booleans())
    def operate_on_objects(self, data: st.DataObject, what: str, later: bool) -> None:
        group = self.some_group(data)
        n = len(self.groups[group])
        root = data.draw(st.integers(0, n - 1))
        values = [self.value() for _ in range(n)]
        given = [((values if what == "scatter_object" else values[i],), {"root": root}) for i in range(n)]
        wanted = {
            "broadcast_object": [values[root]] * n,
            "gather_object": [values if i == root else None for i in range(n)],
            "all_gather_object": [values] * n,
            "scatter_object": values,
        }[what]
        if what == "all_gather_object":
            given = [(arguments, {}) for arguments, _ in given]
        self.call(group, what, dict(enumerate(given)), {i: Exactly(value) for i, value in enumerate(wanted)}, later)

    @rule(data=st.data(), length=LENGTHS, dtype=st.sampled_from(DTYPES), op=st.sampled_from(OPS))
    def plan(self, data: st.DataObject, length: int, dtype: str, op: str) -> None:
        group = self.some_group(data)
        n = len(self.groups[group])
        what, root = data.draw(st.sampled_from(PLANNED)), data.draw(st.integers(0, n - 1))
        planned = Planned(group, what, root, op, [self.array(n * length, dtype) for _ in range(n)])
        self.made += 1
        arguments, _ = CALLS[what](planned.inputs, root, op)
        commands = {i: ("plan", group, f"p{self.made}", what, x, rest) for i, ((x, *rest), _) in enumerate(arguments)}
        assert set(self.tell(group, commands).values()) == {None}
        self.plans[f"p{self.made}"] = planned

    @precondition(lambda self: self.plans)
    @rule(data=st.data(), later=st.booleans())
    def run_plan(self, data: st.DataObject, later: bool) -> None:
        """Some ranks make the call instead."""
        name = data.draw(st.sampled_from(sorted(self.plans)))
        planned = self.plans[name]
        planned.inputs = [self.array(x.size, x.dtype) for x in planned.inputs]
        arguments, wanted = CALLS[planned.what](planned.inputs, planned.root, planned.op)
        calls = data.draw(st.sets(st.integers(0, RANKS - 1)))
        commands = {
            i: (planned.what, planned.group, *arguments[i]) if i in calls else ("run", name, x, later)
            for i, x in enumerate(planned.inputs)
        }
        self.compare(self.tell(planned.group, commands), dict(enumerate(wanted)))

    # --- messages -----------------------------------------------------------------------------------------------------

    @rule(data=st.data(), tag=TAGS, later=st.booleans())
    def send(self, data: st.DataObject, tag: int, later: bool) -> None:
        group = self.some_group(data)
        places = st.integers(0, len(self.groups[group]) - 1)
        self.send_one(group, data.draw(places), data.draw(places), tag, later)

    def send_one(self, group: str, source: int, dest: int, tag: int, later: bool) -> None:
        """It goes to the first posted receive that it fits, or waits for one."""
        value = self.value() if tag % 2 else self.array(self.length(), "int64")
        call = {source: ((value, dest, tag), {})}
        self.call(group, "send_object" if tag % 2 else "send", call, {source: None}, later)
        for receive in self.posted.get((group, source, dest), []):
            if receive.asked[1] == tag:
                receive.wanted = {dest: Exactly([value, source, tag])}
                self.posted[group, source, dest].remove(receive)
                return
        self.sent.setdefault((group, source, dest), []).append((tag, value))

    @precondition(lambda self: any(self.sent.values()))
    @rule(data=st.data(), any_source=st.booleans(), any_tag=st.booleans(), later=st.booleans())
    def receive(self, data: st.DataObject, any_source: bool, any_tag: bool, later: bool) -> None:
        """Something that has been sent. Of any source one cannot know what, and not when it is posted."""
        group, source, dest = data.draw(st.sampled_from(sorted(key for key, left in self.sent.items() if left)))
        tag = data.draw(st.sampled_from(sorted({tag for tag, _ in self.sent[group, source, dest]})))
        asked = ANY if any_tag and not (any_source and not later) else tag
        first = next(m for m in self.sent[group, source, dest] if asked in (ANY, m[0]))
        what = "recv_object" if first[0] % 2 else "recv"
        if later or not any_source:
            self.take(group, source, dest, first)
            wanted = {dest: Exactly([first[1], source, first[0]])}
            self.call(group, what, {dest: ((), {"source": source, "tag": asked})}, wanted, later)
            return
        told = self.tell(group, {dest: (what, group, (), {"tag": tag})})
        assert not isinstance(told[dest], str), told[dest]
        value, source, told_tag = told[dest]
        first = next(m for m in self.sent[group, source, dest] if m[0] == tag)
        assert told_tag == tag
        assert same(value, first[1])
        self.take(group, source, dest, first)

    def take(self, group: str, source: int, dest: int, message: tuple[int, Any]) -> None:
        left = self.sent[group, source, dest]
        self.sent[group, source, dest] = [one for one in left if one is not message]

    @rule(data=st.data(), tag=TAGS)
    def post(self, data: st.DataObject, tag: int) -> None:
        """A receive for what may not have been sent yet."""
        group = self.some_group(data)
        places = st.integers(0, len(self.groups[group]) - 1)
        source, dest = data.draw(places), data.draw(places)
        asked = ((), {"source": source, "tag": tag})
        self.call(group, "recv_object" if tag % 2 else "recv", {dest: asked}, None, True)
        receive = self.pending[-1]
        receive.asked = dest, tag
        first = [m for m in self.sent.get((group, source, dest), []) if m[0] == tag][:1]
        if first:
            self.take(group, source, dest, first[0])
            receive.wanted = {dest: Exactly([first[0][1], source, tag])}
        else:
            self.posted.setdefault((group, source, dest), []).append(receive)

    @rule(data=st.data(), length=LENGTHS)
    def exchange(self, data: st.DataObject, length: int) -> None:
        """sendrecv round a ring: nobody receives before it has sent."""
        group = self.some_group(data)
        n = len(self.groups[group])
        step, xs = data.draw(st.integers(0, n - 1)), [self.array(length, "int64") for _ in range(n)]
        commands, wanted = {}, {}
        for i, x in enumerate(xs):
            source = (i - step) % n
            commands[i] = ("sendrecv", group, (x, (i + step) % n, None, source, EXCHANGE, EXCHANGE), {})
            wanted[i] = Exactly([xs[source], source, EXCHANGE])
        self.compare(self.tell(group, commands), wanted)

    # --- calling ------------------------------------------------------------------------------------------------------

    def call(self, group: str, what: str, given: dict, wanted: dict | None, later: bool) -> None:
        """`given`: what ranks of the group call it with; `wanted`: what they must get, now or when it is waited for."""
        if not later:
            commands = {i: (what, group, *arguments) for i, arguments in given.items()}
            self.compare(self.tell(group, commands), wanted or {})
            return
        self.made += 1
        name = f"w{self.made}"
        told = self.tell(group, {i: ("start", group, name, what, *arguments) for i, arguments in given.items()})
        assert set(told.values()) == {None}
        self.pending.append(Pending(name, group, wanted))

    @precondition(lambda self: any(p.wanted for p in self.pending))
    @rule(data=st.data())
    def wait(self, data: st.DataObject) -> None:
        self.settle(data.draw(st.sampled_from([p for p in self.pending if p.wanted])))

    def settle(self, pending: Pending) -> None:
        assert pending.wanted is not None
        self.pending.remove(pending)
        told = self.tell(pending.group, dict.fromkeys(pending.wanted, ("wait", pending.name)))
        self.compare(told, pending.wanted)

    def settle_all(self, group: str) -> None:
        """Complete what is pending in a group: posted receives get what they wait for."""
        for (where, source, dest), receives in self.posted.items():
            for receive in [one for one in receives if where == group]:
                self.send_one(group, source, dest, receive.asked[1], False)
        for pending in [p for p in self.pending if p.group == group]:
            self.settle(pending)

    def tell(self, group: str, commands: dict[int, tuple]) -> dict[int, Any]:
        """Commands and answers by rank of the group."""
        members = self.groups[group]
        told = self.servants.tell({members[i]: command for i, command in commands.items()})
        return {i: told[members[i]] for i in commands}

    def compare(self, told: dict, wanted: dict) -> None:
        for rank, want in wanted.items():
            got = told[rank]
            if isinstance(want, Exactly):
                assert same(got, want.value), f"rank {rank}: got {got!r:.200}, wanted {want.value!r:.200}"
                continue
            assert not isinstance(got, str), f"rank {rank}: {got}"
            for one, other in zip(*((v if isinstance(v, (list, tuple)) else [v]) for v in (got, want)), strict=True):
                wrong = layouts.same(one, other) if other is not None else "not None" * (one is not None)
                assert not wrong, f"rank {rank}: {wrong}"

    def some_group(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.groups)))

    def value(self) -> Any:
        """A random object, as the pipe to a rank leaves it: arrays come out of it in native byte order. None that is a
        text, which stands for an error."""
        self.draws += 1
        return pickle.loads(pickle.dumps(["object", drawn(np.random.default_rng([self.seed, self.draws]), 2)]))

    def length(self) -> int:
        self.draws += 1
        return int(np.random.default_rng([self.seed, self.draws]).choice((0, 1, 17, 1000, 70_000)))

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


@pytest.mark.slow
def test_random_programs(seed):
    run_programs(seed, 12, 30)


@pytest.mark.stress
def test_many_random_programs(seed):
    run_programs(seed, 300, 60, Phase.shrink)
