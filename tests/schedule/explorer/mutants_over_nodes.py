"""Seeded bugs of calls in which nodes run ahead: `shmcoll/nodes/opening`."""

from tests.schedule.explorer.mutants import Mutant
from tests.schedule.explorer.scenarios_over_nodes import ALONE, APART

FROM, TO = "a stream from a node", "a stream to a node"
MORE, LENGTH = "one call more on a node", "another length"
IN_A_NODE = "streams of other roots, 2 ranks in a node"

MUTANTS_OVER_NODES = {
    "nodes run ahead without end": Mutant(
        "running_ahead.goes_on", "peek(state + o.AHEAD) < o.MOST_AHEAD", "True", FROM
    ),
    "a call more than MPI keeps runs ahead": Mutant("running_ahead.goes_on", "< o.MOST_AHEAD", "<= o.MOST_AHEAD", TO),
    "calls that ran ahead are not counted": Mutant("running_ahead.count", "+ 1)", "+ 0)", FROM),
    "calls of another stream run ahead": Mutant(
        "running_ahead.goes_on", "peek(state + o.STREAM) == stream", "peek(state + o.STREAM)", "another root of gathers"
    ),
    "a message of a full opening is not kept": Mutant(
        "running_ahead.looked_at",
        "        poke(peek(state + o.HELD) + node * WORD, 1)\n",
        "",
        "a longer row in a stream",
    ),
    "a message that is kept is received again": Mutant(
        "receive_opening", "if not peek(peek(state + o.HELD) + node * WORD):", "if True:", "a longer row in a stream"
    ),
    "a message is kept for the opening after it": Mutant(
        "opening.exchange",
        "        poke(peek(state + o.HELD) + other * WORD, 0)\n",
        "",
        "a longer row in each second call",
    ),
    "lengths are not compared": Mutant("running_ahead.looked_at", "if is_same and compares:", "if False:", LENGTH),
    "a leader that has found another call forgets it": Mutant(
        "running_ahead.looked_at", "        poke(state + o.IS_SUSPECT, 1)\n", "        pass\n", ALONE, {"slices": 1}
    ),
    "a leader never forgets that calls differed": Mutant(
        "opening.exchange", "    poke(state + o.IS_SUSPECT, 0)\n", "", LENGTH
    ),
    "a message that ran ahead counts as one of a full opening": Mutant(
        "opening.exchange", "& o.RAN_AHEAD:", "& 0:", MORE
    ),
    "one message that ran ahead is skipped, and not the next": Mutant(
        "opening.exchange", "                left = 1\n", "", "two calls more on a node"
    ),
    "calls before the last one are not compared": Mutant(
        "opening.announce", "mix(peek(state + o.HISTORY), positive(first))", "positive(first)", MORE
    ),
    "a leader does not wait until MPI has taken its row": Mutant(
        "running_ahead.send_from_root", "        status = await_messages(state, 0)\n", "", FROM
    ),
    "a full opening does not wait for the messages of others": Mutant(
        "opening.exchange", "await_messages(state, 0), 1", "c.OK, 1", TO
    ),
    "only the last message says whether a full opening follows": Mutant(
        "running_ahead.take_for_root",
        "            if node != own and looked_at(state, node, 1):\n                verdict = o.FULL\n",
        "            if node != own:\n                verdict = looked_at(state, node, 1)\n",
        "another length of gathers on a node of 3",
    ),
    "a message behind one of a full opening is not looked at": Mutant(
        "running_ahead.take_for_root",
        "                verdict = o.FULL\n",
        "                verdict = o.FULL\n                break\n",
        "two nodes leave a stream to another one",
    ),
    "rows that ran ahead look like those of a full opening": Mutant(
        "running_ahead.open_to_root", "common(state) | o.RAN_AHEAD", "common(state)", TO
    ),
    "the first part goes to every rank": Mutant("opening.apart_for", "leader(state, node) *", "0 *", APART),
    "a rank reads its own row from its message": Mutant(
        "opening.block_place", "if node == peek(state + o.NODE) and peek(state + o.APART_BYTES):", "if False:", APART
    ),
    "a rank looks for its part behind the others": Mutant(
        "rooted_calls.carried_bytes", "return peek(row)", "return 1 + peek(row)", APART
    ),
    "each rank tells its last call": Mutant(
        "agreement.Agreement._first_difference",
        "return int(rows.view(np.int64).min())",
        "return last",
        MORE,
    ),
    "the descriptions of calls are written over": Mutant(
        "running_ahead.remember", "(sequence & (o.PAST_CALLS - 1))", "0", "another operation"
    ),
    "other ranks of the root's node do not get its row": Mutant(
        "running_ahead.send_from_root", "if peek(state + o.LOCAL) > 1:", "if False:", IN_A_NODE, sampled=True, runs=3
    ),
    "only the leader learns that a full opening follows": Mutant(
        "running_ahead.take_from_root",
        "            poke(peek(state + o.PUBLISHED), verdict)\n",
        "            poke(peek(state + o.PUBLISHED), 0)\n",
        "streams of another node, 2 ranks in a node",
        sampled=True,
        runs=3,
    ),
}
