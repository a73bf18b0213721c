"""The ways in which a program of mpi4py gets this library, and what is said where it cannot."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.launched import Shmrun

pytest.importorskip("mpi4py")

SUM = "from mpi4py import MPI; print(MPI.COMM_WORLD.allreduce(1), MPI.Get_library_version())"
PYTHON = sys.executable


def python(shmrun: Shmrun, *arguments: str, **variables: str) -> tuple[int, str, str]:
    done = shmrun.finish(shmrun.start_process([PYTHON, *arguments], {**os.environ, **variables}))
    return done.returncode, done.stdout, done.stderr


def printed(text: str) -> list[str]:
    return [line.partition(" ")[0] for line in text.splitlines() if " shmcoll " in line]


def test_shmrun_and_both_of_its_flags(shmrun: Shmrun) -> None:
    script = shmrun.write(SUM)
    for words in (["--mpi", script], ["--fresh", "--mpi4py", "-c", SUM]):
        done = shmrun("-n", 2, *words)
        assert (done.returncode, printed(done.stdout)) == (0, ["2", "2"]), done


def test_a_program_that_starts_python_later(shmrun: Shmrun) -> None:
    """Such as a shell, or a script of pip's: this process cannot import shmcoll.mpi there."""
    script = shmrun.write(SUM)
    done = shmrun("-n", 2, "--mpi", "sh", "-c", f"{PYTHON} {script}")
    assert (done.returncode, printed(done.stdout)) == (0, ["2", "2"]), done


def test_one_process_that_imports_it_first(shmrun: Shmrun) -> None:
    code, out, err = python(shmrun, "-c", f"import shmcoll.mpi; {SUM}")
    assert (code, printed(out)) == (0, ["1"]), err


def test_one_process_that_imports_it_late_is_told(shmrun: Shmrun) -> None:
    late = "import sys, types; sys.modules['mpi4py.MPI'] = types.ModuleType('MPI'); import shmcoll.mpi"
    code, _, err = python(shmrun, "-c", late)
    assert code == 1 and "import shmcoll.mpi before" in err.splitlines()[-1]


@pytest.mark.slow
def test_settings_of_mpi4py(shmrun: Shmrun) -> None:
    script = shmrun.write(
        """
        import mpi4py
        mpi4py.rc.initialize = mpi4py.rc.finalize = False
        from mpi4py import MPI
        assert not MPI.Is_initialized()
        assert MPI.Init_thread(MPI.THREAD_SERIALIZED) == MPI.THREAD_MULTIPLE
        assert MPI.Is_initialized() and MPI.Is_thread_main() and not MPI.Is_finalized()
        print(MPI.COMM_WORLD.allreduce(1), MPI.Get_library_version(), flush=True)
        MPI.Finalize()
        assert MPI.Is_finalized()
        """
    )
    done = shmrun("-n", 2, "--mpi", script)
    assert (done.returncode, printed(done.stdout)) == (0, ["2", "2"]), done
    for setting in ("threads", "initialize", "finalize", "fast_reduce", "recv_mprobe"):
        text = f"import mpi4py; mpi4py.rc({setting}=False)\nfrom mpi4py import MPI\n" + (
            "MPI.Init()\n" if setting == "initialize" else ""
        )
        done = shmrun("-n", 2, "--mpi", shmrun.write(text + SUM))
        assert (done.returncode, printed(done.stdout)) == (0, ["2", "2"]), (setting, done)


