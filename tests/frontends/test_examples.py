"""The scripts in examples/ run under the launcher and print what the documents print."""

import subprocess
import sys
from pathlib import Path

from tests.support.patience import PATIENCE

EXAMPLES = Path(__file__).parents[2] / "examples"

GATHERED = """\
[Tensor(shape=[2, 2], dtype=Float32, value=
[[ 0.00000000e+00,  1.00000000e+00],
 [ 2.00000000e+00,  3.00000000e+00]]), Tensor(shape=[2, 2], dtype=Float32, value=
[[ 0.00000000e+00,  1.00000000e+00],
 [ 2.00000000e+00,  3.00000000e+00]])]"""

UNTOUCHED = """\
[Tensor(shape=[2, 2], dtype=Float32, value=
[[ 0.00000000e+00,  0.00000000e+00],
 [ 0.00000000e+00,  0.00000000e+00]]), Tensor(shape=[2, 2], dtype=Float32, value=
[[ 0.00000000e+00,  0.00000000e+00],
 [ 0.00000000e+00,  0.00000000e+00]])]"""


def printed(name: str, n: int) -> list[str]:
    """What each rank of the example printed."""
    command = [sys.executable, "-m", "shmrun", "-l", "-n", str(n), str(EXAMPLES / name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    return ["\n".join(line[4:] for line in lines if line.startswith(f"[{rank}] ")) for rank in range(n)]


def test_alltoall():
    assert printed("alltoall.py", 8) == ["[[[[0. 1. 2. 3. 4. 5. 6. 7.]]]]"] * 8


def test_allreduce():
    assert printed("allreduce.py", 2) == ["[[2. 2. 2. 2. 2. 2. 2. 2.]\n [2. 2. 2. 2. 2. 2. 2. 2.]]"] * 2


def test_gather():
    assert printed("gather.py", 2) == [GATHERED, UNTOUCHED]


def test_parallel_layers():
    assert printed("parallel_layers.py", 4) == ["tensor parallel: True\nexpert parallel: True"] * 4


def test_all_to_all_v():
    assert printed("all_to_all_v.py", 4) == [
        "rank 0 sent [3 2 2 1], received [3 1 3 3]: 000 001 002 | 100 ... ... | 200 201 202 | 300 301 302",
        "rank 1 sent [1 2 3 3], received [2 2 1 0]: 010 011 ... | 110 111 ... | 210 ... ... | ... ... ...",
        "rank 2 sent [3 1 0 1], received [2 3 0 0]: 020 021 ... | 120 121 122 | ... ... ... | ... ... ...",
        "rank 3 sent [3 0 0 0], received [1 3 1 0]: 030 ... ... | 130 131 132 | 230 ... ... | ... ... ...",
    ]
