"""A program: runs mpi4py's own tests, unchanged, on the library of MPI that shmcoll is, and prints a table.

    python tests/mpi/suite.py FOLDER [-n RANKS] [FILE...]

FOLDER has the files of `test` in mpi4py's source archive. Each file runs in a job of its own. The last lines say what
failed that the list `KNOWN` does not explain; then the exit code is 1.
"""

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LIMIT = 600.0  # seconds for a file

#: tests that fail, or files that are left out, and why
KNOWN = {
    "test_spawn": "starts processes by MPI_Comm_spawn",
    "test_util_pool": "starts processes by MPI_Comm_spawn",
    "test_dynproc.TestDPM.testAcceptConnect": "connects jobs by ports",
    "test_dynproc.TestDPM.testConnectAccept": "connects jobs by ports",
    "test_dynproc.TestDPM.testJoin": "connects jobs by ports",
    "test_dynproc.TestDPM.testNamePublishing": "publishes a name",
    "test_ulfm.TestULFMWorld.testIAgree": "rank 0 calls Iallreduce and Barrier in another order than the others",
}


class Result(NamedTuple):
    """What a file has given."""

    name: str
    tests: int
    skipped: int
    failed: list[str]
    seconds: float


def run(folder: Path, name: str, ranks: int) -> Result:
    """Run one file."""
    shmrun = Path(sys.executable).with_name("shmrun")
    command = [shmrun, "-n", str(ranks), "--mpi", "main.py", "-v", "-i", rf"{name}(\.py)?$"]
    begun = time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, check=False
        )
        said, code = done.stdout + done.stderr, done.returncode
    except subprocess.TimeoutExpired as late:
        said, code = str(late.stdout), 124
    counts = [int(number) for number in re.findall(r"Ran (\d+) tests?", said)]
    skips = [int(number) for number in re.findall(r"skipped=(\d+)", said)]
    failed = sorted(set(re.findall(r"^(?:FAIL|ERROR): \w+ \(([\w.]+)", said, re.M)))
    if not counts or (code and not failed):
        failed.append(f"{name}: ended with {code}: {said.strip().splitlines()[-1:]}")
    return Result(name, max(counts, default=0), max(skips, default=0), failed, time.monotonic() - begun)


def files(folder: Path, wanted: list[str]) -> Iterator[str]:
    """Yield the names of the files to run."""
    for path in sorted(folder.glob("test_*.py")):
        if path.stem not in KNOWN and (not wanted or path.stem in wanted):
            yield path.stem


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-n", type=int, default=2, dest="ranks")
    parser.add_argument("files", nargs="*")
    options = parser.parse_intermixed_args()
    results = []
    for name in files(options.folder, options.files):
        results.append(run(options.folder, name, options.ranks))
        one = results[-1]
        counts = f"{one.tests:5} tests {one.skipped:4} skipped {len(one.failed):4} failed {one.seconds:6.1f} s"
        print(f"{one.name:24} {counts}", flush=True)
        for test in one.failed:
            print(f"    {test}: {KNOWN.get(test, 'not explained')}", flush=True)
    failed = [test for one in results for test in one.failed]
    tests, skipped = sum(one.tests for one in results), sum(one.skipped for one in results)
    print(f"{options.ranks} ranks: {tests} tests, {skipped} skipped, {len(failed)} failed")
    return any(test not in KNOWN for test in failed)


if __name__ == "__main__":
    sys.exit(main())
