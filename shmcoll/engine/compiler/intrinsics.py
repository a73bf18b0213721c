"""The compiled twins of `atomics.py` and of the bit casts in `engine/kernels/operators.py`: the only file with LLVM
instructions in it (except the call that `lowering.py` makes an entry point of).

Importing it imports numba; only the compiler does. Operations on shared words become LLVM atomics,
which the optimiser may not hoist out of a loop, split, or invent. (A plain load in a waiting loop is hoisted, and the
loop never sees the change.) Calls go to libc and CPython by name; the loader resolves them in the running process.
"""

import errno
import os
import platform
import select
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target

from shmcoll.engine import atomics, context
from shmcoll.engine.kernels import kernels, operators
from shmcoll.engine.native import cpython
from shmcoll.engine.system.text import to_bytes

I16, I32, I64, F32 = ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
POINTER = ir.IntType(8).as_pointer()
CLOCK_MONOTONIC = 1
CLOCK_THREAD_CPUTIME_ID = 3
SYS_PIDFD_OPEN = 434  # the same on every architecture
NS = 1_000_000_000
POLLIN = select.POLLIN
CORE_SET_WORDS = 16  # as many cores as libc's cpu_set_t has: 1024
STAT_BYTES = 1024  # the longest /proc/PID/stat: about 50 numbers

#: The twins: for the types of arguments, the signature and what generates the code of a call
TWINS: dict[Callable[..., Any], Callable[..., tuple[Any, Callable[..., Any]]]] = {}


def _twin(function: Callable[..., Any], argument_types: tuple, result: Any) -> Callable[[Callable[..., Any]], None]:
    """Make `emit(builder, module, *values)` the compiled form of `function`; every argument is cast to its type. A
    module has it once, as a function."""

    def register(emit: Callable[..., Any]) -> None:
        name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"

        def generate(ctx, builder, _signature, values):
            module = builder.module
            if name not in module.globals:
                returned = ir.VoidType() if result is types.void else ctx.get_value_type(result)
                twin = ir.Function(module, ir.FunctionType(returned, [value.type for value in values]), name)
                inner = ir.IRBuilder(twin.append_basic_block())
                value = emit(inner, module, *twin.args)
                inner.ret_void() if result is types.void else inner.ret(value)
            value = builder.call(module.globals[name], values)
            return ctx.get_dummy_value() if result is types.void else value

        def twin(*given):
            if len(given) != len(argument_types):
                raise TypeError(f"{name} takes {len(argument_types)} arguments in compiled code, got {len(given)}")
            return result(*argument_types), generate

        TWINS[function] = twin

    return register


