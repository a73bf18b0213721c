"""Run the tests in two processes side by side, because tests of one half wait more than they compute.

    python tests/in_halves.py [options of pytest]

The output of the first half is shown as it comes, dot by dot, the output of the second half when both have ended.
Failures of either half are repeated last. A folder that FIRST does not name belongs to the second half.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: These start many ranks, kill them, and wait for limits to pass.
FIRST = ("conformance", "crash", "launcher", "rendezvous", "long_runs")
NOT_TESTS = ("aarch64", "support")
NOTHING_COLLECTED = 5


def main(options: list[str]) -> int:
    folders = sorted(path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.glob("test_*.py")))
    second = [name for name in folders if name not in (*FIRST, *NOT_TESTS)]
    with tempfile.TemporaryFile("w+") as kept:
        beside = subprocess.Popen(command(second, options), stdout=kept, stderr=subprocess.STDOUT, cwd=ROOT)
        try:
            with subprocess.Popen(
                command(FIRST, options), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT
            ) as shown:
                first = shown_as_it_comes(shown).splitlines(keepends=True)
            beside.wait()
        finally:
            if beside.poll() is None:
                beside.terminate()
                beside.wait()
        kept.seek(0)
        others = kept.readlines()
    print("".join(others), end="", flush=True)
    if all(status in (0, NOTHING_COLLECTED) for status in (shown.returncode, beside.returncode)):
        return 0
    for status, lines in ((shown.returncode, first), (beside.returncode, others)):
        if status not in (0, NOTHING_COLLECTED):
            print(f"\n== a half ended with {status}; its failures:\n{failures(lines)}", flush=True)
    return 1


def shown_as_it_comes(process: "subprocess.Popen[bytes]") -> str:
    """Print what a process prints, at once: a line of dots takes minutes. Return all of it."""
    assert process.stdout
    output = bytearray()
    while chunk := os.read(process.stdout.fileno(), 1 << 16):
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        output += chunk
    return output.decode(errors="replace")


def command(folders: list[str] | tuple[str, ...], options: list[str]) -> list[str]:
    return [sys.executable, "-m", "pytest", *(f"tests/{name}" for name in folders), *options]


def failures(lines: list[str]) -> str:
    """From the first failure on; without one, the end of the output."""
    begin = next(
        (i for i, line in enumerate(lines) if line.startswith("===") and ("FAILURES" in line or "ERRORS" in line)), -40
    )
    return "".join(lines[begin:][:400])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
