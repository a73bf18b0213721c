"""A machine of ranks that share memory: what can happen in a state, and what it does.

Memory is sequentially consistent, or buffered as on x86 (Sewell et al., "x86-TSO", CACM 2010): each rank's stores wait
in a queue that the machine empties one by one whenever it likes; a rank sees its own queue; fences, additions and
doorbells wait until it is empty. With `reordered`, as on aarch64, the stores of a queue arrive in any order, except
that those to one word keep theirs, and a release arrives after all that were stored before it. (Loads are in order all
the same.) A doorbell is a counter: who sleeps on it goes on only after a ring, never by itself, so a ring that is lost
shows as a deadlock. With `slices=k` a sleeper wakes by itself up to k times, and only when nothing else can happen. The
clock stands still. Who awaits a word (AWAIT), which only grows, is like a sleeper: it goes on only when the word is as
much as it wants, and what it reads at the end of a slice is None.

With `signals=k` some ranks (`met`) meet up to k events that come from outside: a signal, a cancellation, another thread
that keeps the GIL. A program names the moments in which one may happen (CHANCE); one that comes in a sleep ends it, and
shows at the next such moment. None needs to come: a sleeper that only a signal could wake is a deadlock.

One rank may be killed at any moment (`kills=True`): its queued stores are dropped (that they had been emptied before is
another schedule), and the launcher starts: a program like a rank's, written in `job.py`.

Reduction. A step on words that no other actor ever reads or writes in a conflicting way is local: it is taken at
once, without looking at other orders, because it commutes with everything that others do. Which words are private in
this sense is learned: when a conflicting use turns up, `Learned` restarts the search with what is now known. A search
that runs to its end without a new conflict has covered every schedule. (If a conflict existed, the first one would also
occur in the reduced search, since all steps before it commute.)
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

from tests.schedule.explorer.program import (
    ADD,
    AWAIT,
    BROKEN,
    CHANCE,
    END,
    FENCE,
    GONE,
    MARK,
    READ,
    RELEASE,
    RING,
    SLEEP,
    WRITE,
    Node,
    Operation,
    Program,
    Violation,
)

WORD = 8

Stores = tuple[tuple[int, int, bool], ...]  # address, value, whether it is a release


class Learned(Exception):
    """A word turned out to be used by somebody who was not known to use it."""


class State(NamedTuple):
    memory: tuple[int, ...]
    nodes: tuple[Node, ...]  # one an actor; when a rank is killed, the launcher joins them as the last
    queues: tuple[Stores, ...]
    bells: tuple[int, ...]
    killed: int  # the rank that was killed, or -1
    slices: tuple[int, ...]  # who woke by itself
    signals: tuple[int, ...]  # whom an event has met
    pending: tuple[int, ...]  # those of them whose program has not arrived at it yet


class Action(NamedTuple):
    actor: int
    what: str  # step, store (empty one from the queue), kill, signal, handler (of one that came before), slice
    which: int = 0  # of the stores in the queue

    @property
    def may_never_come(self) -> bool:
        return self.what in ("kill", "signal")


action = cache(Action)


class Machine:
    """The ranks of a job (see `job.py`), behind them other threads of theirs, and what is known of the words that they
    use."""

    def __init__(
        self,
        programs: list[Program],
        launcher: Callable[[int], Program],
        initial: dict[int, int],
        bells: dict[int, int],
        allowed: Callable[[int, int], bool],
        name: Callable[[int], str],
        *,
        buffered: bool = False,
        reordered: bool = False,
        kills: bool = False,
        slices: int = 0,
        signals: int = 0,
        met: frozenset[int] = frozenset(),
    ):
        self.programs = programs
        self.buffered = buffered or reordered
        self.reordered = reordered
        self.kills = kills
        self.slices = slices
        self.signals = signals
        self._met = met  # ranks that events may meet
        self.name = name
        self._launcher = launcher
        self._launchers: dict[int, Program] = {}
        self._initial = initial
        self._bells = bells
        self._allowed = allowed
        self._slots: dict[int, int] = {address: i for i, address in enumerate(initial)}
        self._readers: dict[int, set[int]] = {}
        self._writers: dict[int, set[int]] = {}
        self._local: dict[Node, bool] = {}
        self._news = False

    # --- states -------------------------------------------------------------------------------------------------------

    def start(self) -> State:
        self._local.clear()
        ranks = range(len(self.programs))
        memory = tuple(self._initial.get(address, 0) for address in self._slots)
        state = State(
            memory, tuple(p.start for p in self.programs), ((),) * len(ranks), (0,) * len(ranks), -1, (), (), ()
        )
        for rank in ranks:
            state = self._settle(state, rank)
        return state

    def informed(self, state: State) -> State:
        """The same state with what has been learned since: there may be other words, and other steps that are local."""
        self._local.clear()
        return state._replace(memory=state.memory + (0,) * (len(self._slots) - len(state.memory)))

    def actions(self, state: State) -> list[Action]:
        """Everything that can happen next, apart from what is local."""
        possible = []
        for actor, node in enumerate(state.nodes):
            if self._ready(state, actor, node):
                if node.operation.kind != CHANCE:
                    possible.append(action(actor, "step"))
                elif self.kills:
                    possible += self._chances(state, actor)
                else:
                    return self._chances(state, actor)  # it commutes with what others do
            if state.queues[actor]:
                possible += [action(actor, "store", i) for i in self._arriving(state.queues[actor])]
        if self.kills and state.killed < 0 and any(node.operation.kind != END for node in state.nodes):
            possible += [action(rank, "kill") for rank in range(len(self._bells))]
        if possible and not self._met:
            return possible
        if not possible:
            possible = [
                action(a, "slice")
                for a in self._alive(state)
                if state.nodes[a].operation.kind in (SLEEP, AWAIT) and state.slices.count(a) < self.slices
            ]
        asleep = [a for a in self._alive(state) if state.nodes[a].operation.kind == SLEEP]
        return possible + [action(a, "signal") for a in asleep if self._may_be_met(state, a)]

    def _chances(self, state: State, actor: int) -> list[Action]:
        """The next step of an actor at a CHANCE, which goes one way or the other."""
        step, signal = action(actor, "step"), action(actor, "signal")
        if actor in state.pending:
            return [action(actor, "handler")]
        return [step, signal] if self._may_be_met(state, actor) else [step]

    def _may_be_met(self, state: State, actor: int) -> bool:
        return actor in self._met and state.signals.count(actor) < self.signals

    def after(self, state: State, action: Action) -> State:
        """The state that an action leads to, all local steps taken."""
        actor = action.actor
        if action.what == "step":
            return self._settle(self._step(state, actor), actor)
        if action.what == "store":
            return self._settle(self._empty_one(state, actor, action.which), actor)
        if action.what == "kill":
            return self._settle(self._kill(state, actor), len(self.programs))
        if action.what in ("signal", "handler"):
            return self._settle(self._meet(state, actor), actor)
        woken = state._replace(nodes=self._moved(state, actor, None), slices=(*state.slices, actor))
        return self._settle(woken, actor)

    def _meet(self, state: State, actor: int) -> State:
        """An event meets an actor: asleep, or at a CHANCE."""
        signals, pending = state.signals, [a for a in state.pending if a != actor]
        if actor not in state.pending:
            signals = tuple(sorted((*signals, actor)))
        if state.nodes[actor].operation.kind == SLEEP:
            return state._replace(
                nodes=self._moved(state, actor, None), signals=signals, pending=tuple(sorted((*pending, actor)))
            )
        return state._replace(nodes=self._moved(state, actor, 1), signals=signals, pending=tuple(pending))

    def _settle(self, state: State, actor: int) -> State:
        """Take an actor's local steps until none is left, or until it goes in a circle."""
        seen: set[Node] = set()
        while (node := state.nodes[actor]) not in seen:
            if self._step_is_local(state, actor, node):
                seen.add(node)
                state = self._step(state, actor)
            elif state.queues[actor] and (which := self._private_store(state.queues[actor], actor)) >= 0:
                state = self._empty_one(state, actor, which)
            else:
                break
        return state

    def _private_store(self, queue: Stores, actor: int) -> int:
        """Return the position of a store in a queue that may arrive next, and that no other actor sees; else -1."""
        for i in self._arriving(queue):
            if self._is_private(actor, (queue[i][0],), True):
                return i
        return -1

    # --- properties ---------------------------------------------------------------------------------------------------

    def check(self, state: State) -> None:
        """Raise `Violation` for what must never be; called in every state."""
        nodes = state.nodes if state.killed < 0 else state.nodes[: len(self.programs)]
        done, entered = nodes[0].done, nodes[0].entered
        for rank, node in enumerate(nodes):
            if node.is_last:
                self._check_last(rank, node.operation, state.killed)
            if node.done > done:
                done = node.done
            if node.entered < entered:
                entered = node.entered
        if done > entered:
            raise Violation(f"a rank has left operation {done}, another has not entered it")

    def _check_last(self, rank: int, operation: Operation, killed: int) -> None:
        if operation.kind == BROKEN:
            raise Violation(f"rank {rank}: {operation.argument}")
        if not self._allowed(operation.argument, killed):
            raise Violation(f"rank {rank} returned status {operation.argument}")

    def check_end(self, state: State) -> None:
        """Nothing can happen any more, unless somebody is killed: every rank must have come to its end."""
        stuck = [a for a in self._alive(state) if state.nodes[a].operation.kind != END]
        if stuck:
            raise Violation(f"deadlock: {', '.join(f'rank {a}' for a in stuck)} cannot go on")

    def outcome(self, state: State) -> tuple[Any, ...]:
        """What each rank has returned."""
        nodes = state.nodes[: len(self.programs)]
        return tuple("killed" if r == state.killed else node.operation.argument for r, node in enumerate(nodes))

    def _alive(self, state: State) -> list[int]:
        return [a for a in range(len(state.nodes)) if a != state.killed]

    # --- steps --------------------------------------------------------------------------------------------------------

    def _ready(self, state: State, actor: int, node: Node) -> bool:
        """Whether an actor can do its next operation."""
        if actor == state.killed or node.is_last:
            return False
        if node.is_free:
            return True
        kind = node.operation.kind
        if kind in (FENCE, ADD, SLEEP, RING) and state.queues[actor]:
            return kind == SLEEP and self.reordered and self._is_rung(state, actor)
        if kind == AWAIT:
            return self._has_come(state, actor)
        return kind != SLEEP or self._is_rung(state, actor)

    def _is_rung(self, state: State, actor: int) -> bool:
        return state.bells[self._bells[state.nodes[actor].operation.address]] > 0

    def _has_come(self, state: State, actor: int) -> bool:
        _, address, (wanted, _) = state.nodes[actor].operation
        slot = self._slots.get(address)
        return slot is not None and state.memory[slot] >= wanted

    def _arriving(self, queue: Stores) -> list[int]:
        """Which of the stores of a queue may arrive next."""
        if not self.reordered:
            return [0] if queue else []
        earlier = [{address for address, _, _ in queue[:i]} for i in range(len(queue))]
        return [i for i, (address, _, release) in enumerate(queue) if address not in earlier[i] and not (release and i)]

    def _step(self, state: State, actor: int) -> State:
        memory, nodes, queues, bells, killed, slices, signals, pending = state
        node = nodes[actor]
        kind, address, argument = node.operation
        if not node.is_noted:
            node.slots = self._note_uses(actor, kind, address, argument)
            node.is_noted = True
        result: Any = None
        if kind == READ:
            if queues[actor]:
                result = self._read(memory, queues[actor], address, argument)
            else:
                result = tuple([memory[slot] for slot in node.slots])
        elif kind in (WRITE, RELEASE):
            if self.buffered:
                stores = tuple((address + WORD * i, value, kind == RELEASE) for i, value in enumerate(argument))
                queues = _replaced(queues, actor, queues[actor] + stores)
            else:
                memory = _written(memory, node.slots, argument)
        elif kind == AWAIT:
            result = tuple([memory[slot] for slot in node.slots])
        elif kind == ADD:
            result = memory[node.slots[0]]
            memory = _written(memory, node.slots, (result + argument,))
        elif kind == GONE:
            result = int(killed == argument)
        elif kind == CHANCE:
            result = 0
        elif kind in (SLEEP, RING):
            bell = self._bells[address]
            bells = _replaced(bells, bell, bells[bell] + (1 if kind == RING else -1))
        following = node.following.get(result)
        nodes = self._moved(state, actor, result) if following is None else _replaced(nodes, actor, following)
        return State(memory, nodes, queues, bells, killed, slices, signals, pending)

    def _moved(self, state: State, actor: int, result: Any) -> tuple[Node, ...]:
        node = state.nodes[actor]
        following = node.following.get(result)
        if following is None:
            program = self.programs[actor] if actor < len(self.programs) else self._launchers[state.killed]
            following = program.after(node, result)
        return _replaced(state.nodes, actor, following)

    def _empty_one(self, state: State, actor: int, which: int) -> State:
        queue = state.queues[actor]
        self._note(self._writers, actor, (queue[which][0],))
        address, value, _ = queue[which]
        memory = _replaced(state.memory, self._slots[address], value)
        left = queue[:which] + queue[which + 1 :]
        return state._replace(memory=memory, queues=_replaced(state.queues, actor, left))

    def _kill(self, state: State, rank: int) -> State:
        if rank not in self._launchers:
            self._launchers[rank] = self._launcher(rank)
        nodes = (*state.nodes, self._launchers[rank].start)
        queues = (*_replaced(state.queues, rank, ()), ())
        return state._replace(nodes=nodes, queues=queues, killed=rank)

    def _read(self, memory: tuple[int, ...], queue: Stores, address: int, count: int) -> tuple[int, ...]:
        """Return what an actor reads that sees its own stores."""
        own = {address: value for address, value, _ in queue}
        addresses = range(address, address + count * WORD, WORD)
        return tuple(own[a] if a in own else memory[self._slots[a]] for a in addresses)

    # --- what is local ------------------------------------------------------------------------------------------------

    def _step_is_local(self, state: State, actor: int, node: Node) -> bool:
        local = self._local.get(node)
        if local is None:
            local = self._local[node] = self._operation_is_local(actor, *node.operation)
        if not local or not self._ready(state, actor, node):
            return False
        return node.operation.kind != GONE or not self.kills or state.killed >= 0

    def _operation_is_local(self, actor: int, kind: str, address: int, argument: Any) -> bool:
        if kind == READ:
            return self._is_private(actor, range(address, address + argument * WORD, WORD), False)
        if kind == ADD:
            return self._is_private(actor, (address,), True)
        if kind in (WRITE, RELEASE) and not self.buffered:
            return self._is_private(actor, range(address, address + len(argument) * WORD, WORD), True)
        return kind in (WRITE, RELEASE, FENCE, GONE) or (kind == CHANCE and not self.signals)

    def _is_private(self, actor: int, addresses: Iterable[int], writing: bool) -> bool:
        """Whether no other actor uses any of the words in a way that conflicts."""
        for address in addresses:
            users = self._writers.get(address, set()) | (self._readers.get(address, set()) if writing else set())
            if users - {actor}:
                return False
        return True

    def _note_uses(self, actor: int, kind: str, address: int, argument: Any) -> tuple[int, ...]:
        """Note which words an operation reads or writes at once. Returns their slots."""
        writes = kind == ADD or (kind in (WRITE, RELEASE) and not self.buffered)
        if kind == READ:
            count = argument
        elif kind == AWAIT:
            count = argument[1]
        else:
            count = 1 if kind == ADD else len(argument) if writes else 0
        addresses = range(address, address + count * WORD, WORD)
        if kind in (READ, AWAIT, ADD):
            self._note(self._readers, actor, addresses)
        if writes:
            self._note(self._writers, actor, addresses)
        return tuple(self._slots[a] for a in addresses)

    def _note(self, users: dict[int, set[int]], actor: int, addresses: Iterable[int]) -> None:
        for address in addresses:
            known = users.setdefault(address, set())
            if actor not in known:
                known.add(actor)
                self._slots.setdefault(address, len(self._slots))
                self._news = True
        if self._news:
            self._news = False
            raise Learned


def _written(memory: tuple[int, ...], slots: tuple[int, ...], values: tuple[int, ...]) -> tuple[int, ...]:
    if len(slots) == 1:
        return _replaced(memory, slots[0], values[0])
    words = list(memory)
    for slot, value in zip(slots, values, strict=True):
        words[slot] = value
    return tuple(words)


def _replaced(values: tuple, i: int, value: object) -> tuple:
    changed = list(values)
    changed[i] = value
    return tuple(changed)


__all__ = ["MARK", "Action", "Learned", "Machine", "State"]
