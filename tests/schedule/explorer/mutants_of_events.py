"""Seeded bugs in who may enter when, and in what ends a wait: see `mutants.py`, and `events.py` for what finds them."""

from tests.schedule.explorer.mutants import Mutant

SIGNAL = {"signals": 1}
ANY_OF_THIS_THREAD = "(active != 0 and active != -py.thread_id()) or"

MUTANTS_OF_EVENTS = {
    "any call of the thread enters between two phases of a recv": Mutant(
        "taken",
        "active != 0 or",
        ANY_OF_THIS_THREAD,
        "a handler receives while its rank does",
        SIGNAL,
    ),
    "any call of the thread enters between two phases of a send": Mutant(
        "taken",
        "active != 0 or",
        ANY_OF_THIS_THREAD,
        "a handler sends while its rank does",
        SIGNAL,
        True,
    ),
    "any call of the thread enters between two phases of an all_gather_v": Mutant(
        "taken",
        "active != 0 or",
        ANY_OF_THIS_THREAD,
        "a handler calls in an all_gather_v",
        SIGNAL,
    ),
    "any call of the thread enters between two phases of a scatter": Mutant(
        "taken", "active != 0 or", ANY_OF_THIS_THREAD, "a handler calls in a scatter", SIGNAL
    ),
    "a call that begins passes for a later phase": Mutant(
        "entering.goes_on", "phase >= c.LATER and ", "", "a handler receives while its rank does", SIGNAL
    ),
    "a call of a handler enters while a routine waits": Mutant(
        "taken",
        "active != 0 or",
        "(active != 0 and active != py.thread_id()) or",
        "a handler calls in an all_reduce",
        SIGNAL,
    ),
    "no phase goes on": Mutant("entering.goes_on", "phase >= c.LATER and ", "0 and ", "scatter halfway"),
    "a recv beside a send lets others in": Mutant(
        "active_after",
        "-me if peek(ctx + c.SENDING) else 0",
        "0",
        "a handler sends while its rank sends beside a receive",
        SIGNAL,
        sampled=True,
    ),
    "a send does not say that it is between its phases": Mutant(
        "messages.send.send",
        "    poke(ctx + c.SENDING, 1 if status == c.ASKS else 0)\n",
        "",
        "a handler sends while its rank sends beside a receive",
        SIGNAL,
        sampled=True,
    ),
    "a send that has ended keeps its thread inside": Mutant(
        "messages.send.send",
        "1 if status == c.ASKS else 0",
        "1",
        "messages both ways",
    ),
    "a rank that was interrupted is let in again": Mutant(
        "Dispatcher.left",
        "            self.words[c.ACTIVE // WORD] = c.ENDED",
        "            pass",
        "a handler raises in a barrier",
        SIGNAL,
    ),
    "a rank that was interrupted does not tell": Mutant(
        "Dispatcher.left",
        "            self.failures.interrupted(operation)\n        except",
        "            pass\n        except",
        "a handler raises in a barrier",
        SIGNAL,
    ),
    "a call that ends well forgets that the group has ended": Mutant(
        "active_after",
        "if peek(ctx + c.ACTIVE) == c.ENDED:",
        "if False:",
        "a handler aborts",
        SIGNAL,
    ),
    "a wait goes on when a handler has raised": Mutant(
        "sleep_until",
        "            return c.INTERRUPTED\n",
        "            pass\n",
        "a handler raises in a barrier",
        SIGNAL,
    ),
    "a receive that is withdrawn keeps its thread inside": Mutant(
        "active_after",
        "if status <= c.GIVES_WAY or",
        "if 0 < status <= c.GIVES_WAY or",
        "a receive is withdrawn",
        SIGNAL,
    ),
    "a thread rings before it is in the line": Mutant(
        "book",
        "        self.close_entry()\n        self._queue.append(ticket)\n        self.ring_sleepers()\n",
        "        self._queue.append(ticket)\n        self.ring_sleepers()\n        self.close_entry()\n",
        "a receive gives way",
    ),
    "a thread in the line does not ring for a receive": Mutant(
        "ring_sleepers", "if receives or any(", "if any(", "a receive gives way"
    ),
    "a receive does not look at the line": Mutant("another_calls", "owner == c.NOBODY or ", "", "a receive gives way"),
    "a receive that gives way keeps its thread inside": Mutant(
        "active_after", "status <= c.GIVES_WAY", "status <= c.NO_EFFECT", "two threads"
    ),
    "a limit does not count the time until the GIL comes back": Mutant(
        "sleep_until",
        "        if now > deadline and not",
        "        if now - begun > FROZEN * peek(ctx + c.SLEEP):\n"
        "            deadline += now - begun\n"
        "        if now > deadline and not",
        "a limit beside a thread that keeps the GIL",
        {"signals": 2, "slices": 6},
    ),
}
