"""Words that ranks share, and the few machine operations around them.

Each operation is a plain Python function with a compiled twin: calling it runs the Python body on real memory (slow,
and enough for tests), while code compiled by `engine/compiler/compile.py` gets the twin from
`engine/compiler/intrinsics.py` instead. A test may set `hooks` to take part in every operation on shared words; the
schedule explorer runs the routines' own source that way.

    load, store              one shared word, single-copy atomic, no ordering: contents of headers
    load_acquire             a sequence word; what its writer wrote before it is visible afterwards
    store_release            publishes: everything written before is visible to a rank that reads this word
    fence                    sequentially consistent: no load moves above it, no store below. Needed twice: in
                             the waiter between PARKED and its last look, in the poster between the word and PARKED
    add                      adds to a word and returns what it was before, as one step, with a fence: for threads
    acquire_fence            keeps the loads before it before all that follows: for a reader that looks at a word
                             again after it has read what the word guards
    peek, poke               one private word; never for the arena
    peek_int, poke_int       one private `int` in C, 32 bits
    static_word              where a word of the object file is that this code is in; it begins as 0
    pause, yield_core        while polling
    sleep_on, ring           a doorbell (sem_t): sleep until it is rung or `ns` have passed; ring it
    prefetch                 brings a cache line here that is soon written; any address will do
    clock                    CLOCK_MONOTONIC, ns
    cycles                   the cycle counter of this core, in ticks of its own
    recent                   the same as of the last tick of the kernel: cheap, and some ms old
    cpu_time                 what this thread has computed so far, ns; a system call
    process_gone             whether a process has ended, waited for or not; no descriptor stays open
    process_start            its start time: with the pid it identifies a process forever
    thread_states            how many threads Python knows of, for a context that Python has called
    read_memory              copies bytes from the private memory of another process: how many, or minus the error
    write_memory             the other way; no routine of a collective does that
    current_core             the core on which this thread runs
    next_core                the next one that this thread may use
    move_to                  run there, without being bound to it
    signals_pending          lets Python run its signal handlers; true when one raised
    copy                     bytes, not overlapping
    stream                   the same, past the caches
    call_kernel              a reduce kernel by its address
    call_routine             the plain form of a routine by its address, for a context that is filled
    call                     a C function of up to three words by its address; its result is a word
    call_long                the same of any number of words
    bit_length               of a number that is not negative
    reached                  compares sequence words; nothing else does
    wrapping_multiply        for hashes
"""

import contextlib
import ctypes
import os
import select
import threading
import time
from collections.abc import Callable
from typing import Any

from shmcoll.engine import fences
from shmcoll.engine.system.processes import start_of

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.process_vm_readv.restype = ctypes.c_ssize_t
_WORD = ctypes.c_int64.from_address
_SPAN = 1 << 64
_adding = threading.Lock()

CLOCK_MONOTONIC_COARSE = 6  # Linux's, which Python's time module does not name

#: None, or an object whose methods of the same names replace the operations on shared words and doorbells
hooks: Any = None

#: kernels for `call_kernel` when routines run as plain Python: address -> function
python_kernels: dict[int, Callable[..., None]] = {}


def load(address):
    return hooks.load(address) if hooks else _WORD(address).value


def store(address, value):
    if hooks:
        hooks.store(address, value)
    else:
        _WORD(address).value = value


def note(address, value):
    """Store a word that only people read, when something has gone wrong: no other rank acts upon it."""
    if not hooks:
        _WORD(address).value = value


def load_acquire(address):
    if hooks:
        return hooks.load_acquire(address)
    value = _WORD(address).value
    fences.acquire()
    return value


def store_release(address, value):
    if hooks:
        hooks.store_release(address, value)
    else:
        fences.release()
        _WORD(address).value = value


def fence():
    if hooks:
        hooks.fence()
    else:
        fences.fence()


def add(address, value):
    """Add to a word that other threads of this process change, too. Return what it was before."""
    if hooks:
        return hooks.add(address, value)
    with _adding:
        before = _WORD(address).value
        _WORD(address).value = before + value
    return before


def acquire_fence():
    if hooks:
        hooks.acquire_fence()
    else:
        fences.acquire()


def peek(address):
    return _WORD(address).value


def poke(address, value):
    _WORD(address).value = value


def peek_int(address):
    return ctypes.c_int32.from_address(address).value


def poke_int(address, value):
    ctypes.c_int32.from_address(address).value = value


def static_word():
    raise NotImplementedError("compiled only")


def pause():
    pass