def _word(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    return builder.inttoptr(address, I64.as_pointer())


def _call(builder: ir.IRBuilder, module: ir.Module, name: str, result: ir.Type, *arguments: ir.Value) -> ir.Value:
    signature = ir.FunctionType(result, [a.type for a in arguments])
    return builder.call(cgutils.get_or_insert_function(module, signature, name), arguments)


def _call_variadic(builder: ir.IRBuilder, module: ir.Module, name: str, fixed: int, *arguments: ir.Value) -> ir.Value:
    """Call a C function that returns an int and has a variable number of arguments, of which the first are fixed."""
    signature = ir.FunctionType(I32, [a.type for a in arguments[:fixed]], var_arg=True)
    return builder.call(cgutils.get_or_insert_function(module, signature, name), arguments)


def _text(module: ir.Module, text: str) -> ir.Value:
    """Return the address of a text with a zero at its end."""
    content = cgutils.make_bytearray(to_bytes(text) + b"\0")
    return cgutils.global_constant(module, "text", content).bitcast(POINTER)


# --- words ------------------------------------------------------------------------------------------------------------


@_twin(atomics.load, (types.int64,), types.int64)
def _load(builder, _module, address):
    return builder.load_atomic(_word(builder, address), "monotonic", 8)


@_twin(atomics.store, (types.int64, types.int64), types.void)
def _store(builder, _module, address, value):
    builder.store_atomic(value, _word(builder, address), "monotonic", 8)


@_twin(atomics.note, (types.int64, types.int64), types.void)
def _note(builder, _module, address, value):
    builder.store_atomic(value, _word(builder, address), "monotonic", 8)


@_twin(atomics.load_acquire, (types.int64,), types.int64)
def _load_acquire(builder, _module, address):
    return builder.load_atomic(_word(builder, address), "acquire", 8)


@_twin(atomics.store_release, (types.int64, types.int64), types.void)
def _store_release(builder, _module, address, value):
    builder.store_atomic(value, _word(builder, address), "release", 8)


@_twin(atomics.fence, (), types.void)
def _fence(builder, _module):
    builder.fence("seq_cst")


@_twin(atomics.add, (types.int64, types.int64), types.int64)
def _add(builder, _module, address, value):
    return builder.atomic_rmw("add", _word(builder, address), value, "seq_cst")


@_twin(atomics.acquire_fence, (), types.void)
def _acquire_fence(builder, _module):
    builder.fence("acquire")


@_twin(atomics.prefetch, (types.int64,), types.void)
def _prefetch(builder, module, address):
    _call(
        builder, module, "llvm.prefetch.p0", ir.VoidType(), builder.inttoptr(address, POINTER), I32(1), I32(3), I32(1)
    )


@_twin(atomics.peek, (types.int64,), types.int64)
def _peek(builder, _module, address):
    return builder.load(_word(builder, address), align=8)


@_twin(atomics.poke, (types.int64, types.int64), types.void)
def _poke(builder, _module, address, value):
    builder.store(value, _word(builder, address), align=8)


@_twin(atomics.peek_int, (types.int64,), types.int64)
def _peek_int(builder, _module, address):
    return builder.sext(builder.load(builder.inttoptr(address, I32.as_pointer())), I64)


@_twin(atomics.poke_int, (types.int64, types.int64), types.void)
def _poke_int(builder, _module, address, value):
    builder.store(builder.trunc(value, I32), builder.inttoptr(address, I32.as_pointer()))


@_twin(atomics.static_word, (), types.int64)
def _static_word(builder, module):
    word = ir.GlobalVariable(module, I64, "shmcoll_static_word")
    word.initializer, word.linkage = I64(0), "internal"
    return builder.ptrtoint(word, I64)


# --- waiting ----------------------------------------------------------------------------------------------------------


@_twin(atomics.pause, (), types.void)
def _pause(builder, module):
    if platform.machine() == "aarch64":  # no inline assembly: numba's LLVM has a parser only for that of x86
        _call(builder, module, "llvm.aarch64.isb", ir.VoidType(), I32(15))
    else:
        _call(builder, module, "llvm.x86.sse2.pause", ir.VoidType())


@_twin(atomics.yield_core, (), types.void)
def _yield_core(builder, module):
    _call(builder, module, "sched_yield", I32)


def _now(builder: ir.IRBuilder, module: ir.Module, clock: int = CLOCK_MONOTONIC) -> ir.Value:
    now = cgutils.alloca_once(builder, ir.ArrayType(I64, 2))
    _call(builder, module, "clock_gettime", I32, I32(clock), builder.bitcast(now, POINTER))
    seconds, ns = (builder.load(builder.gep(now, [I32(0), I32(i)])) for i in (0, 1))
    return builder.add(builder.mul(seconds, I64(NS)), ns)


@_twin(atomics.clock, (), types.int64)
def _clock(builder, module):
    return _now(builder, module)


@_twin(atomics.cycles, (), types.int64)
def _cycles(builder, module):
    if platform.machine() == "aarch64":
        name = module.add_metadata(["cntvct_el0"])
        signature = ir.FunctionType(I64, [ir.MetaDataType()])
        read = cgutils.get_or_insert_function(module, signature, "llvm.read_volatile_register.i64")
        return builder.call(read, [name])
    return _call(builder, module, "llvm.x86.rdtsc", I64)


@_twin(atomics.recent, (), types.int64)
def _recent(builder, module):
    return _now(builder, module, atomics.CLOCK_MONOTONIC_COARSE)


@_twin(atomics.cpu_time, (), types.int64)
def _cpu_time(builder, module):
    return _now(builder, module, CLOCK_THREAD_CPUTIME_ID)


@_twin(atomics.sleep_on, (types.int64, types.int64), types.void)
def _sleep_on(builder, module, semaphore, ns):
    end = builder.add(_now(builder, module), ns)
    until = cgutils.alloca_once(builder, ir.ArrayType(I64, 2))
    builder.store(builder.udiv(end, I64(NS)), builder.gep(until, [I32(0), I32(0)]))
    builder.store(builder.urem(end, I64(NS)), builder.gep(until, [I32(0), I32(1)]))
    target, clock = builder.inttoptr(semaphore, POINTER), I32(CLOCK_MONOTONIC)
    _call(builder, module, "sem_clockwait", I32, target, clock, builder.bitcast(until, POINTER))


@_twin(atomics.ring, (types.int64,), types.void)
def _ring(builder, module, semaphore):
    _call(builder, module, "sem_post", I32, builder.inttoptr(semaphore, POINTER))


@_twin(atomics.process_gone, (types.int64,), types.int64)
def _process_gone(builder, module, pid):
    gone = cgutils.alloca_once_value(builder, I64(0))
    fd = _call(builder, module, "syscall", I64, I64(SYS_PIDFD_OPEN), pid, I64(0))
    with builder.if_else(builder.icmp_signed("<", fd, I64(0))) as (failed, opened):
        with failed:  # perhaps for lack of a descriptor
            absent = _call(builder, module, "kill", I32, builder.trunc(pid, I32), I32(0))
            error = builder.load(builder.bitcast(_call(builder, module, "__errno_location", POINTER), I32.as_pointer()))
            missing = builder.icmp_signed("==", error, I32(errno.ESRCH))
            builder.store(builder.zext(builder.and_(builder.icmp_signed("<", absent, I32(0)), missing), I64), gone)
        with opened:
            fd = builder.trunc(fd, I32)
            pollfd = cgutils.alloca_once(builder, ir.ArrayType(I32, 2))
            for i, value in enumerate((fd, I32(POLLIN))):
                builder.store(value, builder.gep(pollfd, [I32(0), I32(i)]))
            ready = _call(builder, module, "poll", I32, builder.bitcast(pollfd, POINTER), I64(1), I32(0))
            _call(builder, module, "close", I32, fd)
            events = builder.load(builder.gep(pollfd, [I32(0), I32(1)]))  # events | revents << 16
            ended = builder.icmp_unsigned("!=", builder.and_(events, I32(POLLIN << 16)), I32(0))
            builder.store(builder.zext(builder.and_(builder.icmp_signed("==", ready, I32(1)), ended), I64), gone)
    return builder.load(gone)


@_twin(atomics.process_start, (types.int64,), types.int64)
def _process_start(builder, module, pid):
    """Return the start time from /proc/PID/stat. Behind the name, the state is the first field and the start the
    twentieth."""
    start = cgutils.alloca_once_value(builder, I64(-1))
    path, line = (cgutils.alloca_once(builder, ir.ArrayType(ir.IntType(8), n)) for n in (32, STAT_BYTES))
    path, line = (builder.bitcast(place, POINTER) for place in (path, line))
    _call_variadic(builder, module, "snprintf", 3, path, I64(32), _text(module, "/proc/%ld/stat"), pid)
    fd = _call_variadic(builder, module, "open", 2, path, I32(os.O_RDONLY | os.O_CLOEXEC))
    with builder.if_then(builder.icmp_signed(">=", fd, I32(0))):
        length = _call(builder, module, "read", I64, fd, line, I64(STAT_BYTES - 1))
        _call(builder, module, "close", I32, fd)
        with builder.if_then(builder.icmp_signed(">", length, I64(0))):
            builder.store(ir.IntType(8)(0), builder.gep(line, [length]))
            behind = _call(builder, module, "strrchr", POINTER, line, I32(ord(")")))
            with builder.if_then(builder.icmp_unsigned("!=", builder.ptrtoint(behind, I64), I64(0))):
                state = cgutils.alloca_once_value(builder, ir.IntType(8)(0))
                ticks = cgutils.alloca_once_value(builder, I64(0))
                form = _text(module, ") %c" + " %*s" * 18 + " %ld")
                read = _call_variadic(builder, module, "sscanf", 2, behind, form, state, ticks)
                with builder.if_then(builder.icmp_signed("==", read, I32(2))):
                    ended = I64(0)
                    for letter in "ZX":
                        same = builder.icmp_unsigned("==", builder.load(state), ir.IntType(8)(ord(letter)))
                        ended = builder.or_(ended, builder.zext(same, I64))
                    alive = builder.icmp_unsigned("==", ended, I64(0))
                    builder.store(builder.select(alive, builder.load(ticks), I64(0)), start)
    return builder.load(start)


@_twin(atomics.read_memory, (types.int64,) * 4, types.int64)
def _read_memory(builder, module, pid, target, source, length):
    return _move_memory(builder, module, "process_vm_readv", pid, target, source, length)


@_twin(atomics.write_memory, (types.int64,) * 4, types.int64)
def _write_memory(builder, module, pid, target, source, length):
    return _move_memory(builder, module, "process_vm_writev", pid, source, target, length)


def _move_memory(builder, module, function, pid, here, there, length):
    pair = ir.ArrayType(I64, 2)
    vectors = []
    for base in (here, there):
        vector = cgutils.alloca_once(builder, pair)
        for i, value in enumerate((base, length)):
            builder.store(value, builder.gep(vector, [I32(0), I32(i)]))
        vectors.append(builder.bitcast(vector, POINTER))
    arguments = vectors[0], I64(1), vectors[1], I64(1), I64(0)
    done = _call(builder, module, function, I64, builder.trunc(pid, I32), *arguments)
    error = builder.load(builder.bitcast(_call(builder, module, "__errno_location", POINTER), I32.as_pointer()))
    failed = builder.icmp_signed("<", done, I64(0))
    return builder.select(failed, builder.neg(builder.zext(error, I64)), done)


@_twin(atomics.signals_pending, (types.int64,), types.int64)
def _signals_pending(builder, module, ctx):
    """Check for signals, with the GIL taken back for a moment. A context without a saved thread has no Python around
    it."""
    saved = _word(builder, builder.add(ctx, I64(context.THREAD)))
    thread = builder.load(saved)
    raised = cgutils.alloca_once_value(builder, I64(0))
    with builder.if_then(builder.icmp_unsigned("!=", thread, I64(0))):
        _call(builder, module, "PyEval_RestoreThread", ir.VoidType(), builder.inttoptr(thread, POINTER))
        status = _call(builder, module, "PyErr_CheckSignals", I32)
        builder.store(builder.zext(builder.icmp_signed("!=", status, I32(0)), I64), raised)
        builder.store(builder.ptrtoint(_call(builder, module, "PyEval_SaveThread", POINTER), I64), saved)
    return builder.load(raised)


@_twin(atomics.thread_states, (types.int64,), types.int64)
def _thread_states(builder, module, ctx):
    """Count the thread states of the interpreter, with the GIL taken back for a moment: no thread that Python knows of
    begins or ends meanwhile. A context without a saved thread has no Python around it."""
    saved = _word(builder, builder.add(ctx, I64(context.THREAD)))
    thread = builder.load(saved)
    count = cgutils.alloca_once_value(builder, I64(1))
    with builder.if_then(builder.icmp_unsigned("!=", thread, I64(0))):
        state = builder.inttoptr(thread, POINTER)
        _call(builder, module, "PyEval_RestoreThread", ir.VoidType(), state)
        interpreter = _call(builder, module, "PyThreadState_GetInterpreter", POINTER, state)
        found = cgutils.alloca_once_value(
            builder, _call(builder, module, "PyInterpreterState_ThreadHead", POINTER, interpreter)
        )
        builder.store(I64(0), count)
        each, behind = (builder.append_basic_block(name) for name in ("each", "behind"))
        builder.branch(each)
        builder.position_at_end(each)
        builder.store(builder.add(builder.load(count), I64(1)), count)
        builder.store(_call(builder, module, "PyThreadState_Next", POINTER, builder.load(found)), found)
        builder.cbranch(cgutils.is_null(builder, builder.load(found)), behind, each)
        builder.position_at_end(behind)
        builder.store(builder.ptrtoint(_call(builder, module, "PyEval_SaveThread", POINTER), I64), saved)
    return builder.load(count)


# --- cores ------------------------------------------------------------------------------------------------------------


def _core_set(builder: ir.IRBuilder) -> ir.Value:
    """Return memory for a set of cores, one bit each, which is empty."""
    return cgutils.alloca_once_value(builder, ir.ArrayType(I64, CORE_SET_WORDS)(None))


def _affinity(builder: ir.IRBuilder, module: ir.Module, name: str, cores: ir.Value) -> ir.Value:
    """Call a function of libc for the affinity of this thread. Return whether it has succeeded."""
    status = _call(builder, module, name, I32, I32(0), I64(8 * CORE_SET_WORDS), builder.bitcast(cores, POINTER))
    return builder.icmp_signed("==", status, I32(0))


@_twin(atomics.current_core, (), types.int64)
def _current_core(builder, module):
    return builder.sext(_call(builder, module, "sched_getcpu", I32), I64)


@_twin(atomics.next_core, (types.int64,), types.int64)
def _next_core(builder, module, core):
    usable = _core_set(builder)
    found = cgutils.alloca_once(builder, I64)
    builder.store(I64(-1), found)
    with builder.if_then(_affinity(builder, module, "sched_getaffinity", usable)):
        count = I64(64 * CORE_SET_WORDS)
        with cgutils.for_range(builder, count) as loop:
            other = builder.urem(builder.add(builder.add(core, I64(1)), loop.index), count)
            word = builder.load(builder.gep(usable, [I32(0), builder.lshr(other, I64(6))]))
            with builder.if_then(builder.trunc(builder.lshr(word, builder.and_(other, I64(63))), ir.IntType(1))):
                builder.store(other, found)
                loop.do_break()
    return builder.load(found)


@_twin(atomics.move_to, (types.int64,), types.void)
def _move_to(builder, module, core):
    usable, target = _core_set(builder), _core_set(builder)
    word = builder.gep(target, [I32(0), builder.lshr(core, I64(6))])
    builder.store(builder.shl(I64(1), builder.and_(core, I64(63))), word)
    with builder.if_then(_affinity(builder, module, "sched_getaffinity", usable)):
        _affinity(builder, module, "sched_setaffinity", target)
        _affinity(builder, module, "sched_setaffinity", usable)


# --- CPython ----------------------------------------------------------------------------------------------------------


@_twin(cpython.new_integer, (types.int64,), types.int64)
def _new_integer(builder, module, value):
    return builder.ptrtoint(_call(builder, module, "PyLong_FromLong", POINTER, value), I64)


@_twin(cpython.integer_value, (types.int64,), types.int64)
def _integer_value(builder, module, python_object):
    return _call(builder, module, "PyLong_AsLong", I64, builder.inttoptr(python_object, POINTER))


@_twin(cpython.forget_error, (), types.int64)
def _forget_error(builder, module):
    pending = builder.icmp_unsigned(
        "!=", builder.ptrtoint(_call(builder, module, "PyErr_Occurred", POINTER), I64), I64(0)
    )
    with builder.if_then(pending):
        _call(builder, module, "PyErr_Clear", ir.VoidType())
    return builder.zext(pending, I64)


@_twin(cpython.list_length, (types.int64,), types.int64)
def _list_length(builder, module, python_object):
    return _call(builder, module, "PyList_Size", I64, builder.inttoptr(python_object, POINTER))


@_twin(cpython.list_item, (types.int64, types.int64), types.int64)
def _list_item(builder, module, python_object, i):
    item = _call(builder, module, "PyList_GetItem", POINTER, builder.inttoptr(python_object, POINTER), i)
    return builder.ptrtoint(item, I64)


@_twin(cpython.tuple_length, (types.int64,), types.int64)
def _tuple_length(builder, module, python_object):
    return _call(builder, module, "PyTuple_Size", I64, builder.inttoptr(python_object, POINTER))


@_twin(cpython.tuple_item, (types.int64, types.int64), types.int64)
def _tuple_item(builder, module, python_object, i):
    item = _call(builder, module, "PyTuple_GetItem", POINTER, builder.inttoptr(python_object, POINTER), i)
    return builder.ptrtoint(item, I64)


@_twin(cpython.release_gil, (), types.int64)
def _release_gil(builder, module):
    return builder.ptrtoint(_call(builder, module, "PyEval_SaveThread", POINTER), I64)


@_twin(cpython.take_gil, (types.int64,), types.void)
def _take_gil(builder, module, thread):
    _call(builder, module, "PyEval_RestoreThread", ir.VoidType(), builder.inttoptr(thread, POINTER))


@_twin(cpython.ensure_gil, (), types.int64)
def _ensure_gil(builder, module):
    return builder.zext(_call(builder, module, "PyGILState_Ensure", I32), I64)


@_twin(cpython.leave_gil, (types.int64,), types.void)
def _leave_gil(builder, module, state):
    _call(builder, module, "PyGILState_Release", ir.VoidType(), builder.trunc(state, I32))


@_twin(cpython.call_back, (types.int64, types.int64), types.int64)
def _call_back(builder, module, function, word):
    arguments = cgutils.alloca_once(builder, POINTER)
    number = _call(builder, module, "PyLong_FromLong", POINTER, word)
    builder.store(number, arguments)
    function, none = builder.inttoptr(function, POINTER), POINTER(None)
    result = _call(builder, module, "PyObject_Vectorcall", POINTER, function, arguments, I64(1), none)
    for reference in (number, result):
        _call(builder, module, "Py_DecRef", ir.VoidType(), reference)  # it accepts NULL
    return builder.zext(builder.icmp_unsigned("==", builder.ptrtoint(result, I64), I64(0)), I64)


def _three_places(builder: ir.IRBuilder, place: ir.Value) -> list[ir.Value]:
    return [_word(builder, builder.add(place, I64(8 * i))) for i in range(3)]


@_twin(cpython.take_error, (types.int64,), types.int64)
def _take_error(builder, module, place):
    _call(builder, module, "PyErr_Fetch", ir.VoidType(), *_three_places(builder, place))
    return I64(1)


@_twin(cpython.put_error, (types.int64,), types.void)
def _put_error(builder, module, place):
    kept = [builder.inttoptr(builder.load(word), POINTER) for word in _three_places(builder, place)]
    _call(builder, module, "PyErr_Restore", ir.VoidType(), *kept)


@_twin(cpython.keep, (types.int64, types.int64), types.void)
def _keep(builder, module, place, python_object):
    before = builder.load(_word(builder, place))
    builder.store(python_object, _word(builder, place))
    for name, reference in (("Py_IncRef", python_object), ("Py_DecRef", before)):  # they accept NULL
        _call(builder, module, name, ir.VoidType(), builder.inttoptr(reference, POINTER))


@_twin(cpython.thread_id, (), types.int64)
def _thread_id(builder, module):
    return _call(builder, module, "pthread_self", I64)


# --- bytes and numbers ------------------------------------------------------------------------------------------------


LINE_OF_WORDS = ir.VectorType(I64, 8)
LOOP_BYTES = 2048  # copies of at least so many bytes are a loop of our own


@_twin(atomics.copy, (types.int64, types.int64, types.int64), types.void)
def _copy(builder, module, target, source, length):
    builder.call(_copy_function(module), (target, source, length))


def _copy_function(module: ir.Module) -> ir.Function:
    """Return the function that copies bytes, one for each object: by memcpy if they are few, else as vectors.

    glibc's memcpy uses `rep movsb` from 2 KiB on if the processor says that it is fast. On Zen 3 and Zen 4 it takes 14
    to 26 times as long if the target begins 1 to 31 bytes behind the source, modulo 4096 (glibc's bug 30994; mended in
    2.39). A long array of numpy begins 16 bytes behind a page, and a cell at a page. Elsewhere this loop takes as long
    as memcpy. Its two stores a round keep LLVM from making a memcpy of it.
    """
    name = "shmcoll_copy"
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * 3), name)
    function.attributes.add("noinline")
    target, source, length = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    few = builder.icmp_unsigned("<", length, I64(LOOP_BYTES))
    with builder.if_then(few):
        _copy_bytes(builder, module, target, source, length)
        builder.ret_void()
    _copy_lines(builder, module, target, source, length, 2)
    builder.ret_void()
    return function


