"""What the compiler has made of the routines: atomics where the source says so, nothing taken out of the waiting loop,
no foreign symbols, and vector instructions in the kernels.
"""

import ast
import inspect
import platform
import re
import struct
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import pytest

from shmcoll.collectives import RECORDS, ROUTINES
from shmcoll.engine.compiler import compile as code
from shmcoll.engine.compiler import object_cache
from shmcoll.engine.kernels import kernels
from shmcoll.engine.kernels.dtypes import BY_NAME
from shmcoll.engine.native import entry
from shmcoll.engine.protocol import wait
from tests.support import tally

pytestmark = pytest.mark.slow

#: those without data, with reductions, with long results, with messages; the others take long, and come under stress
USUAL = {"barrier", "all_reduce", "all_gather", "recv"}
NAMES = [pytest.param(n, marks=() if n in USUAL else pytest.mark.stress) for n in ROUTINES]

#: what the objects may take from the process: libc, libm, CPython's C API
FOREIGN = {
    "__errno_location", "clock_gettime", "close", "kill", "memcpy", "memmove", "memset", "open", "poll",
    "process_vm_readv", "pthread_self", "read", "sched_getaffinity", "sched_getcpu", "sched_setaffinity", "sched_yield",
    "sem_clockwait", "sem_post", "snprintf", "sscanf", "strrchr", "syscall",
    "PyErr_CheckSignals", "PyErr_Clear", "PyErr_Occurred", "PyEval_RestoreThread", "PyEval_SaveThread",
    "PyInterpreterState_ThreadHead", "PyThreadState_GetInterpreter", "PyThreadState_Next",
    "PyList_GetItem", "PyList_Size", "PyLong_AsLong", "PyLong_FromLong", "PyTuple_GetItem", "PyTuple_Size",
    "Py_DecRef", "Py_IncRef",
}  # fmt: skip

#: full fences: in a wait, and before its peers are woken. Those of messages retract or claim an offer, too
FENCES = {"send": 4, "recv": 3}

#: what `wait.sleep_until` does only for a receive, and is not compiled into other routines
OF_RECEIVES = {wait.another_calls, wait.is_alone, wait.begin_receive, wait.end_receive, wait.is_deadlocked}

#: operation -> how it looks in LLVM IR
ATOMICS = {
    "load": r"load atomic i64, .* monotonic, align 8",
    "store": r"store atomic i64 .* monotonic, align 8",
    "load_acquire": r"load atomic i64, .* acquire, align 8",
    "store_release": r"store atomic i64 .* release, align 8",
    "fence": r"fence seq_cst",
    "acquire_fence": r"fence acquire",
}


def routine(name: str) -> FunctionType:
    return ROUTINES[name]


@cache
def module_text(name: str) -> str:
    plain = entry.make_plain(routine(name), RECORDS[name])
    return str(code.optimised_module({f"{name}_plain": (plain, 2)}))


def calls_in_source(function: FunctionType) -> Counter[str]:
    """How often the functions that a routine reaches call each atomic operation."""
    found: Counter[str] = Counter()
    seen: set[FunctionType] = set() if function is ROUTINES["recv"] else set(OF_RECEIVES)

    def visit(current: FunctionType) -> None:
        seen.add(current)
        names = vars(sys.modules[current.__module__])
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(current)))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            target = names.get(node.func.id)
            if node.func.id in ATOMICS:
                found[node.func.id] += 1
            elif isinstance(target, FunctionType) and target not in seen and target.__module__.startswith("shmcoll."):
                visit(target)

    visit(function)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_shared_words_are_atomics(name: str) -> None:
    """At least as many of each as the source has: none was merged, dropped or weakened."""
    text = module_text(name)
    wanted = calls_in_source(routine(name))
    assert wanted["load_acquire"] >= 9
    assert wanted["store_release"] >= 1
    assert wanted["fence"] == FENCES.get(name, 2)
    for operation, pattern in ATOMICS.items():
        assert len(re.findall(pattern, text)) >= wanted[operation], operation
    tally.count("accesses to shared words in the routines' sources, each an atomic in LLVM IR", sum(wanted.values()))