def yield_core():
    if hooks:
        hooks.yield_core()
    else:
        os.sched_yield()


def sleep_on(semaphore, ns):
    """Sleep until the doorbell rings, a signal arrives, or `ns` have passed."""
    if hooks:
        hooks.sleep_on(semaphore, ns)
        return
    end = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + ns
    until = (ctypes.c_int64 * 2)(end // 1_000_000_000, end % 1_000_000_000)
    _LIBC.sem_clockwait(ctypes.c_void_p(semaphore), time.CLOCK_MONOTONIC, until)


def ring(semaphore):
    if hooks:
        hooks.ring(semaphore)
    else:
        _LIBC.sem_post(ctypes.c_void_p(semaphore))


def clock():
    return hooks.clock() if hooks else time.monotonic_ns()


def prefetch(address):
    pass


def cycles():
    return clock()


def recent():
    return 0 if hooks else time.clock_gettime_ns(CLOCK_MONOTONIC_COARSE)


def cpu_time():
    return hooks.cpu_time() if hooks else time.thread_time_ns()


def process_gone(pid):
    """Return whether no process has this pid, or only one that has ended and was not waited for yet. If no descriptor
    is free, only the former is found."""
    if hooks:
        return hooks.process_gone(pid)
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return 1
    except OSError:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return 1
        except OSError:
            pass
        return 0
    try:
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        return 1 if poller.poll(0) else 0
    finally:
        os.close(fd)


def process_start(pid):
    """Return when a process began, in clock ticks since boot; 0 if it has ended; -1 if that is not known."""
    if hooks:
        return -1
    try:
        return start_of(pid)
    except (OSError, ValueError, IndexError):
        return -1


def signals_pending(ctx):
    """Run pending Python signal handlers; 1 when one of them raised, and its exception is then set."""
    return hooks.signals_pending(ctx) if hooks else 0


def thread_states(ctx):
    """Return how many threads of this process have a Python thread state."""
    return hooks.thread_states(ctx) if hooks else threading.active_count()


def read_memory(pid, target, source, length):
    """Copy `length` bytes from address `source` of another process, by process_vm_readv(2). Return how many have been
    copied, fewer if not all of them are readable; or minus the number of the error."""
    if hooks:
        return hooks.read_memory(pid, target, source, length)
    here, there = (ctypes.c_int64 * 2)(target, length), (ctypes.c_int64 * 2)(source, length)
    done = _LIBC.process_vm_readv(pid, here, ctypes.c_long(1), there, ctypes.c_long(1), ctypes.c_long(0))
    return -ctypes.get_errno() if done < 0 else done


def write_memory(pid, target, source, length):
    """Copy `length` bytes to address `target` of another process, by process_vm_writev(2). Return as `read_memory`."""
    raise NotImplementedError("compiled only")


def current_core():
    """Return the number of the core on which this thread runs; -1 if that is not known."""
    return hooks.current_core() if hooks else _LIBC.sched_getcpu()


def next_core(core):
    """Return the next core after `core` that this thread may use; after the last one comes the first. Return -1 if the
    kernel does not say."""
    if hooks:
        return hooks.next_core(core)
    try:
        usable = sorted(os.sched_getaffinity(0))
    except OSError:
        return -1
    return next((other for other in usable if other > core), usable[0])


def move_to(core):
    """Move this thread to a core. It may use the same cores as before, so the kernel may move it again. If the kernel
    refuses, the thread stays."""
    if hooks:
        hooks.move_to(core)
        return
    with contextlib.suppress(OSError):
        usable = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {core})
        os.sched_setaffinity(0, usable)


def copy(target, source, length):
    ctypes.memmove(target, source, length)


def stream(target, source, length):
    ctypes.memmove(target, source, length)


def call_kernel(address, mode, target, accumulator, source, count, ranks):
    return python_kernels[address](mode, target, accumulator, source, count, ranks)


def call_routine(address, ctx):
    raise NotImplementedError("compiled only")


def call(function, a, b, c):
    return ctypes.PYFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(function)(a, b, c)


def call_long(function, *words):
    return ctypes.PYFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(words))(function)(*words)


def bit_length(value):
    return value.bit_length()


def reached(value, wanted):
    """Return whether a sequence word is at `wanted` or past it, also across the wrap of 64 bits."""
    return (value - wanted) % _SPAN < _SPAN // 2


def wrapping_multiply(a, b):
    """Return the product modulo 2^64, signed. In code that numba compiles, an overflow of `*` would be undefined."""
    return (a * b + _SPAN // 2) % _SPAN - _SPAN // 2