@_twin(atomics.stream, (types.int64, types.int64, types.int64), types.void)
def _stream(builder, module, target, source, length):
    """Copy whole lines with the nontemporal hint. Such stores are not ordered with other stores. Therefore a fence
    follows."""
    hint = module.add_metadata([I32(1)])
    _copy_lines(builder, module, target, source, length, 1, nontemporal=hint)
    builder.fence("seq_cst")


def _copy_lines(builder, module, target, source, length, lines, **hints):
    """Copy bytes as vectors of a line, so many in each round of a loop, and those before and behind them by memcpy."""
    each = 64 * lines
    head = builder.and_(builder.neg(target), I64(63))
    head = builder.select(builder.icmp_signed("<", head, length), head, length)
    _copy_bytes(builder, module, target, source, head)
    rounds = builder.udiv(builder.sub(length, head), I64(each))
    with cgutils.for_range(builder, rounds) as loop:
        done = builder.add(head, builder.mul(loop.index, I64(each)))
        places = [builder.add(done, I64(64 * i)) for i in range(lines)]
        loaded = [
            builder.load(builder.inttoptr(builder.add(source, place), LINE_OF_WORDS.as_pointer()), align=1)
            for place in places
        ]
        for place, value in zip(places, loaded, strict=True):
            there = builder.inttoptr(builder.add(target, place), LINE_OF_WORDS.as_pointer())
            stored = builder.store(value, there, align=64)
            for hint, value_of_hint in hints.items():
                stored.set_metadata(hint, value_of_hint)
    done = builder.add(head, builder.mul(rounds, I64(each)))
    _copy_bytes(builder, module, builder.add(target, done), builder.add(source, done), builder.sub(length, done))


