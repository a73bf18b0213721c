"""Who may enter a routine, and the call of it without the GIL.

ACTIVE says which thread is inside. It is written only under the GIL, by the thread whose call is inside and by the
thread that ends the group:

    0          none. Any call that begins may enter, if OWNER allows it
    thread     the call of that thread runs. No call enters: the thread itself can only be in a signal handler or a
               finaliser
    -thread    the call of that thread has answered HALFWAY and goes on with another phase. Python runs in between, so a
               signal handler or a finaliser of the same thread may make any other call. The results of the first phase
               are in the context and in the mailbox, and another call would overwrite them. So only phases from LATER
               on enter, with which no call begins, and only those of that thread
    ENDED      the group has ended. This value stays

A receive that waits, and has read nothing, leaves with GIVES_WAY when another thread wants to call. It has had no
effect. Its caller posts it (`calls/recv.py`).

OWNER says which thread has the turn (`runtime/turns.py`). While receives are posted and no thread has it, the value is
RECEIVES_POSTED. Then all calls enter except two kinds. A receive waits for the receives that are posted before it. A
send that may have to wait for its receiver reads meanwhile for the posted receives, and only the thread that has the
turn may do so.

The check and the reading of the arguments, which follows it, are one piece of native code under the GIL: no handler and
no thread runs in between. The answer to a call that may not enter is BUSY, and nothing except its arguments has been
written. No call waits here. `Dispatcher` queues a call of another thread, and refuses a call of the same thread, which
would wait for itself.

Collectives of two threads at once are refused, because their order may differ between ranks. The answer is NOT_ALONE,
and MET says which thread makes a collective, and which one. Two words show it: ACTIVE and KIND, if the collective of
another thread is inside; and COLLECTIVE, if it is made of several calls or waits for its turn (`runtime/turns.py`
writes it, and `object_rows.py` at the end of the first part of a call for objects). COLLECTIVE and MET hold a thread
and the code of an operation, or 0. The worker refuses nobody, and is not refused by a thread that waits behind it: an
asynchronous call has had its place since it was issued. It calls in a turn, so OWNER tells it from a thread that makes
a blocking call: that has no turn, or has written COLLECTIVE.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek, poke
from shmcoll.engine.collective import ANY_SOURCE, PEER
from shmcoll.engine.messages.ring_buffers import PART_BYTES
from shmcoll.engine.messages.send import BEGIN, BESIDE
from shmcoll.engine.native import cpython as py
from shmcoll.engine.native.call_places import note_place
from shmcoll.engine.native.object_rows import call_code, status_of_rows
from shmcoll.engine.native.tables import CALL_BITS
from shmcoll.engine.native.window_memory import has_memory
from shmcoll.engine.protocol.flight_recorder import forget_message, note_end
from shmcoll.engine.protocol.profile import begin_call, counter, end_call


def what_hinders(ctx, kind):
    """Return OK if a call of this thread may begin now, else BUSY or NOT_ALONE. Call it under the GIL, and use the
    answer before it is released."""
    if kind & PEER == 0 and is_not_alone(ctx):
        return c.NOT_ALONE
    return c.BUSY if taken(ctx) else c.OK


def is_not_alone(ctx):
    """Return whether another thread makes a blocking collective, and note it in MET."""
    active, collective = peek(ctx + c.ACTIVE), peek(ctx + c.COLLECTIVE)
    if (active == 0 and collective == 0) or active == c.ENDED:
        return 0
    me, inside, owner = py.thread_id(), abs(active), peek(ctx + c.OWNER)
    if collective != 0 and collective >> CALL_BITS != me and owner != me:
        poke(ctx + c.MET, collective)
        return 1
    if inside == 0 or inside in (me, owner) or peek(ctx + c.KIND) & PEER:
        return 0
    poke(ctx + c.MET, inside << CALL_BITS | call_code(ctx))
    return 1


def taken(ctx):
    """Return whether a call of this thread may not begin now."""
    active, owner = peek(ctx + c.ACTIVE), peek(ctx + c.OWNER)
    return active != 0 or (owner != 0 and owner != c.RECEIVES_POSTED and owner != py.thread_id())


def waits_for_turn(ctx, kind):
    """Return whether this call, which begins a message, must wait for posted receives, or may read for them."""
    if peek(ctx + c.OWNER) != c.RECEIVES_POSTED:
        return 0
    if kind & ANY_SOURCE:
        return peek(ctx + c.RECV_PHASE) < c.LATER
    return peek(ctx + c.SEND_MEMORY) in (BEGIN, BESIDE) and peek(ctx + c.X + c.BYTES) > PART_BYTES


def goes_on(ctx, phase):
    """Return whether a call is the next phase of the one that this thread has begun."""
    return phase >= c.LATER and peek(ctx + c.ACTIVE) == -py.thread_id()


def run_routine(ctx, routine, kind):
    """Call a routine without the GIL, and return its status; that of the rows, if it has exchanged rows of objects."""
    if peek(ctx + c.COMMIT_BY) and not has_memory(ctx, kind):
        return c.NO_MEMORY
    me = py.thread_id()
    poke(ctx + c.KIND, kind)
    begin_call(ctx, kind)
    poke(ctx + c.ACTIVE, me)
    poke(ctx + c.THREAD, py.release_gil())
    status = routine(ctx)
    ended = counter(ctx)
    if kind & PEER:
        forget_message(ctx, status)
    else:
        note_end(ctx, status)
    thread = peek(ctx + c.THREAD)
    py.take_gil(thread)
    poke(ctx + c.THREAD, 0)
    end_call(ctx, kind, status, ended, me)
    poke(ctx + c.ACTIVE, active_after(ctx, status, me))
    if kind & PEER == 0 and status == c.OK:
        note_place(ctx, thread)
        if peek(ctx + c.REDUCTION) == c.ROWS:
            return status_of_rows(ctx, me)
    return status


def active_after(ctx, status, me):
    """Return the value of ACTIVE after a routine of this thread. It is ENDED forever once the group has ended: a peer
    that is still busy with the operation that failed could take a header that this rank published then for an answer.
    Another thread may have ended the group meanwhile."""
    if peek(ctx + c.ACTIVE) == c.ENDED:
        return c.ENDED
    if status <= c.GIVES_WAY or status == c.REFUSED:
        return -me if peek(ctx + c.SENDING) else 0
    return -me if status == c.HALFWAY else c.ENDED