@pytest.mark.parametrize("name", NAMES)
def test_no_atomic_is_torn_or_of_another_kind(name: str) -> None:
    text = module_text(name)
    lines = [line.strip() for line in text.splitlines() if re.search(r"\b(load|store) atomic\b|\bfence\b", line)]
    strange = [line for line in lines if not any(re.search(pattern, line) for pattern in ATOMICS.values())]
    assert not strange


@pytest.mark.parametrize("name", NAMES)
def test_waiting_loops_look_at_memory(name: str) -> None:
    """In each round a sleeper looks: at the word, at ABORT, at the records."""
    found = 0
    for blocks in functions(module_text(name)):
        for label, lines in blocks.items():
            if any("@sem_clockwait(" in line for line in lines):
                loop = circle(blocks, label)
                looks = sum(bool(re.search(ATOMICS["load_acquire"], line)) for b in loop for line in blocks[b])
                assert looks >= 5
                found += 1
    assert found, "no sleep found"


def test_long_results_are_streamed() -> None:
    """By vectors with the nontemporal hint, to whole lines."""
    assert re.search(r"store <8 x i64> .*, align 64, .*!nontemporal", module_text("all_gather"))


def test_long_copies_are_loops() -> None:
    """Of vectors. LLVM would make a call of memcpy of a simpler loop, which takes up to 26 times as long on some
    processors: see `intrinsics.py`."""
    (body,) = re.findall(
        r"^define internal [^\n]*@shmcoll_copy\(.*?^}", module_text("all_gather"), re.DOTALL | re.MULTILINE
    )
    assert len(re.findall(r"store <8 x i64> ", body)) >= 2


def test_polling_looks_at_memory() -> None:
    """Each loop around `pause` or `sched_yield` has the acquire load inside."""
    found = 0
    for blocks in functions(module_text("barrier")):
        for label, lines in blocks.items():
            if any("@sched_yield(" in line or "sse2.pause" in line or '"isb"' in line for line in lines):
                loop = circle(blocks, label)
                assert any(re.search(ATOMICS["load_acquire"], line) for b in loop for line in blocks[b])
                found += 1
    assert found >= 2
    assert "pause" in inspect.getsource(wait.comes_soon)


def functions(text: str) -> list[dict[str, list[str]]]:
    """The functions of a module as basic blocks: label -> lines."""
    found = []
    for body in re.findall(r"^define .*?\{\n(.*?)^\}", text, re.DOTALL | re.MULTILINE):
        blocks: dict[str, list[str]] = {}
        label = ""
        for line in body.splitlines():
            if start := re.match(r'^([\w.$-]+|"[^"]+"):', line):
                label = start[1].strip('"')
            blocks.setdefault(label, []).append(line)
        found.append(blocks)
    return found


def circle(blocks: dict[str, list[str]], start: str) -> set[str]:
    """The blocks from which `start` can be reached and that can be reached from it."""
    following = {
        label: {target.strip('"') for line in lines for target in re.findall(r'label %("[^"]+"|[\w.$-]+)', line)}
        for label, lines in blocks.items()
    }

    def reachable(edges: dict[str, set[str]]) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for target in edges.get(waiting.pop(), set()) - seen:
                seen.add(target)
                waiting.append(target)
        return seen

    backwards: dict[str, set[str]] = {}
    for label, targets in following.items():
        for target in targets:
            backwards.setdefault(target, set()).add(label)
    loop = reachable(following) & reachable(backwards)
    assert start in loop, "not in a loop"
    return loop


# --- object files -----------------------------------------------------------------------------------------------------


