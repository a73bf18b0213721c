"""A forked rank cannot be told from a fresh interpreter: the same probe under python, shmrun and shmrun --fresh."""

import json
import subprocess
import sys
import zipfile

import pytest

pytestmark = pytest.mark.slow

PROBE = '''\
"""The probe's docstring."""
import atexit, json, os, pickle, random, signal, sys, threading

class Thing:
    pass

main = sys.modules["__main__"]
told = {
    "argv": sys.argv,
    "orig_argv": sys.orig_argv[1:],
    "path0": sys.path[0],
    "flags": list(sys.flags),
    "globals": sorted(name for name in globals() if name.startswith("__")),
    "doc": __doc__,
    "name": __name__,
    "file": globals().get("__file__"),
    "package": __package__,
    "cached": globals().get("__cached__"),
    "spec": __spec__ and __spec__.name,
    "loader": getattr(__loader__, "__name__", type(__loader__).__name__),
    "builtins": type(__builtins__).__name__,
    "main": main.__dict__ is globals(),
    "class": Thing.__module__,
    "pickle": type(pickle.loads(pickle.dumps(Thing()))) is Thing,
    "signals": {s.name: str(signal.getsignal(s)).partition(" at ")[0] for s in signal.Signals},
    "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "threads": [t.name for t in threading.enumerate()],
    "tasks": len(os.listdir("/proc/self/task")),
    "stdout": [sys.stdout.line_buffering, sys.stdout.encoding, sys.stdout.errors],
    "last": hasattr(sys, "last_value"),
    "cwd": os.getcwd(),
}
json.dump(told, open("told", "w"))
'''


@pytest.fixture
def probe(shmrun):
    def run(*command):
        (shmrun.folder / "told").unlink(missing_ok=True)
        if command[0] == "python":
            subprocess.run(
                [sys.executable, *command[1:]],
                cwd=shmrun.folder,
                check=True,
                input=PROBE if "-" in command else "",
                text=True,
                stdout=subprocess.PIPE,
                env=None,
            )
        else:
            told = shmrun("-n", 1, *command, given=PROBE if "-" in command else "")
            assert (told.returncode, told.stderr) == (0, "")
        return json.loads((shmrun.folder / "told").read_text())

    return run


def in_both_ways(*commands):
    """One command of each kind with `--fresh`; the long forms try all."""
    return pytest.mark.parametrize(
        ("command", "way"),
        [
            pytest.param(
                command,
                way,
                id=" ".join((*way, *command)).replace(PROBE, "CODE"),
                marks=pytest.mark.stress if way and i % 3 else (),
            )
            for i, command in enumerate(commands)
            for way in ((), ("--fresh",))
        ],
    )


@in_both_ways(
    ("probe.py", "a", "--b"),
    ("link/../linked.py", "-n", "3"),
    ("package/", "-n", "3"),
    ("-m", "package.inner", "-m", "x"),
    ("-m", "package"),
    ("package", "a"),
    ("app.zip", "a"),
    ("./app.pyz", "a"),
    ("zipped.py", "a"),
    ("-c", PROBE, "-n", "3", "-c"),
    ("-", "a", "-m"),
)
def test_probe(shmrun, probe, command, way):
    shmrun.write(PROBE, "probe.py")
    shmrun.write(PROBE, "package/inner.py")
    shmrun.write(PROBE, "package/__main__.py")
    (shmrun.folder / "link").symlink_to("package")
    (shmrun.folder / "linked.py").symlink_to("package/inner.py")
    for name in ("app.zip", "app.pyz", "zipped.py"):
        with zipfile.ZipFile(shmrun.folder / name, "w") as file:
            file.writestr("__main__.py", PROBE)
    assert probe(*way, *command) == probe("python", *command)