def _copy_bytes(builder, module, target, source, length):
    _call(builder, module, "memcpy", POINTER, *(builder.inttoptr(a, POINTER) for a in (target, source)), length)


@_twin(atomics.call_kernel, (types.int64,) * 7, types.int64)
def _call_kernel(builder, _module, address, *arguments):
    signature = ir.FunctionType(I64, [I64] * 6)
    return builder.call(builder.inttoptr(address, signature.as_pointer()), arguments)


@_twin(atomics.call_routine, (types.int64, types.int64), types.int64)
def _call_routine(builder, _module, address, ctx):
    signature = ir.FunctionType(I64, [I64, I64])
    return builder.call(builder.inttoptr(address, signature.as_pointer()), (ctx, I64(0)))


def _call_address(builder, _module, address, *arguments):
    signature = ir.FunctionType(I64, [I64] * len(arguments))  # the callee ignores what it has no parameter for
    return builder.call(builder.inttoptr(address, signature.as_pointer()), arguments)


_twin(atomics.call, (types.int64,) * 4, types.int64)(_call_address)


def _call_long(*words):
    def generate(_ctx, builder, _signature, values):
        return _call_address(builder, builder.module, *values)

    return types.int64(*[types.int64] * len(words)), generate


TWINS[atomics.call_long] = _call_long


