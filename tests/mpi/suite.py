"""A program: runs mpi4py's own tests, unchanged, on the library of MPI that shmcoll is, and prints a table.

    python tests/mpi/suite.py FOLDER [-n RANKS] [--jobs N] [--mpiexec MPIEXEC] [--json FILE] [--without FILE] [FILE...]

FOLDER has the files of `test` in mpi4py's source archive. The last lines say what failed that `KNOWN` does not explain;
then the exit code is 1.

Each file runs in a job of its own, or, with --jobs, all in N jobs side by side. The files of such a job that does not
end as it should run again, each by itself. --mpiexec runs them over MPICH, and `MPI4PY_LIBMPI` says where it is. --json
writes what each test that did not pass has said, so that two MPIs can be compared.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

LIMIT = 600.0  # seconds for a file, and half of those for several

#: tests that fail, or files that are left out, and why
KNOWN = {
    "test_ulfm.TestULFMWorld.testIAgree": "rank 0 calls Iallreduce and Barrier in another order than the others",
}

_TEST = re.compile(r"^\w+ \(((?:unittest\.loader\.ModuleSkipped\.)?test_\w+[\w.]*)\)(?:\n.*)? \.\.\. ", re.M)
_SKIPPED = re.compile(_TEST.pattern + r"skipped ['\"](.*)['\"]$", re.M)
_FAILED = re.compile(r"^(?:FAIL|ERROR): \w+ \(([\w.]+)\)", re.M)


class Result(NamedTuple):
    """What a job has given. tests: how many each file has. ended: how it did, if not as it should."""

    files: list[str]
    tests: Counter[str]
    skipped: dict[str, str]
    failed: list[str]
    seconds: float
    ended: str

    @property
    def rows(self) -> Iterator[str]:
        """Yield lines of the table."""
        for file in self.files:
            skipped, failed = (
                sum(name.startswith(file + ".") for name in some) for some in (self.skipped, self.failed)
            )
            yield f"{file:24} {self.tests[file]:5} tests {skipped:4} skipped {failed:4} failed"
        for test in self.failed:
            yield f"    {test}: {KNOWN.get(test, 'not explained')}"
        yield f"{'':24} {self.seconds:6.1f} s {self.ended}"


def run(folder: Path, files: list[str], ranks: int, mpiexec: str) -> Result:
    """Run files in a job."""
    program = ["main.py", "-v", *(word for name in files for word in ("-i", rf"^{name}\.py$"))]
    limit = LIMIT if len(files) == 1 else 2 * LIMIT
    with tempfile.TemporaryDirectory() as logs:
        if mpiexec:
            pattern = f"{logs}/rank.%r.log"
            options = ["-outfile-pattern", pattern + ".out", "-errfile-pattern", pattern, sys.executable]
            command = [mpiexec, "-n", str(ranks), *options, *program]
        else:
            shmrun = str(Path(sys.executable).with_name("shmrun"))
            command = [shmrun, "-n", str(ranks), "--mpi", "--log-dir", logs, *program]
        begun = time.monotonic()
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=limit,
                check=False,
            )
            said, code = done.stdout + done.stderr, done.returncode
        except subprocess.TimeoutExpired:
            said, code = f"nothing after {limit} s", 124
        told = [path.read_text(errors="replace") for path in sorted(Path(logs).glob("rank.*.log"))]
    failed = sorted({name for text in told for name in _FAILED.findall(text)})
    names = Counter(_module(name) for text in told[:1] for name in _TEST.findall(text))
    skipped = {name: why for text in told for name, why in _SKIPPED.findall(text)}
    all_ended = len(told) == ranks and all(re.search(r"^Ran \d+ tests? in", text, re.M) for text in told)
    ended = (
        "" if all_ended and (failed or not code) else f"ended with {code}: {(said + told[0] if told else said)[-800:]}"
    )
    return Result(files, names, skipped, failed, time.monotonic() - begun, ended)


def _module(name: str) -> str:
    return name.removeprefix("unittest.loader.ModuleSkipped.").split(".")[0]


def results(folder: Path, files: list[str], options: argparse.Namespace) -> Iterator[Result]:
    """Run all files; yield what each job has given that has ended."""
    number = min(options.jobs, len(files)) or len(files)
    jobs = [files[i::number] for i in range(number)]
    with ThreadPoolExecutor(max(options.jobs, 1)) as pool:
        for one in pool.map(lambda job: run(folder, job, options.ranks, options.mpiexec), jobs):
            if one.ended and len(one.files) > 1:
                print(f"a job of {len(one.files)} files {one.ended}: they run again, each by itself", flush=True)
                yield from (run(folder, [file], options.ranks, options.mpiexec) for file in one.files)
            else:
                yield one


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-n", type=int, default=2, dest="ranks")
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--mpiexec", default="")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("files", nargs="*")
    options = parser.parse_intermixed_args()
    there = [path.stem for path in sorted(options.folder.glob("test_*.py"))]
    wanted = options.files or [name for name in there if name not in KNOWN and name not in options.without]
    files = [name for name in there if name in wanted]
    found = []
    for one in results(options.folder, files, options):
        found.append(one)
        print(*one.rows, sep="\n", flush=True)
    failed = [test for one in found for test in [*one.failed, *([f"{one.files}"] if one.ended else [])]]
    skipped = {test: why for one in found for test, why in one.skipped.items()}
    tests = sum(sum(one.tests.values()) for one in found)
    print(f"{options.ranks} ranks: {tests} tests, {len(skipped)} skipped, {len(failed)} failed")
    if options.json:
        options.json.write_text(json.dumps({"tests": tests, "skipped": skipped, "failed": failed}, indent=1))
    return not tests or any(test not in KNOWN for test in failed)


if __name__ == "__main__":
    sys.exit(main())
