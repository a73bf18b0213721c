"""Rules that the sources keep: who imports whom, who touches shared words how, who waits."""

import ast
import inspect
import os
import re
from graphlib import TopologicalSorter
from importlib.util import find_spec
from pathlib import Path

import pytest

import shmcoll
from shmcoll import collectives
from shmcoll.diagnostics import call_site, stack_client
from shmcoll.engine.compiler import object_cache

PACKAGE = Path(shmcoll.__file__).parent
SOURCES = {
    "shmcoll." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path != PACKAGE / "__init__.py"
}
TREES = {name: ast.parse(path.read_text()) for name, path in SOURCES.items()}

#: The rooms of each package, from the bottom up: a module imports from its own room and from those before it.
ROOMS = {
    "shmcoll": (
        "errors", "engine", "collectives", "diagnostics", "runtime", "calls", "communicator", "startup", "runner",
        "jit", "nki", "mindspore",
    ),
    "shmcoll.engine": (
        "layout", "context", "collective", "system", "fences", "atomics", "memory", "kernels", "protocol", "messages",
        "native", "compiler", "fault_injection",
    ),
    "shmrun": ("cli", "start", "watch", "commands", "__main__"),
    "shmbench": ("cli", "collectives", "timing", "report", "features", "commands", "__main__"),
}  # fmt: skip

ROUTINES = [
    name
    for name in TREES
    if name.startswith(("shmcoll.engine.protocol.", "shmcoll.engine.messages.", "shmcoll.collectives."))
    and name != "shmcoll.engine.messages.buffers"  # plain Python beside them
]

#: what of atomics.py each module of routines may use; none but engine/protocol/wait.py may wait, ring, fence or look at
#: the clock
SANCTIONED = {
    "shmcoll.engine.protocol.wait": {
        "clock", "fence", "load", "load_acquire", "note", "pause", "peek", "poke", "process_gone", "process_start",
        "reached", "ring", "signals_pending", "sleep_on", "store", "yield_core",
    },
    "shmcoll.engine.protocol.flight_recorder": {"note", "peek", "poke", "recent"},
    "shmcoll.engine.protocol.sync": {
        "acquire_fence", "load", "load_acquire", "peek", "poke", "store", "store_release", "wrapping_multiply",
    },
    "shmcoll.engine.protocol.nontemporal": {"copy", "peek", "stream"},
    "shmcoll.engine.protocol.count_tables": {"copy", "load", "peek", "poke", "store"},
    "shmcoll.engine.messages.ring_buffers": {"load", "peek"},
    "shmcoll.engine.messages.send": {"copy", "load_acquire", "peek", "poke", "store"},
    "shmcoll.engine.messages.recv": {"load", "load_acquire", "peek", "poke", "store"},
    "shmcoll.engine.messages.read_message": {"copy", "load", "load_acquire", "peek", "poke", "store", "stream"},
    "shmcoll.engine.protocol.reduction": {"call_kernel", "copy", "peek", "poke"},
    "shmcoll.collectives": {"call_kernel", "copy", "load", "peek", "poke", "store"},
}  # fmt: skip

#: pointers of the context that lead into the arena
SHARED_POINTERS = {"ARENA", "GROUP", "MAILBOXES", "CELLS", "RECORDS", "RECORDS_LAUNCHER", "FLIGHTS"}


def imports(tree: ast.AST) -> set[str]:
    """Modules and names of this package that a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in SOURCES else node.module)
    return found


def folder(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def modules(package: str) -> dict[str, ast.Module]:
    """The modules of a package with their trees, its own `__init__` excepted."""
    root = folder(package)
    return {
        ".".join((package, *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__"): ast.parse(
            path.read_text()
        )
        for path in sorted(root.rglob("*.py"))
        if path != root / "__init__.py"
    }


def room(package: str, name: str) -> str | None:
    """Which room of `package` the module is in; None for modules elsewhere, and for the package itself."""
    inner = name.removeprefix(package + ".")
    return None if inner == name else inner.partition(".")[0]


@pytest.mark.parametrize("package", ROOMS)
def test_every_module_is_in_a_room(package: str) -> None:
    assert {room(package, name) for name in modules(package)} == set(ROOMS[package])


@pytest.mark.parametrize("package", ROOMS)
def test_imports_go_down_only(package: str) -> None:
    order = ROOMS[package]
    upward = [
        f"{name} imports {target}"
        for name, tree in modules(package).items()
        for target in imports(tree)
        if (there := room(package, target)) is not None and order.index(there) > order.index(room(package, name) or "")
    ]
    assert upward == []


@pytest.mark.parametrize("package", ROOMS)
def test_every_room_says_in_a_sentence_what_it_is_for(package: str) -> None:
    rooms = [folder(package) / name / "__init__.py" for name in ROOMS[package]]
    assert [str(path) for path in rooms if path.exists() and not ast.get_docstring(ast.parse(path.read_text()))] == []


@pytest.mark.parametrize("package", ["shmcoll", "shmrun", "shmbench"])
def test_modules_that_are_named_by_a_string_exist(package: str) -> None:
    """`python -m NAME`, `import_module(NAME)`, `sys.modules[NAME]`: nothing else fails when a module moves."""
    named = {
        node.value: name
        for name, tree in {
            package: ast.parse((folder(package) / "__init__.py").read_text()),
            **modules(package),
        }.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"(shmcoll|shmrun|shmbench)(\.[a-z_]+)+", node.value)
    }
    assert named
    lost = {
        text: name
        for text, name in named.items()
        if text not in ("shmcoll.jit", "shmcoll.run") and find_spec(text) is None
    }
    assert lost == {}


def test_our_package_is_the_folder_of_shmcoll() -> None:
    """By it, messages and stacks tell the user's lines from ours."""
    assert call_site._PACKAGE == stack_client._PACKAGE == str(PACKAGE) + os.sep
    assert object_cache._ROOT == PACKAGE


