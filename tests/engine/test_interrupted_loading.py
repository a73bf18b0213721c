"""Ctrl-C while native code is loaded or compiled for the first call: raised soon, nothing is broken, the call repeats.

Each instant is tried in a process of its own, forked from one that has loaded nothing yet. Without deferral 29 of 119
instants in llvmlite's `executionengine.py` end the process by SIGSEGV or SIGABRT, one after the other, and an interrupt
after 0.2, 0.5 or 0.9 s of the import of numba makes the next compilation fail.
"""

import collections
import os
import random
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

#: runs `attempt(instant)` in a fork for each instant of the command line, and prints how each ended
FORKS = """
    import collections, ctypes, os, signal, sys, threading, time
    sys.path.insert(0, sys.argv[1])
    import numpy as np
    import shmcoll
    from shmcoll.collectives import RECORDS
    from shmcoll.engine.kernels.dtypes import BY_NAME
    from shmcoll.engine.compiler import compile as code
    from tests.support.instants import interrupted_at

    def in_forks(attempt, instants):
        for instant in instants:
            read, write = os.pipe()
            if (pid := os.fork()) == 0:
                os.close(read)
                signal.alarm(100)  # a lock that nobody releases
                os.write(write, repr(attempt(instant)).encode())
                sys.exit(0)
            os.close(write)
            with open(read) as answer:
                text = answer.read()
            print(instant, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text, flush=True)
"""

LOADING = (
    FORKS
    + """
    data = code.object_file("scan", lambda: b"", None)

    def load(k):
        place = code._place if sys.argv[2] == "object_loader.py" else code._place_by_llvm
        work = lambda: place(data, ("scan_fast", "scan_plain"))
        return interrupted_at(k, work, lambda file: sys.argv[2] in file)

    def attempt(k):
        if k == 0:
            return load(0)
        told = ""
        try:
            load(k)
        except KeyboardInterrupt:
            told = "interrupted, "
        for name in ("scan", "gather", "reduce"):
            code.load_routine(RECORDS[name])
        comm = shmcoll.init()
        assert comm.scan(np.arange(3)).tolist() == [0, 1, 2]
        return told + "then right"

    in_forks(attempt, [int(k) for k in sys.argv[3:]])
    """
)

# SIGINT is taken by another thread, which only sets a flag: the handler runs in the main thread all the same.
COMPILING = (
    FORKS
    + """
    def load():
        address = code.load_kernel(BY_NAME["int32"], "sum")
        kernel = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 6)(address)
        a, b, out = np.full(5, 2, np.int32), np.full(5, 3, np.int32), np.zeros(5, np.int32)
        kernel(2, out.ctypes.data, a.ctypes.data, b.ctypes.data, 5, 2)
        return out.tolist()

    def attempt(instants):
        over, interrupted, within = threading.Event(), 0, False
        def handler(*_):  # outside of `within` an interrupt would hit this script and not what it tests
            nonlocal interrupted, within
            if within:
                interrupted, within = interrupted + 1, False
                raise KeyboardInterrupt
        def interrupt():
            for earlier, later in zip([0, *instants], instants):
                if not over.wait(later - earlier):
                    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        signal.signal(signal.SIGINT, handler)
        thread = threading.Thread(target=interrupt)
        thread.start()
        while not code._loaded:
            try:
                within = True
                code.load_kernel(BY_NAME["int32"], "sum")
                within = False
            except KeyboardInterrupt:
                pass
        over.set()
        thread.join()
        os.environ["SHMCOLL_CACHE_DIR"] += "-other"  # so that it is compiled again
        code._loaded.clear()
        assert load() == [5] * 5
        return interrupted

    in_forks(attempt, [[float(t) for t in word.split(",")] for word in sys.argv[2:]])
    """
)


def run(script: str, *arguments: object, **environment: str) -> list[tuple[int, str]]:
    """The exit code and the answer of each attempt."""
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(ROOT), *map(str, arguments)],
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    ends = []
    for line in process.stdout.splitlines():
        _, _, rest = line.rpartition("]") if line.startswith("[") else line.partition(" ")
        code, _, answer = rest.strip().partition(" ")
        ends.append((int(code), answer))
    return ends


def count_instants(file: str) -> int:
    ((status, total),) = run(LOADING, file, 0)
    assert status == 0
    return int(total)


def load_at(file: str, instants: Sequence[int]) -> None:
    ends = collections.Counter(run(LOADING, file, *instants))
    print(f"{len(instants)} instants of loading: {dict(ends)}")
    assert ends == {(0, "'interrupted, then right'"): len(instants)}


def compile_instants(count: int, seed: int, folder: Path) -> None:
    rng = random.Random(seed)
    bursts = [sorted(rng.uniform(0, 2.5) for _ in range(rng.choice((1, 5)))) for _ in range(count)]
    for number, burst in enumerate(bursts):
        cache = folder / str(number)
        ((status, answer),) = run(COMPILING, ",".join(map(str, burst)), SHMCOLL_CACHE_DIR=str(cache))
        assert status == 0, (seed, burst)
        assert 0 <= int(answer) <= len(burst)


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """What is loaded here has been compiled before."""
    names = ("scan", "gather", "reduce")
    script = "import shmcoll.engine.compiler.compile as c; from shmcoll.collectives import RECORDS\n"
    script += f"for name in {names}: c.load_routine(RECORDS[name])\n"
    script += "import numpy as np, shmcoll; shmcoll.init().scan(np.arange(3))"
    subprocess.run([sys.executable, "-c", script], check=True, stderr=subprocess.DEVNULL)


@pytest.mark.parametrize("file", ["object_loader.py", "executionengine.py"])
def test_one_interrupt_while_native_code_is_loaded(seed, file):
    total = count_instants(file)
    assert total > 100
    step = total // 12
    load_at(file, range(1 + seed % step, total, step))


def test_interrupts_while_numba_is_imported_and_compiles(seed, tmp_path):
    compile_instants(1, seed, tmp_path)


@pytest.mark.stress
def test_one_interrupt_at_many_instants_of_loading(seed):
    total = count_instants("llvmlite")
    load_at("llvmlite", sorted(random.Random(seed).sample(range(1, total), min(2000, total - 1))))


@pytest.mark.stress
def test_many_interrupts_while_numba_is_imported_and_compiles(seed, tmp_path):
    compile_instants(60, seed, tmp_path)


def test_an_interrupt_while_another_process_compiles_is_raised_at_once(tmp_path):
    """Not when that has ended: it may be stopped, and then the wait takes a minute."""
    script = """
        import fcntl, os, signal, sys, threading, time
        from shmcoll.engine.kernels.dtypes import BY_NAME
        from shmcoll.engine.compiler import object_cache, compile as code
        folder = object_cache.cache_folder()
        lock = open(folder / f"sum_int32-{object_cache._fingerprint('sum_int32')}.lock", "w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        begin = time.monotonic()
        try:
            code.load_kernel(BY_NAME["int32"], "sum")
        except KeyboardInterrupt:
            print(time.monotonic() - begin < 20)
    """
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=os.environ | {"SHMCOLL_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.stdout, told.stderr) == ("True\n", "")
