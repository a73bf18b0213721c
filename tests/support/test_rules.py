"""Rules for tests: they wait by `until`, and tests of behaviour use the public interface."""

import ast
from pathlib import Path

from tests.support.trees import tree_of, walk

TESTS = Path(__file__).parents[1]
BEHAVIOUR = ("conformance", "communicator", "crash", "fault_injection", "frontends", "long_runs", "users")
INSIDE = ("calls", "collectives", "communicator", "diagnostics", "engine", "nodes", "runner", "runtime", "startup")

#: tests of behaviour that are about one part of the inside
ABOUT_THE_INSIDE = {
    "communicator/test_batch.py",
    "communicator/test_interrupted_loads.py",
    "communicator/test_method_bodies.py",
    "communicator/test_other_names.py",
    "conformance/test_common_dtype.py",
    "conformance/test_jit_messages.py",
    "conformance/test_threads_of_a_rank.py",
    "crash/test_buffer_check.py",
    "crash/test_composite_calls.py",
    "crash/test_deadlock.py",
    "crash/test_groups.py",
    "crash/test_handlers.py",
    "crash/test_making_groups.py",
    "crash/test_object_calls_interrupted.py",
    "crash/test_out_of_memory.py",
    "crash/test_random_mismatch.py",
    "crash/test_running_ahead.py",
    "fault_injection/test_hooks.py",
    "frontends/test_mindspore_tcp_store.py",
}


def files(*folders: str) -> dict[str, ast.Module]:
    return {
        str(path.relative_to(TESTS)): tree_of(path) for folder in folders for path in (TESTS / folder).rglob("*.py")
    }


def imports_the_inside(tree: ast.Module) -> bool:
    modules = [node.module or "" for node in walk(tree) if isinstance(node, ast.ImportFrom)]
    return any(module.startswith(tuple(f"shmcoll.{part}" for part in INSIDE)) for module in modules)


def test_tests_of_behaviour_use_the_public_interface():
    assert {name for name, tree in files(*BEHAVIOUR).items() if imports_the_inside(tree)} - ABOUT_THE_INSIDE == set()


def only_sleeps(loop: ast.While) -> bool:
    """Return whether a loop does nothing but sleep, and look whether its time is over."""
    return all(ast.unparse(line).startswith(("time.sleep(", "assert time.monotonic() ")) for line in loop.body)


def test_nothing_but_until_waits_in_a_loop():
    loops = [
        f"{name}:{node.lineno}"
        for name, tree in files("").items()
        if name != "support/waiting.py"
        for node in walk(tree)
        if isinstance(node, ast.While) and only_sleeps(node)
    ]
    assert loops == []
