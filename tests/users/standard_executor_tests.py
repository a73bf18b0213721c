"""CPython's own tests of executors, on `shmcoll.Executor`: python tests/users/standard_executor_tests.py [NAME ...]

They come with the interpreter, from Python 3.12 on, if it has its package `test`. Run it with such an interpreter, in
which shmcoll is installed. Tests of what is inside `ProcessPoolExecutor` are left out, and each that is left out for
another reason is listed with it.
"""

import concurrent.futures
import importlib
import multiprocessing
import sys
import unittest
from typing import Any

import shmcoll

INSIDE = "looks inside ProcessPoolExecutor"
#: the mixins of the standard library's tests, with the tests that are left out, and why
TESTS: dict[str, dict[str, dict[str, str]]] = {
    "test_process_pool": {
        "ProcessPoolExecutorTest": {
            "test_killed_child": INSIDE,
            "test_saturation": INSIDE,
            "test_idle_process_reuse_one": INSIDE,
            "test_idle_process_reuse_multiple": INSIDE,
            "test_python_finalization_error": INSIDE,
            "test_max_tasks_per_child": "there is no max_tasks_per_child",
            "test_max_tasks_per_child_defaults_to_spawn_context": "there is no max_tasks_per_child",
            "test_max_tasks_early_shutdown": "there is no max_tasks_per_child",
            "test_max_workers_negative": "the text of the error is another",
            "test_traceback": "the cause is a shmcoll.RemoteTraceback",
        }
    },
    "test_as_completed": {"AsCompletedTests": {}},
    "test_wait": {"WaitTests": {}},
    "test_init": {"InitializerMixin": {}},
    "test_shutdown": {
        "ExecutorShutdownTest": {
            "test_cancel_futures": "no rank may have begun anything by then",
            "test_interpreter_shutdown": "its program imports the executor from concurrent.futures",
            "test_submit_after_interpreter_shutdown": "its program imports the executor from concurrent.futures",
            "test_hang_gh83386": "its program imports the executor from concurrent.futures",
        }
    },
    "test_deadlock": {
        "ExecutorDeadlockTest": {
            "test_error_at_task_pickle": "it is a TypeError that names the argument",
            "test_shutdown_deadlock_pickle": INSIDE,
            "test_error_at_task_unpickle": "the future has the error, and the executor goes on",
            "test_exit_at_task_unpickle": "the future has the error, and the executor goes on",
            "test_error_during_result_pickle_on_worker": "it is a TypeError that names the result",
            "test_exit_during_result_pickle_on_worker": "the rank ends, and the executor is broken",
            "test_error_during_result_unpickle_in_result_handler": "the future has the error, and the executor goes on",
            "test_gh105829_should_not_deadlock_if_wakeup_pipe_full": INSIDE,
        }
    },
}


class Adapted(shmcoll.Executor):
    """Takes the arguments of `ProcessPoolExecutor`."""

    def __init__(self, max_workers: int, mp_context: Any = None, **keywords: Any):
        super().__init__(max_workers, **keywords)


def cases(names: list[str]) -> unittest.TestSuite:
    suite = unittest.TestSuite()
    util = importlib.import_module("test.test_concurrent_futures.util")
    for file, mixins in TESTS.items():
        module = importlib.import_module(f"test.test_concurrent_futures.{file}")
        module.BrokenProcessPool = concurrent.futures.BrokenExecutor  # type: ignore[attr-defined]
        for name, left_out in mixins.items():
            mixin = getattr(module, name)
            members = {"executor_type": Adapted, "get_context": lambda self: multiprocessing.get_context("fork")}
            bases = (mixin, util.BaseTestCase) if issubclass(mixin, util.ExecutorMixin) else (
                mixin, util.ExecutorMixin, util.BaseTestCase
            )  # fmt: skip
            kind = type(name, bases, members | {"__module__": module.__name__})
            for test in unittest.TestLoader().getTestCaseNames(kind):
                if test not in left_out and (not names or test in names):
                    suite.addTest(kind(test))
    return suite


if __name__ == "__main__":
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(cases(sys.argv[1:])).wasSuccessful())
