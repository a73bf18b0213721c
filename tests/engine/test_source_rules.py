"""Rules that the sources keep: which module imports which, how shared words are accessed, where ranks wait.

Each test lists everything that breaks its rule.
"""

import ast
import inspect
import os
import re
from functools import cache
from graphlib import TopologicalSorter
from importlib.util import find_spec
from pathlib import Path

import shmcoll
from shmcoll import collectives
from shmcoll.engine.compiler import object_cache
from shmcoll.engine.system import tracebacks
from tests.support.trees import tree_of, walk

PACKAGE = Path(shmcoll.__file__).parent
SOURCES = {
    "shmcoll." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path != PACKAGE / "__init__.py"
}
TREES = {name: tree_of(path) for name, path in SOURCES.items()}

#: The rooms of each package, from the bottom up: a module imports from its own room and from those before it.
ROOMS = {
    "shmcoll": (
        "errors", "engine", "collectives", "diagnostics", "profiling", "runtime", "calls", "communicator", "nodes",
        "startup", "runner", "joblib", "jit", "nki", "mindspore", "torch", "ray", "mpi", "pytest_plugin", "__main__",
    ),
    "shmcoll.engine": (
        "layout", "context", "collective", "system", "fences", "atomics", "memory", "kernels", "protocol", "messages",
        "native", "compiler", "fault_injection",
    ),
    "shmrun": ("cli", "start", "watch", "commands", "__main__"),
    "shmbench": ("cli", "collectives", "timing", "report", "features", "doors", "commands", "__main__"),
}  # fmt: skip

ROUTINES = [
    name
    for name in TREES
    if name.startswith(("shmcoll.engine.protocol.", "shmcoll.engine.messages.", "shmcoll.collectives."))
    and name not in ("shmcoll.engine.messages.buffers", "shmcoll.engine.messages.foreign_arrays")  # Python beside them
]

#: functions that messages name
FUNCTIONS = ("shmcoll.Executor", "shmcoll.imap", "shmcoll.map", "shmcoll.ranks", "shmcoll.run")

#: what of atomics.py each module of routines may use; only engine/protocol/wait.py may wait, ring or read the clock;
#: only that and engine/messages/offer.py may fence
SANCTIONED = {
    "shmcoll.engine.protocol.wait": {
        "clock", "fence", "load", "load_acquire", "note", "pause", "peek", "poke", "process_gone", "process_start",
        "reached", "ring", "signals_pending", "thread_states", "sleep_on", "store", "yield_core",
    },
    "shmcoll.engine.protocol.deadlock": {
        "load", "load_acquire", "peek", "poke", "reached", "store", "store_release",
    },
    "shmcoll.engine.protocol.mailboxes": {"peek"},
    "shmcoll.engine.protocol.pace": {"clock", "peek", "poke"},
    "shmcoll.engine.protocol.choices": {"clock", "peek", "poke"},
    "shmcoll.engine.protocol.cells": {"copy", "peek"},
    "shmcoll.engine.protocol.exposure": {"load", "peek", "poke", "store"},
    "shmcoll.engine.protocol.peer_memory": {
        "load", "load_acquire", "peek", "poke", "process_gone", "read_memory", "store_release",
    },
    "shmcoll.engine.protocol.team": {
        "add", "call_kernel", "call_long", "clock", "copy", "current_core", "load", "load_acquire", "move_to",
        "next_core", "pause", "peek", "read_memory", "ring", "sleep_on", "store", "store_release", "stream",
        "yield_core",
    },
    "shmcoll.engine.protocol.placement": {
        "cpu_time", "current_core", "load", "move_to", "next_core", "peek", "poke", "store",
    },
    "shmcoll.engine.protocol.flight_recorder": {"note", "peek", "poke", "recent"},
    "shmcoll.engine.protocol.profile": {"call", "call_long", "clock", "cycles", "peek"},
    "shmcoll.engine.protocol.sync": {
        "acquire_fence", "load", "load_acquire", "peek", "poke", "reached", "store", "store_release",
        "wrapping_multiply",
    },
    "shmcoll.engine.protocol.kept_sums": {"load_acquire", "peek", "store", "store_release"},
    "shmcoll.engine.protocol.nontemporal": {"peek"},
    "shmcoll.engine.protocol.block_mover": {"peek", "poke"},
    "shmcoll.engine.protocol.ways": {"peek", "poke"},
    "shmcoll.engine.protocol.count_checks": {"load", "store"},
    "shmcoll.engine.protocol.count_tables": {"load", "peek", "poke", "store"},
    "shmcoll.engine.messages.ring_buffers": {"load", "load_acquire", "peek"},
    "shmcoll.engine.messages.offer": {"fence", "load", "load_acquire", "peek", "store"},
    "shmcoll.engine.messages.send": {"copy", "load_acquire", "peek", "poke", "store"},
    "shmcoll.engine.messages.recv": {"load", "load_acquire", "peek", "poke", "store"},
    "shmcoll.engine.messages.read_message": {"copy", "load", "load_acquire", "peek", "poke", "store", "stream"},
    "shmcoll.engine.protocol.reduction": {"call_kernel", "peek", "poke"},
    "shmcoll.collectives": {"copy", "load", "peek", "poke", "store"},
}  # fmt: skip

