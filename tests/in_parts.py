"""Run the tests in three processes side by side, because many tests wait more than they compute.

    python tests/in_parts.py [options of pytest]

The output of the first part is shown as it comes, dot by dot, the output of the others when all have ended. Failures of
each part are repeated last. A folder that PARTS does not name belongs to the last part.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: The first start many ranks, kill them, and wait for limits to pass; the second compute.
PARTS = (("conformance", "crash", "launcher", "rendezvous", "long_runs"), ("bench", "schedule", "seeded_bugs"))
NOT_TESTS = ("aarch64", "support")
NOTHING_COLLECTED = 5


def main(options: list[str]) -> int:
    first, *others = [command(folders, options) for folders in parts()]
    running: list[tuple[subprocess.Popen[bytes], str]] = []
    with tempfile.TemporaryDirectory() as kept:
        try:
            for number, one in enumerate(others):
                output = f"{kept}/{number}"
                with open(output, "wb") as file:
                    running.append((subprocess.Popen(one, stdout=file, stderr=subprocess.STDOUT, cwd=ROOT), output))
            with subprocess.Popen(first, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT) as shown:
                ended = [(shown_as_it_comes(shown), shown)]
            for process, output in running:
                process.wait()
                ended.append((Path(output).read_text(errors="replace"), process))
                print(ended[-1][0], end="", flush=True)
        finally:
            for process, _ in running:
                if process.poll() is None:
                    process.terminate()
                    process.wait()
    failed = [(output, part.returncode) for output, part in ended if part.returncode not in (0, NOTHING_COLLECTED)]
    for output, status in failed:
        lines = failures(output.splitlines(keepends=True))
        print(f"\n== a part ended with {status}; its failures:\n{lines}", flush=True)
    return 1 if failed else 0


def parts() -> list[tuple[str, ...]]:
    """The folders of each part."""
    named = {*NOT_TESTS, *(name for part in PARTS for name in part)}
    folders = sorted(path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.glob("test_*.py")))
    return [*PARTS, tuple(name for name in folders if name not in named)]


def shown_as_it_comes(process: "subprocess.Popen[bytes]") -> str:
    """Print what a process prints, at once: a line of dots takes minutes. Return all of it."""
    assert process.stdout
    output = bytearray()
    while chunk := os.read(process.stdout.fileno(), 1 << 16):
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        output += chunk
    return output.decode(errors="replace")


def command(folders: tuple[str, ...], options: list[str]) -> list[str]:
    return [sys.executable, "-m", "pytest", *(f"tests/{name}" for name in folders), *options]


def failures(lines: list[str]) -> str:
    """From the first failure on; without one, the end of the output."""
    begin = next(
        (i for i, line in enumerate(lines) if line.startswith("===") and ("FAILURES" in line or "ERRORS" in line)), -40
    )
    return "".join(lines[begin:][:400])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
