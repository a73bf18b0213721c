"""Functions that the tests run both as plain Python and compiled: one around each operation, and three litmus loops."""

from shmcoll.engine.atomics import (
    acquire_fence,
    bit_length,
    call,
    call_kernel,
    clock,
    copy,
    cpu_time,
    current_core,
    cycles,
    fence,
    load,
    load_acquire,
    move_to,
    next_core,
    pause,
    peek,
    poke,
    process_gone,
    process_start,
    reached,
    ring,
    signals_pending,
    sleep_on,
    store,
    store_release,
    stream,
    wrapping_multiply,
    yield_core,
)
from shmcoll.engine.protocol.sync import mix

#: number of arguments, each a word
ARITIES = {
    "loaded": 1,
    "stored": 2,
    "acquired": 1,
    "released": 2,
    "peeked": 1,
    "poked": 2,
    "idled": 0,
    "ordered": 2,
    "slept": 2,
    "rung": 1,
    "now": 0,
    "counted": 0,
    "measured": 1,
    "computed": 0,
    "gone": 1,
    "begun": 1,
    "pending": 1,
    "core": 0,
    "core_after": 1,
    "moved": 1,
    "copied": 3,
    "streamed": 3,
    "kernel_called": 4,
    "called": 4,
    "has_reached": 2,
    "multiplied": 2,
    "mixed": 2,
    "write_messages": 3,
    "read_messages": 3,
    "store_then_look": 6,
}


def loaded(address):
    return load(address)


def stored(address, value):
    store(address, value)
    return 0


def acquired(address):
    return load_acquire(address)


def released(address, value):
    store_release(address, value)
    return 0


def peeked(address):
    return peek(address)


def poked(address, value):
    poke(address, value)
    return 0


def idled():
    pause()
    yield_core()
    fence()
    return 0


def ordered(data, word):
    """Whether a word was still 0 after the data had been read."""
    seen = load(data)
    acquire_fence()
    return 0 if load_acquire(word) else seen


def slept(semaphore, ns):
    sleep_on(semaphore, ns)
    return 0


def rung(semaphore):
    ring(semaphore)
    return 0


def counted():
    return cycles()


def measured(number):
    return bit_length(number)


def now():
    return clock()


def computed():
    return cpu_time()


def gone(pid):
    return process_gone(pid)


def begun(pid):
    return process_start(pid)


def pending(ctx):
    return signals_pending(ctx)


def core():
    return current_core()


def core_after(core):
    return next_core(core)


def moved(core):
    move_to(core)
    return current_core()


def copied(target, source, length):
    copy(target, source, length)
    return 0


def streamed(target, source, length):
    stream(target, source, length)
    return 0


def kernel_called(address, target, source, count):
    call_kernel(address, 0, target, 0, source, count, 1)
    return 0


def called(function, a, b, c):
    return call(function, a, b, c)


def has_reached(value, wanted):
    return 1 if reached(value, wanted) else 0


def multiplied(a, b):
    return wrapping_multiply(a, b)


def mixed(hashed, value):
    return mix(hashed, value)


def write_messages(data, flag, count):
    """Message passing, the writer: the flag never runs ahead of the data."""
    for i in range(1, count + 1):
        store(data, i)
        store_release(flag, i)
    return 0


def read_messages(data, flag, count):
    """The reader: polls until the last message; how often the data was older than the flag."""
    stale = 0
    while True:
        seen = load_acquire(flag)
        if load(data) < seen:
            stale += 1
        if seen == count:
            return stale


def store_then_look(mine, other, seen, my_round, other_round, count):
    """Store buffering with a fence: both sides begin each round together, and keep what they saw of the other."""
    for i in range(count):
        store_release(my_round, i + 1)
        polls = 0
        while not reached(load_acquire(other_round), i + 1):
            polls += 1
            if polls < 200:
                pause()
            else:
                yield_core()
        store(mine + 8 * i, 1)
        fence()
        poke(seen + 8 * i, load(other + 8 * i))
    return 0
