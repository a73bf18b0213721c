"""The opening of a reduction, in native code: every rank gets the reduction of what all ranks have brought.

The steps are those of `opening.py`, in the same memory and with the same formats; what they carry is half as much, and
less with more ranks of a node:

    1. all_gather in the node     the fingerprints
       reduce to the leader       the operands of the node, if their fingerprints agree, into the leader's message
    2. exchange of the leaders    the partial results of the nodes, which each leader combines in the order of the nodes
    3. broadcast in the node      TOLD: the verdict and the result

`partials.py` has the words that say which reduction is made. Here SOURCE is that of partial results. The ranks of a
node are reduced by its routine, in their order.

Cost: that of an opening with S bytes of a node, for operands of S bytes, R a reduce in the node, (N - 1) S g; see
`rails.py` for the letters.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek, poke
from shmcoll.engine.layout import WORD
from shmcoll.nodes.native import layout as o
from shmcoll.nodes.native.messages import mpi_failed
from shmcoll.nodes.native.node_calls import reduce_to_leader
from shmcoll.nodes.native.opening import common, exchange, in_node, known, message, publish
from shmcoll.nodes.native.partials import combine


def carries(state, length):
    """Return whether an opening carries operands of so many bytes: all of them, or what each node has reduced."""
    return length <= max(peek(state + o.MOST_ROW), o.MOST_PARTIAL)


def pays(state, length):
    """Return whether operands of so many bytes are reduced in their nodes first."""
    return length > o.MOST_BROUGHT and (peek(state + o.SHARES) != 0 or length > peek(state + o.MOST_ROW))


def open_partials(state):
    """Agree on the call that the slots describe, and reduce ELEMENTS elements at SOURCE. The result is behind the
    verdict in TOLD. Return as `open_rows`."""
    status = in_node(state, o.GATHER_SLOTS, o.GATHER_SLOTS_CALL)
    if status != c.OK:
        return status
    first, second, length = common(state), known(state), peek(state + o.ELEMENTS) * peek(state + o.ITEM)
    agree = first != 0 and second >= 0
    if agree:
        status = bring_partial(state, length)
    if peek(state + o.IS_LEADER) and status == c.OK:
        status = exchange_partials(state, first, second, length if agree else 0)
    return publish(state, length if agree else 0) if status == c.OK else status


def bring_partial(state, length):
    """Reduce the operands of this node into the message of its leader."""
    source, target = peek(state + o.SOURCE), message(state, peek(state + o.NODE)) + o.HEAD
    if peek(state + o.LOCAL) == 1:
        copy(target, source, length)
        return c.OK
    return reduce_to_leader(state, source, peek(state + o.ELEMENTS), target)


def exchange_partials(state, first, second, length):
    """Exchange the partial results of the nodes, and write TOLD."""
    status = exchange(state, first, second, length)
    if status != c.OK or peek(peek(state + o.TOLD)) != 0:
        return status
    for node in range(peek(state + o.NODES)):
        if peek(message(state, node) + 2 * WORD) != length:
            return mpi_failed(state, 0)
        poke(peek(state + o.PART_PLACES) + node * WORD, message(state, node) + o.HEAD)
    return combine(state, peek(state + o.TOLD) + WORD, peek(state + o.ELEMENTS))
