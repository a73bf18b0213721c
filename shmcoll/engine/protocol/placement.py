"""On which core a rank and its peers run, and how ranks that share a core come apart.

Linux often puts two ranks on one core if another process computes on the other core: they sleep and wake each other, so
they seem to need one core together. Then polling keeps the peer from running, and each operation costs a change of
process, which is several times what the operation costs on two cores.

    CORE          of a rank, in its mailbox: 1 + the core on which the rank was when it last polled and the word did not
                  arrive; 0 before that. Only the rank writes it
    BESIDE        of a rank, private: so many waits of this kind have found the peer on the same core
    BESIDE_SINCE  private: the CPU time of this thread when it began to count, ns

    waiter, after polling was not useful:  CORE = 1 + my core;  read CORE of the peer that it waits for
    both on one core:                      count the wait; yield; poll only once in the next wait
    after MANY waits beside peers, if this thread has computed at most SHORT ns for each on average:
                                           CORE = 1 + a core that this thread may use and no member has published;
                                           move there

If a rank computes or copies for longer between its waits, a core of which it gets only a part would cost it more than
the changes of process. So it stays where Linux puts it. Its own CPU time counts, because that does not depend on how
long other programs keep it waiting.

A rank that moves is not bound. It sets its affinity to the one core and gives it back at once, and Linux leaves it
there until it sees a reason to move it. So threads that it starts later may use all cores, and no two jobs are bound to
the same cores. The other rank, which needs the old core to run, finds the new value of CORE before it could move as
well. If both move nevertheless, they meet again and one of them moves later.

CORE is a hint, without order. It may be old: a rank that always finds its word while it polls does not publish. Then a
waiter may yield where polling would pay, or may move to a core that has a rank on it. There polling is not useful to
either of them, so both publish, and one moves. No wait depends on CORE for its end. Numbers from mailboxes are only
compared.

Two things are lost in a move. If another thread or process sets the affinity of this thread within the microseconds of
the move, the move undoes that. And if the kernel later allows more cores to a container whose affinity was never set
before, a thread that has moved keeps to the old cores.

Nobody waits here. Cost: nothing while polling is useful; then one call of libc without a system call and two loads. A
move takes some 20 us, at most once in MANY waits beside peers.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import cpu_time, current_core, load, move_to, next_core, peek, poke, store
from shmcoll.engine.layout import CORE
from shmcoll.engine.protocol.mailboxes import mailbox

MANY = 256  # waits, about a millisecond
SHORT = 12_000  # ns; on two cores, an all_reduce of 64 KiB takes 7 us for each wait beside the peer, of 256 KiB 25 us


def is_beside(ctx, peer):
    """Publish the core of this rank. Return whether the peer was last on the same core."""
    published = current_core() + 1
    mine = mailbox(ctx, peek(ctx + c.RANK)) + CORE
    if load(mine) != published:
        store(mine, published)
    return published != 0 and load(mailbox(ctx, peer) + CORE) == published


def come_apart(ctx):
    """Count a wait beside a peer. Move to another core if this rank does little between many such waits."""
    waits = peek(ctx + c.BESIDE) + 1
    poke(ctx + c.BESIDE, waits % MANY)
    if waits == MANY:
        computed = cpu_time()
        if computed - peek(ctx + c.BESIDE_SINCE) <= MANY * SHORT:
            leave_core(ctx)
        poke(ctx + c.BESIDE_SINCE, computed)


def leave_core(ctx):
    """Move to the next core that this thread may use and no member has published, if there is one."""
    size = peek(ctx + c.SIZE)
    here = core = current_core()
    for _ in range(size):  # of so many other cores, one is free
        core = next_core(core)
        if core == here or core < 0:
            return
        if not is_published(ctx, core):
            store(mailbox(ctx, peek(ctx + c.RANK)) + CORE, core + 1)
            move_to(core)
            return


def is_published(ctx, core):
    """Return whether a member of the group was last on a core."""
    for member in range(peek(ctx + c.SIZE)):
        if load(mailbox(ctx, member) + CORE) == core + 1:
            return 1
    return 0
