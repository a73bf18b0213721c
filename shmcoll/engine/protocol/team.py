"""The team of threads of a rank: long copies and sums in parts, side by side.

A rank that has asked for more than one thread (`shmrun --threads`) has helpers: threads of the process that know
nothing of Python, begin in `serve`, and live as long as the process (`runtime/thread_team.py`). The thread that makes a
call is member 0 of the team for one piece of work at a time. A piece is one copy, or one step of a reduction, of
TEAM_BYTES or more, in a call with an array of ARRAY_BYTES or more: helpers must be woken first. It is cut into parts,
as many for each member. An element of the result is what it would be without parts, so no bit depends on the number of
threads. All words are private to the process:

    HOLDERS      threads of this rank that want the team, and the one that has it
    LEFT         of each member: how many of its parts nobody has taken yet; 0 or less: none
    DONE         parts of the piece that are done
    FAILED       1 if a part could not be read, else 0
    KIND to CORE the piece: what is done, where, on how many elements, in which parts, and on which core the caller is
    ASLEEP       of a helper: 1 while it sleeps, or is about to
    SEMAPHORE    of a helper, its doorbell: `share` rings it, only the helper takes it

    caller   HOLDERS + 1: it was 0, else it makes its copy alone
             the piece, DONE = 0, FAILED = 0;  LEFT of each member = its parts (release)
             ring each helper that is ASLEEP;  take parts;  wait until DONE is all parts;  HOLDERS - 1
    member   LEFT - 1 of its own, then of the others: it was above 0, and so that part is its own;  read the piece
             do the part;  DONE + 1
    helper   poll its LEFT for POLL_NS after the last piece;  ASLEEP = 1;  read LEFT;  sleep;  ASLEEP = 0

Every + and - is one step in memory (`atomics.add`), with a fence. Only the caller writes the piece, and only after all
parts of the one before are done; a member reads it only between taking a part and counting that part. So no member ever
reads a piece that changes. A helper that comes late takes parts of whatever piece is there then, or finds none: it
keeps nothing of an earlier piece. What a member has written is before its DONE + 1, which the caller reads with
acquire. The caller publishes its next step after that, so peers that see the step see the part as well.

Why nobody waits forever. The caller waits only for parts that another member has taken. It takes all others itself:
those of a helper that sleeps, that has no core, or that does not exist, as in a fork of the process. A member that has
taken a part waits for nothing: copies and kernels end, and a read of another process returns, with fewer bytes if that
process has ended. Threads end only with the process, and signal handlers never run in helpers. A helper that sleeps
keeps nobody waiting. A helper may miss the ring, if the caller reads ASLEEP while the helper reads LEFT and neither
sees the other's store. That costs the help with one piece, and not the result, so no fence prevents it.

A helper that finds itself on the core of the caller moves to another core. Linux wakes it there while all other cores
have something to do, and leaves it there, so that it would take from the caller what it gives.

A reduction by a function of a user is not shared: it may raise, and the elements behind must stay as they are.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import (
    add,
    call_kernel,
    call_long,
    clock,
    copy,
    current_core,
    load,
    load_acquire,
    move_to,
    next_core,
    pause,
    peek,
    read_memory,
    ring,
    sleep_on,
    store,
    store_release,
    stream,
    yield_core,
)
from shmcoll.engine.layout import LINE, WORD

NAME = "team"

COPY, STREAM, READ, REDUCE = range(4)  # KIND

# --- the words --------------------------------------------------------------------------------------------------------
HOLDERS, DONE = 0, LINE
(
    KIND,
    FUNCTION,  # REDUCE: the kernel; READ: the process
    MODE,  # REDUCE: of the kernel, and of how many ranks
    RANKS,
    TARGET,
    ACCUMULATOR,
    SOURCE,
    TARGET_ITEM,  # bytes of an element
    ACCUMULATOR_ITEM,
    SOURCE_ITEM,
    COUNT,
    PART,
    SHARE,  # parts of each member
    FAILED,
    ACTIVE,  # members that have parts
    CORE,  # of the caller
) = (2 * LINE + WORD * i for i in range(16))
THREADS, POLL_NS, ARRAY_BYTES, LEAST_PART, RUN = (4 * LINE + WORD * i for i in range(5))  # RUN: address of `share`
MEMBERS = 5 * LINE
LEFT, ASLEEP, SEMAPHORE, OF, NUMBER = 0, LINE, LINE + WORD, LINE + 5 * WORD, LINE + 6 * WORD  # of a member
MEMBER_BYTES = 2 * LINE  # OF: address of the team

PART_UNIT = LINE  # elements: then parts of contiguous arrays begin on lines, if the arrays do
MOST_PARTS = 4  # of each member
PAUSES = 32  # between two looks at the clock
MOVE_NS = 1_000_000
SLEEP_NS = 60_000_000_000


def team_words(threads):
    return (MEMBERS + threads * MEMBER_BYTES) // WORD


def member(team, i):
    return team + MEMBERS + i * MEMBER_BYTES


# --- what routines call -----------------------------------------------------------------------------------------------


def is_shared(ctx, length):
    """Return whether the team does a piece of so many bytes."""
    if length < peek(ctx + c.TEAM_BYTES):
        return False
    return max(peek(ctx + c.X + c.BYTES), peek(ctx + c.OUT + c.BYTES)) >= peek(peek(ctx + c.TEAM) + ARRAY_BYTES)


def copy_in_parts(ctx, target, source, length):
    """Copy bytes, by the team if they are many."""
    if not is_shared(ctx, length):
        copy(target, source, length)
    else:
        run(ctx, COPY, 0, 0, target, 0, source, 1, 1, 1, length)


def stream_in_parts(ctx, target, source, length):
    """Copy bytes past the caches, by the team if they are many."""
    if not is_shared(ctx, length):
        stream(target, source, length)
    else:
        run(ctx, STREAM, 0, 0, target, 0, source, 1, 1, 1, length)


def read_in_parts(ctx, pid, target, source, length):
    """Copy bytes of another process, by the team if they are many. Return whether all have been copied."""
    if not is_shared(ctx, length):
        return read_memory(pid, target, source, length) == length
    return run(ctx, READ, pid, 0, target, 0, source, 1, 1, 1, length) == 0


def run(ctx, kind, function, mode, target, accumulator, source, target_item, accumulator_item, source_item, count):
    """Have a piece of work done. Return FAILED."""
    team = peek(ctx + c.TEAM)
    return call_long(
        peek(team + RUN),
        team,
        kind,
        function,
        mode,
        peek(ctx + c.SIZE),
        target,
        accumulator,
        source,
        target_item | accumulator_item << 8 | source_item << 16,
        count,
    )


# --- the caller -------------------------------------------------------------------------------------------------------


def share(team, kind, function, mode, ranks, target, accumulator, source, items, count):
    """Do a piece of work with the helpers, or alone if another thread of the rank has them. Return FAILED. items: bytes
    of an element of target, accumulator and source, 8 bits each."""
    if add(team + HOLDERS, 1) > 0:
        add(team + HOLDERS, -1)
        return do(kind, function, mode, ranks, target, accumulator, source, count)
    store(team + KIND, kind)
    store(team + FUNCTION, function)
    store(team + MODE, mode)
    store(team + RANKS, ranks)
    store(team + TARGET, target)
    store(team + ACCUMULATOR, accumulator)
    store(team + SOURCE, source)
    store(team + TARGET_ITEM, items & 0xFF)
    store(team + ACCUMULATOR_ITEM, items >> 8 & 0xFF)
    store(team + SOURCE_ITEM, items >> 16 & 0xFF)
    store(team + COUNT, count)
    store(team + FAILED, 0)
    store(team + DONE, 0)
    post(team, count, max(items & 0xFF, items >> 16 & 0xFF))
    take_parts(team, 0)
    await_parts(team)
    failed = load(team + FAILED)
    add(team + HOLDERS, -1)
    return failed


def post(team, count, item):
    """Cut the piece, offer its parts, and wake the helpers."""
    length = count * item
    least = load(team + LEAST_PART)
    threads = min(load(team + THREADS), max(length // least, 1))
    each = min(max(length // (threads * least), 1), MOST_PARTS)
    part = -(-count // (threads * each * PART_UNIT)) * PART_UNIT
    store(team + PART, part)
    store(team + SHARE, each)
    store(team + ACTIVE, threads)
    store(team + CORE, current_core())
    for i in range(threads):
        store_release(member(team, i) + LEFT, each)
    for i in range(1, threads):
        if load(member(team, i) + ASLEEP):
            ring(member(team, i) + SEMAPHORE)


def await_parts(team):
    """Wait until the members have done what they have taken."""
    parts = load(team + ACTIVE) * load(team + SHARE)
    while True:
        for _ in range(PAUSES):
            if load_acquire(team + DONE) >= parts:
                return
            pause()
        yield_core()


# --- a member ---------------------------------------------------------------------------------------------------------


def serve(helper):
    """Help the callers of the team, as long as OF is not 0: as long as the process lives."""
    team, number, moved = load(helper + OF), load(helper + NUMBER), 0
    while load(helper + OF):
        limit = load(team + POLL_NS)
        take_parts(team, number)
        if limit > 0 and current_core() == load(team + CORE) and clock() - moved > MOVE_NS:
            moved = clock()
            come_apart(team, number)
        rest(helper, limit)
    return 0


def come_apart(team, number):
    """Leave the core of the caller: the kernel wakes a thread there if all others are busy, and leaves it there."""
    core = load(team + CORE)
    for _ in range(number):
        core = next_core(core)
        if core < 0:
            return
    move_to(core)


def rest(helper, limit):
    """Wait until there may be something to do: poll, then sleep."""
    end = clock() + limit
    while limit > 0 and clock() < end:
        for _ in range(PAUSES):
            if load(helper + LEFT) > 0:
                return
            pause()
    store(helper + ASLEEP, 1)
    if load(helper + LEFT) <= 0:
        sleep_on(helper + SEMAPHORE, SLEEP_NS)
    store(helper + ASLEEP, 0)


def take_parts(team, me):
    """Do the parts of this member, then those of others that nobody has taken yet."""
    threads = load(team + ACTIVE)
    for i in range(threads):
        owner = (me + i) % threads
        left = member(team, owner) + LEFT
        while load(left) > 0:
            number = add(left, -1)
            if number > 0:
                do_part(team, owner, number)
                add(team + DONE, 1)


def do_part(team, owner, number):
    """Do a part, which this member has taken."""
    part, each = load(team + PART), load(team + SHARE)
    begin = (owner * each + each - number) * part
    count = min(part, load(team + COUNT) - begin)
    if count <= 0:
        return
    failed = do(
        load(team + KIND),
        load(team + FUNCTION),
        load(team + MODE),
        load(team + RANKS),
        load(team + TARGET) + begin * load(team + TARGET_ITEM),
        load(team + ACCUMULATOR) + begin * load(team + ACCUMULATOR_ITEM),
        load(team + SOURCE) + begin * load(team + SOURCE_ITEM),
        count,
    )
    if failed:
        store(team + FAILED, 1)


def do(kind, function, mode, ranks, target, accumulator, source, count):
    """Do the work on `count` elements. Return whether it has failed."""
    if kind == COPY:
        copy(target, source, count)
    elif kind == STREAM:
        stream(target, source, count)
    elif kind == READ:
        return read_memory(function, target, source, count) != count
    else:
        call_kernel(function, mode, target, accumulator, source, count, ranks)
    return 0


def functions():
    """Return both for the compiler."""
    return {"team_serve": (serve, 1), "team_share": (share, 10)}