@_twin(atomics.bit_length, (types.int64,), types.int64)
def _bit_length(builder, _module, value):
    return builder.sub(I64(64), builder.ctlz(value, ir.IntType(1)(0)))


@_twin(atomics.reached, (types.int64, types.int64), types.boolean)
def _reached(builder, _module, value, wanted):
    return builder.icmp_signed(">=", builder.sub(value, wanted), I64(0))  # no nsw: the words wrap


@_twin(min, (types.int64, types.int64), types.int64)
def _min(builder, _module, a, b):
    return builder.select(builder.icmp_signed("<", b, a), b, a)


@_twin(max, (types.int64, types.int64), types.int64)
def _max(builder, _module, a, b):
    return builder.select(builder.icmp_signed(">", b, a), b, a)


@_twin(atomics.wrapping_multiply, (types.int64, types.int64), types.int64)
def _wrapping_multiply(builder, _module, a, b):
    return builder.mul(a, b)


@_twin(operators.float_from_bits, (types.uint32,), types.float32)
def _float_from_bits(builder, _module, bits):
    return builder.bitcast(bits, F32)


@_twin(operators.bits_from_float, (types.float32,), types.uint32)
def _bits_from_float(builder, _module, value):
    return builder.bitcast(value, I32)


@_twin(operators.float_from_half, (types.uint16,), types.float32)
def _float_from_half(builder, _module, bits):
    return builder.fpext(builder.bitcast(bits, ir.HalfType()), F32)


