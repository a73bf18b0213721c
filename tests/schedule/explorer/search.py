"""All schedules of a machine, or many random ones.

`exhaust` visits every state once: depth first, remembering a 64-bit hash of each (that two of a million share one and
hide a state has a chance of 3e-8). `sample` runs random schedules with
priorities (Burckhardt et al., "A randomized scheduler with probabilistic guarantees of finding bugs", ASPLOS 2010): the
actor of highest priority goes first, and at a few random moments the one that runs becomes the last.
"""

import random
from dataclasses import dataclass
from typing import Any

from tests.schedule.explorer.machine import Action, Learned, Machine, State
from tests.schedule.explorer.program import Violation

REHEARSALS = 30  # in a row without news
SIGNALS = 0.1  # of the moments in which a signal may come bring one, in a random schedule
PATIENCE = 300  # steps after which a random schedule changes in any case: who polls must not starve the others

Trace = tuple[Any, Action] | None


class TooLarge(Exception):
    """More states than the search was allowed to visit."""


@dataclass(frozen=True)
class Report:
    """What a search has covered."""

    states: int
    transitions: int
    outcomes: frozenset[tuple[Any, ...]]  # what the ranks returned, for each way to end; "killed" for who was


def exhaust(machine: Machine, limit: int = 5_000_000) -> Report:
    """Every schedule; raises `Violation` with the schedule that shows one, `TooLarge` beyond `limit` states."""
    chance = random.Random(0)
    while True:
        _rehearse(machine, chance)
        try:
            return _exhaust(machine, limit)
        except Learned:
            continue


def _rehearse(machine: Machine, chance: random.Random) -> None:
    """Random schedules, which teach the machine most of what it must learn before it costs a whole search."""
    quiet = 0
    while quiet < REHEARSALS:
        try:
            _walk(machine, chance, 8, 64)
            quiet += 1
        except Learned:
            quiet = 0


def _exhaust(machine: Machine, limit: int) -> Report:
    start = machine.start()
    seen = {hash(start)}
    stack: list[tuple[State, Trace]] = [(start, None)]
    transitions, outcomes = 0, set()
    while stack:
        state, trace = stack.pop()
        try:
            machine.check(state)
            actions = machine.actions(state)
            if all(a.may_never_come for a in actions):
                machine.check_end(state)
                outcomes.add(machine.outcome(state))
        except Violation as violation:
            raise Violation(f"{violation}\n{describe(machine, trace)}") from None
        for action in actions:
            transitions += 1
            following = machine.after(state, action)
            code = hash(following)
            if code not in seen:
                seen.add(code)
                stack.append((following, (trace, action)))
        if len(seen) > limit:
            raise TooLarge(f"more than {limit} states")
    return Report(len(seen), transitions, frozenset(outcomes))


def sample(machine: Machine, seed: int, runs: int, changes: int = 4) -> Report:
    """`runs` random schedules of that seed, each with up to `changes` changes of priority."""
    chance = random.Random(seed)
    transitions, longest, outcomes = 0, 64, set()
    while runs:
        try:
            length, outcome = _walk(machine, random.Random(chance.getrandbits(64)), changes, longest)
        except Learned:
            continue
        longest = max(longest, length)
        transitions += length
        outcomes.add(outcome)
        runs -= 1
    return Report(transitions, transitions, frozenset(outcomes))


def _walk(machine: Machine, chance: random.Random, changes: int, longest: int) -> tuple[int, tuple[Any, ...]]:
    """One random schedule: its length, and what the ranks returned.

    Where something is learned it goes on, for there may be more to learn, and raises `Learned` at its end: what came
    before was done in ignorance.
    """
    state = machine.start()
    learned = False
    trace: Trace = None
    priorities: dict[Action, float] = {}
    moments = {chance.randrange(longest) for _ in range(changes)}
    kill_at = chance.randrange(longest)
    length = 0
    while True:
        try:
            machine.check(state)
            actions = machine.actions(state)
            if all(a.may_never_come for a in actions):
                machine.check_end(state)
                if learned:
                    raise Learned
                return length, machine.outcome(state)
        except Violation as violation:
            if learned:
                raise Learned from None
            raise Violation(f"{violation}\n{describe(machine, trace)}") from None
        kills = [a for a in actions if a.what == "kill"]
        signals = [a for a in actions if a.what == "signal"]
        others = [a for a in actions if not a.may_never_come]
        if kills and length == kill_at:
            action = chance.choice(kills)
        elif signals and (not others or chance.random() < SIGNALS):
            action = chance.choice(signals)
        else:
            action = max(others, key=lambda a: priorities.setdefault(a, chance.random()))
        if length in moments or length % PATIENCE == PATIENCE - 1:
            priorities[action] = -chance.random()
        try:
            state, trace, length = machine.after(state, action), (trace, action), length + 1
        except Learned:
            state, learned = machine.informed(state), True


def describe(machine: Machine, trace: Trace) -> str:
    """The schedule as text, one action a line."""
    actions = []
    while trace is not None:
        trace, action = trace
        actions.append(action)
    lines = []
    state = machine.start()
    for action in reversed(actions):
        who = f"rank {action.actor}" if action.actor < len(machine.programs) else "launcher"
        lines.append(f"  {who}: {_tell(machine, state, action)}")
        state = machine.after(state, action)
    return "\n".join(lines)


def _tell(machine: Machine, state: State, action: Action) -> str:
    if action.what == "store":
        address, value, _ = state.queues[action.actor][action.which]
        return f"its store {machine.name(address)} = {value} arrives"
    if action.what != "step":
        return action.what
    kind, address, argument = state.nodes[action.actor].operation
    return f"{kind} {machine.name(address) if address else ''} {'' if argument is None else argument}".rstrip()