@pytest.mark.parametrize("name", collectives.ROUTINES)
def test_an_object_depends_on_the_file_of_its_routine(name: str) -> None:
    sources = object_cache._sources(name)
    assert all(path.exists() for path in sources)
    assert Path(inspect.getsourcefile(collectives.ROUTINES[name]) or "") in sources


def test_doors_do_not_know_each_other() -> None:
    for name, tree in TREES.items():
        for door, other in (("shmcoll.mindspore", "shmcoll.nki"), ("shmcoll.nki", "shmcoll.mindspore")):
            if name.startswith(door):
                assert not any(target.startswith(other) for target in imports(tree)), name


def test_imports_have_no_cycle() -> None:
    packages = {name for name in SOURCES if SOURCES[name].name == "__init__.py"}
    graph = {
        name: {t for t in imports(tree) if t in SOURCES and t not in packages}
        for name, tree in TREES.items()
        if name not in packages
    }
    assert len(list(TopologicalSorter(graph).static_order())) >= len(graph)


def test_llvm_is_built_in_three_places() -> None:
    """The twins of the atomics, the wrapper that gives a compiled function its symbol, and the call of the gate."""
    users = {name for name, tree in TREES.items() if _uses_llvm_ir(tree)}
    assert users == {"shmcoll.engine.compiler.intrinsics", "shmcoll.engine.compiler.compile", "shmcoll.jit"}


def _uses_llvm_ir(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.ImportFrom) and node.module == "llvmlite" and any(a.name == "ir" for a in node.names)
        for node in ast.walk(tree)
    ) or "llvmlite.ir" in imports(tree)


@pytest.mark.parametrize("name", ROUTINES)
def test_routines_use_sanctioned_operations_only(name: str) -> None:
    used = {
        alias.name
        for node in ast.walk(TREES[name])
        if isinstance(node, ast.ImportFrom) and node.module == "shmcoll.engine.atomics"
        for alias in node.names
    }
    allowed = next(names for prefix, names in SANCTIONED.items() if name.startswith(prefix))
    assert used <= allowed
    assert used or "shmcoll.engine.atomics" not in imports(TREES[name]), "imports the whole module"


@pytest.mark.parametrize("name", ROUTINES)
def test_routines_import_no_library(name: str) -> None:
    """They work on addresses and words: nothing there to allocate or raise with."""
    assert all(target.startswith("shmcoll.") for target in imports(TREES[name]))
    assert not any(isinstance(node, (ast.Raise, ast.Try, ast.With)) for node in ast.walk(TREES[name]))


def functions(tree: ast.AST) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def called(node: ast.AST) -> str | None:
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None


@pytest.mark.parametrize("name", ROUTINES)
def test_peek_and_poke_stay_in_private_memory(name: str) -> None:
    """Their addresses start from the context, or from a pointer in it that does not lead into the arena."""
    for function in functions(TREES[name]):
        for node in ast.walk(function):
            if called(node) in ("peek", "poke"):
                assert isinstance(node, ast.Call)
                where = f"{name}:{node.lineno} {ast.unparse(node)}"
                assert _is_private(node.args[0], function), where


def _is_private(address: ast.expr, function: ast.FunctionDef) -> bool:
    base = address
    while isinstance(base, ast.BinOp) and isinstance(base.op, ast.Add):
        base = base.left
    if isinstance(base, ast.Call) and called(base) == "peek":
        fields = {node.attr for node in ast.walk(base) if isinstance(node, ast.Attribute)}
        return not fields & SHARED_POINTERS and _is_private(base.args[0], function)
    if not isinstance(base, ast.Name):
        return False
    if base.id == "ctx":
        return True
    sources = [
        node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == base.id for t in node.targets)
    ]
    return bool(sources) and all(_is_private(source, function) for source in sources)


@pytest.mark.parametrize("name", [n for n in ROUTINES if n != "shmcoll.engine.protocol.wait"])
def test_only_one_file_waits(name: str) -> None:
    """No other loop without a bound looks at shared words."""
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.While):
            looks = {called(inner) for inner in ast.walk(node)} & {"load", "load_acquire", "get", "await_step", "wait"}
            assert not looks, f"{name}:{node.lineno}"


def test_shared_words_are_published_in_one_file() -> None:
    publishers = {n for n in ROUTINES for node in ast.walk(TREES[n]) if called(node) == "store_release"}
    assert publishers == {"shmcoll.engine.protocol.sync"}
    for function in functions(TREES["shmcoll.engine.protocol.sync"]):
        calls = [called(node) for node in ast.walk(function) if called(node)]
        assert ("store_release" in calls) == bool({"wake", "wake_one"} & set(calls)), (
            f"{function.name} publishes without waking"
        )