@_twin(operators.half_from_float, (types.float32,), types.uint16)
def _half_from_float(builder, _module, value):
    rounded = builder.bitcast(builder.fptrunc(value, ir.HalfType()), I16)
    return builder.select(builder.fcmp_unordered("uno", value, value), I16(0x7E00), rounded)


@_twin(operators.bfloat_from_float, (types.float32,), types.uint16)
def _bfloat_from_float(builder, _module, value):
    """Convert in 32 bits, where numba would use 64: twice as many values at once. It does not use fptrunc to bfloat,
    for which x86 has an instruction that treats subnormal numbers as zero."""
    bits = builder.bitcast(value, I32)
    even = builder.and_(builder.lshr(bits, I32(16)), I32(1))
    rounded = builder.add(builder.add(bits, I32(0x7FFF)), even)
    chosen = builder.select(builder.fcmp_unordered("uno", value, value), I32(0x7FC0_0000), rounded)
    return builder.trunc(builder.lshr(chosen, I32(16)), I16)


def _element_pointer(ctx: Any, builder: ir.IRBuilder, dtype: types.Type, address: ir.Value, i: ir.Value) -> ir.Value:
    return builder.gep(builder.inttoptr(address, ctx.get_data_type(dtype).as_pointer()), [i])


def _element(address, i, dtype):
    def generate(ctx, builder, signature, values):
        pointer = _element_pointer(ctx, builder, signature.return_type, *values[:2])
        return ctx.unpack_value(builder, signature.return_type, pointer)

    return dtype.dtype(types.int64, types.int64, dtype), generate