@pytest.mark.slow
def test_modules_of_mpi4py_and_of_tests(shmrun: Shmrun) -> None:
    done = shmrun("-n", 2, "--mpi", "-m", "mpi4py.bench", "helloworld")
    assert done.returncode == 0 and "process 1 of 2" in done.stdout, done
    done = shmrun("-n", 2, "--mpi", "-m", "mpi4py", "--mpi-library")
    assert done.returncode == 0 and "shmcoll" in done.stdout, done
    test = shmrun.write(
        "from mpi4py import MPI\ndef test_sum():\n    assert MPI.COMM_WORLD.allreduce(1) == 2\n", "test_it.py"
    )
    for pytest_itself in (["-m", "pytest"], [str(Path(PYTHON).with_name("pytest"))]):
        done = shmrun("-n", 2, "--mpi", *pytest_itself, "-q", "-p", "no:cacheprovider", test)
        assert done.returncode == 0 and done.stdout.count("1 passed") == 2, done


@pytest.mark.slow
def test_functions_that_shmcoll_runs_on_ranks(shmrun: Shmrun) -> None:
    script = shmrun.write(
        """
        import shmcoll

        def total(x):
            from mpi4py import MPI
            return MPI.COMM_WORLD.allreduce(x), MPI.COMM_WORLD.size

        if __name__ == "__main__":
            import shmcoll.mpi
            from mpi4py import MPI
            assert MPI.COMM_WORLD.size == 1  # of this process, and not of those that it starts
            print(shmcoll.run(total, 2, 3))
            with shmcoll.ranks(2) as ranks:
                print(ranks.run(total, 4), ranks.run(total, 5))
        """
    )
    code, out, err = python(shmrun, script)
    assert code == 0, err
    assert out.splitlines() == ["[(6, 2), (6, 2)]", "[(8, 2), (8, 2)] [(10, 2), (10, 2)]"]


def test_what_is_missing_is_said_in_a_line(shmrun: Shmrun) -> None:
    hide = "import sys; sys.modules['mpi4py'] = None; from shmrun.__main__ import main; sys.exit(main())"
    code, out, err = python(shmrun, "-c", hide, "-n", "2", "--mpi", "-c", SUM)
    assert (code, out) == (1, "")
    assert err == "shmrun: mpi4py is not installed; install it: pip install 'shmcoll[mpi4py]'\n"
    other = shmrun.folder / "mpi4py"
    other.mkdir()
    (other / "__init__.py").touch()
    (other / "MPI.cpython-311-x86_64-linux-gnu.so").write_bytes(b"libmpi.so.40\0")
    code, out, err = python(shmrun, "-m", "shmrun", "-n", "2", "--mpi", "-c", SUM, PYTHONPATH=str(shmrun.folder))
    assert (code, out) == (1, "") and err.count("\n") == 1
    assert "built for another MPI than the MPICH family" in err and "pip uninstall mpi4py" in err


INTERRUPTED = """
    import os, signal, threading
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    comm.Barrier()
    if comm.rank == 1:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            comm.Recv(bytearray(8), source=0)
        finally:
            print("cleaned up", flush=True)
    comm.Barrier()
"""


@pytest.mark.slow
def test_ctrl_c_in_a_call_ends_the_program(shmrun: Shmrun) -> None:
    """An exception cannot pass through C; it comes when the call has returned."""
    done = shmrun("-n", 2, "--mpi", shmrun.write(INTERRUPTED))
    assert done.returncode == 130 and done.stdout == "cleaned up\n", done
    assert "KeyboardInterrupt" in done.stderr and "Exception ignored" not in done.stderr


def test_an_mpi4py_that_wants_more_is_told_what_is_missing(shmrun: Shmrun) -> None:
    import mpi4py

    module = next(Path(mpi4py.__file__).parent.glob("MPI.mpich.*.so"))
    other = shmrun.folder / "mpi4py"
    other.mkdir()
    (other / "__init__.py").touch()
    (other / module.name).write_bytes(module.read_bytes().replace(b"\0MPI_Barrier\0", b"\0MPI_Novelty\0"))
    code, out, err = python(shmrun, "-m", "shmrun", "-n", "2", "--mpi", "-c", SUM, PYTHONPATH=str(shmrun.folder))
    assert (code, out) == (1, "") and err.count("\n") == 1
    assert "does not have, such as MPI_Novelty; upgrade shmcoll" in err
