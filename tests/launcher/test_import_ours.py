"""`shmrun --nki` and `--mindspore`: our packages by the names that the program imports."""

import importlib.util
import sys

import pytest

NKI = """
    import sys
    import nki
    import nki.collectives as ncc
    import nki.language as nl
    from nki.collectives import ReplicaGroup
    import numpy as np, shmcoll.nki
    assert nki is shmcoll.nki and ncc is shmcoll.nki.collectives
    assert nl is shmcoll.nki.language is sys.modules["nki.language"]
    assert nki.__name__ == nki.__spec__.name == "shmcoll.nki"
    dst = np.zeros(1)
    ncc.all_reduce([np.ones(1)], [dst], ReplicaGroup([[0, 1]]), nl.add)
    try:
        import nki.compiler
    except ModuleNotFoundError as e:
        print(dst, e)
"""


@pytest.mark.parametrize("how", [(), pytest.param(("--fresh",), marks=pytest.mark.slow)], ids="".join)
def test_nki_is_ours(shmrun, how):
    done = shmrun("-n", 2, "--nki", *how, shmrun.write(NKI))
    assert (done.returncode, done.stdout, done.stderr) == (0, "[2.] No module named 'nki.compiler'\n" * 2, "")


@pytest.mark.skipif(importlib.util.find_spec("mindspore") is not None, reason="MindSpore is installed")
@pytest.mark.parametrize("flags", [("--mindspore", "-n", "1"), ("--worker_num", "1")], ids=" ".join)
def test_mindspore_is_ours_where_it_is_missing(shmrun, flags):
    program = "import mindspore, mindspore.ops as ops, shmcoll.mindspore; print(mindspore is shmcoll.mindspore)"
    done = shmrun(*flags, "-c", program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


@pytest.mark.skipif(importlib.util.find_spec("mindspore") is not None, reason="MindSpore is installed")
@pytest.mark.parametrize(
    ("program", "advised"),
    [
        ("from mindspore import value_and_grad", True),
        ("import mindspore.train", True),
        ("from mindspore import nn; nn.Dense(2, 2)", True),
        ("from mindspore import nn; nn.Cell().register_backward_hook(print)", True),
        ("import mindspore; mindspore.Tensor([1.0]).erfinv()", True),
        ("import mindspore, numpy; numpy.nothing", False),
        ("import mindspore; from os import nothing", False),
    ],
)
def test_a_name_that_ours_lacks(shmrun, program, advised):
    done = shmrun("-n", 1, "--mindspore", "-c", program)
    assert done.returncode == 1
    assert ("for the others, pip install mindspore, and shmrun --mindspore" in done.stderr) == advised


@pytest.mark.parametrize(
    ("program", "advised"),
    [
        ("import nki.typing", True),
        ("from nki.language import load", True),
        ("import nki.isa as nisa; nisa.nc_matmul", True),
        ("import nki.language as nl; nl.zeros((2, 2), nl.int32).ap([[1, 2]])", True),
        ("import nki.language as nl; nl.zeros((2, 2), nl.int32).nothing", False),
        ("import nki.language as nl, numpy; numpy.nothing", False),
    ],
)
def test_a_name_of_nki_that_ours_lacks(shmrun, program, advised):
    done = shmrun("-n", 1, "--nki", "-c", program)
    assert done.returncode == 1
    assert ("shmcoll.nki has what kernels need around a collective: arrays are numpy's, so" in done.stderr) == advised


#: a MindSpore in the program's own directory: the shape of the real one's imports
INSTALLED = {
    "__init__.py": """
        from mindspore import communication, nn
        from mindspore.context import set_auto_parallel_context, set_context
        from mindspore.device_manager import set_device
        __version__ = "2.10.1"
        from mindspore.graph.api import jit
        get_context = {'device_target': 'CPU'}.get
    """,
    "context.py": """
        def set_context(**settings): print(settings)
        set_auto_parallel_context = set_context
    """,
    "graph/__init__.py": "",
    "graph/api.py": "def jit(function=None, **options): assert function is None",
    "device_manager.py": "def set_device(device_target, device_id=None): print(device_target, device_id)",
    "communication/__init__.py": "from mindspore.communication.management import GlobalComm, get_rank, init",
    "communication/_comm_helper.py": "class GlobalComm: pass\n_is_initialized = None",
    "communication/management.py": """
        from mindspore.communication._comm_helper import GlobalComm, _is_initialized
        def init(): raise AssertionError
        def get_rank(group=None): raise AssertionError
        def their_own(): return "their own"
    """,
    "nn.py": "Dense = 'a layer'",
}


@pytest.mark.parametrize("flags", [("--mindspore", "-n"), ("--mindspore", "--fresh", "-n"), ("--worker_num",)])
def test_an_installed_mindspore_gets_our_communication(shmrun, flags):
    for name, text in INSTALLED.items():
        shmrun.write(text, f"mindspore/{name}")
    job = shmrun.write("""
        import inspect, mindspore, shmcoll.mindspore, warnings
        from mindspore import nn
        from mindspore.communication import GlobalComm, get_rank, init, management
        init()
        assert mindspore.communication.get_rank is shmcoll.mindspore.communication.get_rank
        assert management._is_initialized() and GlobalComm.WORLD_COMM_GROUP == "mccl_world_group"
        assert "AssertionError" in inspect.getsource(management)
        print(get_rank(), nn.Dense, management.their_own())
        mindspore.set_context(mode=1, device_target="CPU")
        mindspore.set_device("no such device")
        with warnings.catch_warnings(record=True) as told:
            mindspore.set_context(mode=0, device_target="Ascend", device_id=1)
            mindspore.set_device("GPU", 1)
            mindspore.set_context(mode=0)
            assert mindspore.jit(init) is mindspore.jit(jit_level="O0")(init) is init
        mindspore.set_auto_parallel_context(parallel_mode="data_parallel")
        try:
            mindspore.set_auto_parallel_context(parallel_mode="auto_parallel")
        except RuntimeError as error:
            told.append(warnings.WarningMessage(error, None, "", 0))
        print(*[one.message for one in told], sep="\\n")
    """)
    done = shmrun(*flags, 1, job)
    because = "because its collectives work there"
    assert done.stdout.splitlines() == [
        "0 a layer their own",
        "{'mode': 1, 'device_target': 'CPU'}",
        "no such device None",
        "{'mode': 1, 'device_target': 'CPU', 'device_id': 1}",
        "CPU 1",
        "{'mode': 1}",
        "{'parallel_mode': 'data_parallel'}",
        f"shmcoll: PyNative mode instead of Graph mode, {because}",
        f"shmcoll: the CPU instead of Ascend, {because}",
        f"shmcoll: the CPU instead of GPU, {because}",
        f"shmcoll: PyNative mode instead of jit, {because}",
        "shmcoll: parallel_mode 'auto_parallel' needs MindSpore's graph compiler, which does not know these "
        "collectives. Use ParallelMode.DATA_PARALLEL, "
        "or cut tensors yourself and call the operators of mindspore.ops in a group",
    ]
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_version_of_mindspore_is_told_once_and_used(shmrun):
    """It has no `set_device` and no `jit`."""
    for name, text in {
        **INSTALLED,
        "device_manager.py": "",
        "graph/api.py": "",
        "__init__.py": "__version__ = '3.0.0'",
    }.items():
        shmrun.write(text, f"mindspore/{name}")
    job = shmrun.write("""
        import mindspore.device_manager, mindspore.graph.api
        from mindspore.communication import get_rank
        print(get_rank())
    """)
    done = shmrun("--mindspore", "-n", 2, job)
    assert (done.returncode, sorted(done.stdout)) == (0, ["\n", "\n", "0", "1"]), done.stderr
    told = [line.partition("UserWarning: ")[2] for line in done.stderr.splitlines() if "UserWarning" in line]
    assert told == [
        "shmcoll: this is MindSpore 3.0.0; if something fails, pip install 'mindspore==2.10.0', which is tested",
        "shmcoll: mindspore.device_manager stays as it is, because it has no 'set_device'",
        "shmcoll: mindspore.graph.api stays as it is, because it has no 'jit'",
    ]


def test_an_installed_package_is_replaced_only_if_that_is_asked_for(shmrun):
    """It is in the program's own directory. MindSpore is never replaced."""
    shmrun.write("print('theirs')", "nki.py")
    shmrun.write("print('theirs'); __version__, jit = '2.10.0', None", "mindspore.py")
    job = shmrun.write("import mindspore, nki; print(hasattr(mindspore, 'ops'), hasattr(nki, 'collectives'))")
    for flags, wanted in (
        (("--worker_num", "1"), "theirs\ntheirs\nFalse False\n"),
        (("-n", "1", "--mindspore"), "theirs\ntheirs\nFalse False\n"),
        (("-n", "1", "--nki"), "theirs\nFalse True\n"),
    ):
        done = shmrun(*flags, job)
        assert (done.returncode, done.stdout, done.stderr) == (0, wanted, ""), flags


def test_an_executable_is_refused(shmrun):
    done = shmrun("-n", 1, "--nki", "true")
    assert done.returncode == 2
    assert done.stderr.startswith("shmrun: --nki is for Python programs, and '")


def test_our_package_in_sys_modules_works_too():
    """The way of a program that puts it there itself: no second copy of classes and state."""
    import shmcoll.nki

    before = dict(sys.modules)
    sys.modules["nki"] = shmcoll.nki
    try:
        import nki.collectives as ncc  # type: ignore[import-not-found]
        import nki.language as nl  # type: ignore[import-not-found]

        assert ncc.ReplicaGroup is shmcoll.nki.collectives.ReplicaGroup
        assert ncc.all_to_all_v is shmcoll.nki.collectives.all_to_all_v
        assert nl.add is shmcoll.nki.language.add
    finally:
        for name in set(sys.modules) - set(before):
            if name.partition(".")[0] == "nki":
                del sys.modules[name]