def undefined_symbols(data: bytes) -> set[str]:
    """Names that a 64-bit little-endian ELF object leaves to the loader (System V ABI, chapter 4)."""
    assert data[:6] == b"\x7fELF\x02\x01"
    (sections_at,) = struct.unpack_from("<Q", data, 0x28)
    _, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, sections_at + 64 * i) for i in range(count)]
    found = set()
    for _, kind, _, _, at, size, link, *_ in sections:
        if kind != 2:  # SHT_SYMTAB
            continue
        names_at = sections[link][4]
        for symbol in range(at + 24, at + size, 24):
            name, _, _, section = struct.unpack_from("<IBBH", data, symbol)
            if section == 0:
                text = data[names_at + name : data.index(b"\0", names_at + name)]
                found.add(text.decode())
    return found - {"_GLOBAL_OFFSET_TABLE_"}


@pytest.mark.parametrize("name", ROUTINES)
def test_objects_need_libc_and_cpython_only(name: str) -> None:
    code.load_routine(RECORDS[name])

    def never() -> bytes:
        raise AssertionError("it has just been loaded")

    symbols = undefined_symbols(object_cache.object_file(name, never, None))
    assert symbols <= FOREIGN
    assert {"sem_clockwait", "sem_post", "PyEval_SaveThread"} <= symbols


# --- kernels ----------------------------------------------------------------------------------------------------------

#: a pair and the packed instruction that must do its work (AVX or SSE spelling)
VECTORS = [
    ("float32", "sum", r"v?addps"),
    ("float64", "prod", r"v?mulpd"),
    ("int32", "max", r"v?pmaxsd"),
    ("uint8", "sum", r"v?paddb"),
    ("bool", "max", r"v?(p?or|pord|porq|orps)"),
    ("bfloat16", "sum", r"v?addps"),
    ("bfloat16", "sum", r"v?paddd"),  # rounding
    ("float16", "sum", r"v?addps"),
    ("float32", "min", r"v?(cmp\w*ps|minps)"),
    ("int32", "band", r"v?(pand|andps)"),
    ("float32", "lxor", r"v?cmp\w*ps"),
]


@cache
def kernel_module(dtype: str, reduction: str) -> Any:
    kernel: Callable[..., int] = kernels.make_kernel(BY_NAME[dtype], reduction)
    return code.optimised_module({f"{reduction}_{dtype}": (kernel, 6)})


@pytest.mark.skipif(platform.machine() != "x86_64", reason="looks for x86's instructions")
@pytest.mark.parametrize(("dtype", "reduction", "instruction"), VECTORS)
def test_kernels_are_vectorised(dtype: str, reduction: str, instruction: str) -> None:
    """All five loops: start, step, and the three forms of finish."""
    assembly = code._target_machine().emit_assembly(kernel_module(dtype, reduction))
    packed = re.findall(rf"^\s+{instruction}[dq]?\s.*%[xyz]mm", assembly, re.MULTILINE)
    assert len(packed) >= 4


@pytest.mark.skipif(platform.machine() != "x86_64", reason="looks for x86's instructions")
def test_functions_of_users_are_inlined_and_vectorised() -> None:
    """Where they cannot raise. The only calls are those of the three forms of finish."""
    import numba

    function = numba.njit("float64(float64, float64)")(lambda a, b: a + 3.0 * b)
    kernel = kernels.make_function_kernel(BY_NAME["float64"], function)
    assembly = code._target_machine().emit_assembly(code.optimised_module({"weighted": (kernel, 6)}))
    assert len(re.findall(r"^\s+v?mulpd\s.*%[xyz]mm", assembly, re.MULTILINE)) >= 2
    assert len(re.findall(r"^\s+call", assembly, re.MULTILINE)) <= 3


def test_kernels_need_nothing() -> None:
    module = kernel_module("bfloat16", "sum")
    assert undefined_symbols(code._target_machine().emit_object(module)) <= {"memcpy", "memmove", "memset"}