#: functions that return an address in MAIL
PRIVATE_ADDRESSES = {"found_message", "chain_to", "chain_from"}
#: pointers of the context that lead into the arena
SHARED_POINTERS = {"ARENA", "GROUP", "MAILBOXES", "CELLS", "RECORDS", "RECORDS_LAUNCHER", "FLIGHTS"}


def imports(tree: ast.AST) -> set[str]:
    """Modules and names of this package that a module imports, anywhere in it."""
    found = set()
    for node in walk(tree):
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


@cache
def modules(package: str) -> dict[str, ast.Module]:
    """The modules of a package with their trees, its own `__init__` excepted."""
    root = folder(package)
    return {
        ".".join((package, *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__"): tree_of(path)
        for path in sorted(root.rglob("*.py"))
        if path != root / "__init__.py"
    }


def room(package: str, name: str) -> str | None:
    """Which room of `package` the module is in; None for modules elsewhere, and for the package itself."""
    inner = name.removeprefix(package + ".")
    return None if inner == name else inner.partition(".")[0]


def test_every_module_is_in_a_room() -> None:
    found = {package: {room(package, name) for name in modules(package)} for package in ROOMS}
    assert found == {package: set(names) for package, names in ROOMS.items()}


def test_imports_go_down_only() -> None:
    assert [
        f"{name} imports {target}"
        for package, order in ROOMS.items()
        for name, tree in modules(package).items()
        for target in imports(tree)
        if (there := room(package, target)) is not None and order.index(there) > order.index(room(package, name) or "")
    ] == []


def test_every_room_says_in_a_sentence_what_it_is_for() -> None:
    paths = [folder(package) / name / "__init__.py" for package, names in ROOMS.items() for name in names]
    assert [str(path) for path in paths if path.exists() and not ast.get_docstring(tree_of(path))] == []


def test_modules_that_are_named_by_a_string_exist() -> None:
    """`python -m NAME`, `import_module(NAME)`, `sys.modules[NAME]`: nothing else fails when a module moves."""
    named = {package: named_modules(package) for package in ("shmcoll", "shmrun", "shmbench")}
    assert named["shmcoll"] and named["shmbench"]  # shmrun names none
    assert [
        f"{name} names {text}"
        for texts in named.values()
        for text, name in texts.items()
        if text not in ("shmcoll.jit", *FUNCTIONS) and find_spec(text) is None
    ] == []


def named_modules(package: str) -> dict[str, str]:
    """What looks like a module of ours in a string of a package, and the module that has the string."""
    root = {package: tree_of(folder(package) / "__init__.py")}
    return {
        node.value: name
        for name, tree in (root | modules(package)).items()
        for node in walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"(shmcoll|shmrun|shmbench)(\.[a-z_]+)+", node.value)
    }


def test_our_package_is_the_folder_of_shmcoll() -> None:
    """By it, messages and stacks tell the user's lines from ours."""
    assert str(PACKAGE) + os.sep == tracebacks._PACKAGE
    assert object_cache._ROOT == PACKAGE


def test_an_object_depends_on_the_file_of_its_routine() -> None:
    sources = {name: object_cache._sources(name) for name in collectives.ROUTINES}
    assert [path for paths in sources.values() for path in paths if not path.exists()] == []
    assert [
        name
        for name, routine in collectives.ROUTINES.items()
        if Path(inspect.getsourcefile(routine) or "") not in sources[name]
    ] == []


def test_doors_do_not_know_each_other() -> None:
    assert [
        f"{name} imports {target}"
        for door, other in (("shmcoll.mindspore", "shmcoll.nki"), ("shmcoll.nki", "shmcoll.mindspore"))
        for name, tree in TREES.items()
        for target in imports(tree)
        if name.startswith(door) and target.startswith(other)
    ] == []


def test_one_file_encodes_and_decodes() -> None:
    launcher = find_spec("shmrun")
    assert launcher and launcher.submodule_search_locations
    files = [*SOURCES.values(), *Path(launcher.submodule_search_locations[0]).rglob("*.py")]
    found = [
        f"{path}:{node.lineno}"
        for path in files
        if path != PACKAGE / "engine/system/text.py"
        for node in walk(tree_of(path))
        if isinstance(node, ast.Call) and _is_of_text(node)
    ]
    assert found == []


def _is_of_text(call: ast.Call) -> bool:
    """Return whether a call encodes or decodes a text, or opens a file of text."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr in ("encode", "decode", "read_text", "write_text")
    mode = call.args[1] if len(call.args) > 1 else ast.Constant("r")
    return ast.unparse(call.func) == "open" and isinstance(mode, ast.Constant) and "b" not in str(mode.value)


def test_imports_have_no_cycle() -> None:
    packages = {name for name in SOURCES if SOURCES[name].name == "__init__.py"}
    graph = {
        name: {t for t in imports(tree) if t in SOURCES and t not in packages}
        for name, tree in TREES.items()
        if name not in packages
    }
    assert len(list(TopologicalSorter(graph).static_order())) >= len(graph)


def test_llvm_is_built_in_four_places() -> None:
    """The twins of the atomics, the types of our functions, their modules, and the call of the gate."""
    users = {name for name, tree in TREES.items() if _uses_llvm_ir(tree)}
    compiler = {f"shmcoll.engine.compiler.{name}" for name in ("intrinsics", "lowering", "numba_target")}
    assert users == {*compiler, "shmcoll.jit"}


def _uses_llvm_ir(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.ImportFrom) and node.module == "llvmlite" and any(a.name == "ir" for a in node.names)
        for node in walk(tree)
    ) or "llvmlite.ir" in imports(tree)


def test_routines_use_sanctioned_operations_only() -> None:
    assert [f"{name} uses {', '.join(found)}" for name in ROUTINES if (found := unsanctioned(name))] == []
    whole = [name for name in ROUTINES if not atomics_of(name) and "shmcoll.engine.atomics" in imports(TREES[name])]
    assert whole == [], "these import the whole module"


def atomics_of(name: str) -> set[str]:
    """The names that a module imports from atomics.py."""
    return {
        alias.name
        for node in walk(TREES[name])
        if isinstance(node, ast.ImportFrom) and node.module == "shmcoll.engine.atomics"
        for alias in node.names
    }


def unsanctioned(name: str) -> list[str]:
    return sorted(atomics_of(name) - next(names for prefix, names in SANCTIONED.items() if name.startswith(prefix)))


def test_routines_import_no_library() -> None:
    """They work on addresses and words: nothing there to allocate or raise with."""
    assert [
        f"{name} imports {target}"
        for name in ROUTINES
        for target in imports(TREES[name])
        if not target.startswith("shmcoll.")
    ] == []
    assert [
        f"{name}:{node.lineno} {type(node).__name__}"
        for name in ROUTINES
        for node in walk(TREES[name])
        if isinstance(node, (ast.Raise, ast.Try, ast.With))
    ] == []


#: first words of docstrings that say what something is, not what a function does
NO_VERBS = {
    *("A", "After", "All", "Also", "An", "At", "Before", "By", "Each", "Every", "For", "From", "How", "If", "In", "It"),
    *("Its", "Of", "On", "Only", "That", "The", "This", "What", "When", "Where", "Whether", "Which", "Who", "With"),
}


def begins_without_verb(function: ast.FunctionDef) -> bool:
    text = ast.get_docstring(function) or "Do"
    is_property = any("property" in ast.unparse(one) for one in function.decorator_list)
    return not is_property and (text.split()[0].strip(",.:") in NO_VERBS or not text[0].isupper())


def test_the_docstring_of_a_function_begins_with_what_it_does() -> None:
    """With a verb, as in "Return the name"; properties and classes are things."""
    assert [
        f"{name}:{node.lineno} {(ast.get_docstring(node) or '').splitlines()[0]}"
        for name, tree in TREES.items()
        for node in walk(tree)
        if isinstance(node, ast.FunctionDef) and begins_without_verb(node)
    ] == []


def functions(tree: ast.AST) -> list[ast.FunctionDef]:
    return [node for node in walk(tree) if isinstance(node, ast.FunctionDef)]


def called(node: ast.AST) -> str | None:
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None


def test_peek_and_poke_stay_in_private_memory() -> None:
    """Their addresses start from the context, or from a pointer in it that does not lead into the arena."""
    assert [
        f"{name}:{node.lineno} {ast.unparse(node)}"
        for name in ROUTINES
        for function in functions(TREES[name])
        for node in walk(function)
        if isinstance(node, ast.Call) and called(node) in ("peek", "poke") and not _is_private(node.args[0], function)
    ] == []


def test_functions_of_private_addresses_lead_there() -> None:
    returned = {
        function.name: [_is_private(node.value, function) for node in walk(function) if isinstance(node, ast.Return)]
        for function in functions(TREES["shmcoll.engine.messages.ring_buffers"])
        if function.name in PRIVATE_ADDRESSES
    }
    assert returned == {name: [True] for name in PRIVATE_ADDRESSES}


def _is_private(address: ast.expr, function: ast.FunctionDef) -> bool:
    base = address
    while isinstance(base, ast.BinOp) and isinstance(base.op, ast.Add):
        base = base.left
    if isinstance(base, ast.Call) and called(base) in PRIVATE_ADDRESSES:
        return True
    if isinstance(base, ast.Call) and called(base) == "peek":
        fields = {node.attr for node in walk(base) if isinstance(node, ast.Attribute)}
        return not fields & SHARED_POINTERS and _is_private(base.args[0], function)
    if not isinstance(base, ast.Name):
        return False
    if base.id == "ctx":
        return True
    sources = [
        node.value
        for node in walk(function)
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == base.id for t in node.targets)
    ]
    return bool(sources) and all(_is_private(source, function) for source in sources)


def test_only_one_file_waits() -> None:
    """No other loop without a bound looks at shared words. Those of a team are of one process (`team.py`)."""
    looks = {"load", "load_acquire", "get", "await_step", "wait"}
    assert [
        f"{name}:{node.lineno}"
        for name in ROUTINES
        for node in walk(TREES[name])
        if isinstance(node, ast.While) and looks & {called(inner) for inner in walk(node)}
        if name not in ("shmcoll.engine.protocol.wait", "shmcoll.engine.protocol.team")
    ] == []


def test_shared_words_are_published_in_one_file() -> None:
    """Those that another rank waits for. No rank waits for what four other files publish."""
    publishers = {n for n in ROUTINES for node in walk(TREES[n]) if called(node) == "store_release"}
    quiet = {f"shmcoll.engine.protocol.{name}" for name in ("deadlock", "kept_sums", "peer_memory", "team")}
    assert publishers == {"shmcoll.engine.protocol.sync"} | quiet
    for function in functions(TREES["shmcoll.engine.protocol.sync"]):
        calls = [called(node) for node in walk(function) if called(node)]
        assert ("store_release" in calls) == bool({"wake", "wake_one"} & set(calls)), (
            f"{function.name} publishes without waking"
        )


#: modules that catch all errors, whoever has raised them, and why none of a signal handler is lost
CATCH_ALL = {
    "shmcoll.communicator.object_reductions": "kept, and raised when all ranks know of it",
    "shmcoll.engine.kernels.kernels": "compiled: no handler runs in it",
    "shmcoll.nodes.mpi.watcher_process": "a process without handlers",
    "shmcoll.runner.answers": "about an exception that has come first",
    "shmcoll.runner.map_call": "about an exception that has come first",
    "shmcoll.runner.map_worker": "sent to the caller as that of an item",
    "shmcoll.runner.outgoing": "about an exception that has come first",
    "shmcoll.runner.protocol": "about an exception that has come first",
    "shmcoll.runner.serve_calls": "at the end of the rank",
    "shmcoll.runner.supervise": "in the server",
    "shmcoll.runtime.uncaught": "about an exception that has come first",
    "shmcoll.startup.several_nodes": "kept, and raised when all ranks know of it",
}


def test_code_that_catches_all_errors_lets_those_of_signal_handlers_pass():
    """It raises again what it has caught, asks who has raised it, or is listed."""
    found = set()
    for name, tree in TREES.items():
        for node in walk(tree):
            text = ast.unparse(node) if isinstance(node, (ast.ExceptHandler, ast.With)) else ""
            catches = text.startswith("except Exception") or "suppress(Exception" in text.partition("\n")[0]
            if catches and not re.search(r"\braise$|of_handler", text, re.MULTILINE):
                found.add(name)
    assert found == set(CATCH_ALL)