def _set_element(address, i, dtype, value):
    def generate(ctx, builder, _signature, values):
        ctx.pack_value(builder, dtype.dtype, values[3], _element_pointer(ctx, builder, dtype.dtype, *values[:2]))
        return ctx.get_dummy_value()

    return types.void(types.int64, types.int64, dtype, dtype.dtype), generate


TWINS |= {kernels.element: _element, kernels.set_element: _set_element}


# --- functions of users -----------------------------------------------------------------------------------------------


def compiled_for(dispatcher: Any, operands: tuple[Any, ...]) -> Any:
    """Return what numba has compiled from a jitted function for these types. A function with explicit signatures has no
    others."""
    if operands not in dispatcher.overloads:
        dispatcher.compile(operands)
    return dispatcher.overloads[operands]


def _attempt(function, a, b):
    """Call a function of a user, which numba has compiled for its own target, and keep the status here."""
    compiled = compiled_for(function.dispatcher, (a, b))
    result = types.unliteral(compiled.signature.return_type)

    def generate(ctx, builder, signature, values):
        users = cpu_target.target_context
        ctx.libraries.append(compiled.library)
        status, value = users.call_internal_no_propagate(builder, compiled.fndesc, compiled.signature, values[1:])
        failed = builder.zext(status.is_error, I64)
        value = ctx.cast(builder, value, compiled.signature.return_type, result)
        return ctx.make_tuple(builder, signature.return_type, [failed, value])

    return types.Tuple((types.int64, result))(function, a, b), generate


TWINS[kernels.attempt] = _attempt