@pytest.mark.parametrize("way", [(), pytest.param(("--fresh",), marks=pytest.mark.stress)], ids=["fork", "fresh"])
class TestTheEnd:
    """A program ends as it would under python: threads are joined, then atexit handlers run, then output is flushed."""

    def test_order(self, shmrun, way):
        script = shmrun.write("""
            import atexit, threading
            atexit.register(print, "at exit")
            go = threading.Event()
            def late():
                go.wait()
                print("thread")
            threading.Thread(target=late).start()
            print("end of script", end="; ")
            threading.Timer(0.01, go.set).start()
        """)
        told = shmrun("-n", 1, *way, script)
        assert (told.stdout, told.stderr, told.returncode) == ("end of script; thread\nat exit\n", "", 0)

    @pytest.mark.parametrize(
        ("ending", "code", "words"),
        [
            ("sys.exit(7)", 7, "shmrun: rank 0 failed first, with exit code 7\n"),
            ("sys.exit('no luck')", 1, "shmrun: rank 0 failed first, with exit code 1:\nno luck\n"),
            ("os._exit(9)", 9, "shmrun: rank 0 failed first, with exit code 9\n"),
            ("os.kill(os.getpid(), 15)", 143, "shmrun: rank 0 was killed by signal 15 (SIGTERM)\n"),
        ],
    )
    def test_exit(self, shmrun, way, ending, code, words):
        told = shmrun("-n", 1, *way, shmrun.write(f"import os, sys\n{ending}\n"))
        assert (told.returncode, told.stderr, told.stdout) == (code, words, "")

    def test_exception(self, shmrun, way):
        script = shmrun.write("""
            import atexit, sys
            def work():
                raise ValueError("bad\\nthing")
            atexit.register(lambda: print(type(sys.last_value).__name__, sys.last_traceback.tb_frame.f_code.co_name))
            work()
        """)
        told = shmrun("-n", 1, *way, script)
        plain = subprocess.run([sys.executable, script], cwd=shmrun.folder, capture_output=True, text=True, check=False)
        assert told.returncode == plain.returncode == 1
        assert told.stderr == "shmrun: rank 0 failed first, with exit code 1:\n" + plain.stderr
        assert told.stdout == plain.stdout == "ValueError <module>\n"

    def test_exception_in_a_module(self, shmrun, way):
        shmrun.write("import os\nprint(undefined)\n", "module.py")
        told = shmrun("-n", 1, *way, "-m", "module")
        assert told.returncode == 1
        assert told.stderr.splitlines()[1:3] == [
            "Traceback (most recent call last):",
            f'  File "{shmrun.folder}/module.py", line 2, in <module>',
        ]
        assert told.stderr.splitlines()[-1] == "NameError: name 'undefined' is not defined"

    def test_syntax_error(self, shmrun, way):
        told = shmrun("-n", 1, *way, shmrun.write("x = = 1\n"))
        assert told.returncode == 1
        assert told.stderr.splitlines()[1] == f'  File "{shmrun.folder}/job.py", line 1'
        assert told.stderr.splitlines()[-1] == "SyntaxError: invalid syntax"

    def test_a_hook_of_the_program_wins(self, shmrun, way):
        script = shmrun.write("""
            import sys
            sys.excepthook = lambda kind, error, trace: print("mine:", error, trace.tb_frame.f_code.co_name)
            raise ValueError("bad")
        """)
        told = shmrun("-n", 1, *way, script)
        assert told.stdout == "mine: bad <module>\n"
        assert (told.returncode, told.stderr) == (1, "shmrun: rank 0 failed first, with exit code 1\n")

    def test_a_broken_hook(self, shmrun, way):
        told = shmrun("-n", 1, *way, shmrun.write("import sys\nsys.excepthook = None\nraise ValueError('bad')\n"))
        assert told.returncode == 1
        assert "Error in sys.excepthook" in told.stderr
        assert "ValueError: bad" in told.stderr

    def test_an_exception_in_a_fork_of_the_rank_is_its_own(self, shmrun, way):
        script = shmrun.write("""
            import os
            if os.fork() == 0:
                raise ValueError("in the child")
            os.wait()
        """)
        told = shmrun("-n", 1, *way, script)
        assert told.returncode == 0
        assert told.stderr.endswith("ValueError: in the child\n")
        assert "shmrun:" not in told.stderr

    def test_a_closed_report_pipe(self, shmrun, way):
        """A program that closes what it does not know, and opens files in its place, loses nothing."""
        script = shmrun.write("""
            import os
            os.closerange(3, 100)
            files = [open(f"file{i}", "w") for i in range(20)]
            raise ValueError("bad")
        """)
        told = shmrun("-n", 1, *way, script)
        assert told.returncode == 1
        assert "ValueError: bad\n" in told.stderr
        assert {path.read_text() for path in shmrun.folder.glob("file*")} == {""}

    def test_a_long_traceback_is_cut(self, shmrun, way):
        told = shmrun("-n", 1, *way, shmrun.write("raise ValueError('first' + 'é' * 300_000 + 'last')\n"))
        assert "ValueError: first" in told.stderr
        assert "characters left out" in told.stderr
        assert told.stderr.endswith("last\n")
        assert len(told.stderr) < 40_000

    def test_interrupt_from_within(self, shmrun, way):
        told = shmrun(
            "-n", 1, *way, shmrun.write("import atexit\natexit.register(print, 'end')\nraise KeyboardInterrupt\n")
        )
        assert (told.returncode, told.stdout) == (130, "end\n")
        assert told.stderr.endswith("\nKeyboardInterrupt\n")


def test_random_numbers_differ_between_ranks(shmrun):
    script = shmrun.write("""
        import os, random, numpy
        os.write(1, f"{random.random()} {numpy.random.random()} {numpy.random.default_rng().random()}\\n".encode())
    """)
    told = shmrun("-n", 4, script)
    assert len(set(told.stdout.split())) == 12


def test_pickles_of_the_script_travel_to_processes_that_it_starts(shmrun):
    script = shmrun.write("""
        import multiprocessing as mp
        def double(x):
            return 2 * x
        if __name__ == "__main__":
            with mp.get_context("spawn").Pool(1) as pool:
                print(pool.map(double, [1, 2]))
    """)
    told = shmrun("-n", 1, script)
    assert (told.stdout, told.stderr, told.returncode) == ("[2, 4]\n", "", 0)


def test_ranks_are_forks_of_one_process_that_has_loaded_numpy(shmrun):
    script = shmrun.write("import sys, os; os.write(1, f\"{'numpy' in sys.modules} {os.getppid()}\\n\".encode())")
    lines = shmrun("-n", 3, script).stdout.splitlines()
    assert len(lines) == 3
    assert len(set(lines)) == 1
    assert lines[0].startswith("True")
    assert shmrun("-n", 1, "--fresh", script).stdout.startswith("False")
