"""The examples of the documents that shmcoll began with, word by word, under every launcher.

They import `mindspore`: `shmrun --mindspore` gives them our package, and under other launchers a line before the
example does. all_to_all_v has no example in its document; the one here is ours, with the names of `nki`.

SHMCOLL_LAUNCHERS    folder with one environment per launcher (.launchers)
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.frontends.test_examples import GATHERED, UNTOUCHED
from tests.support.patience import PATIENCE

ROOT = Path(__file__).parents[2]
LAUNCHERS = Path(os.environ.get("SHMCOLL_LAUNCHERS") or ROOT / ".launchers")

ALL_TO_ALL = """
>>> # This example should be run with 8 devices. Refer to the tutorial > Distributed Training on mindspore.cn
>>> import os
>>> import mindspore as ms
>>> from mindspore import Tensor
>>> from mindspore import context
>>> from mindspore.communication import init
>>> import mindspore.nn as nn
>>> import mindspore.ops as ops
>>> import numpy as np
>>> class Net(nn.Cell):
...     def __init__(self):
...         super(Net, self).__init__()
...         self.alltoall = ops.AlltoAll(split_count = 8, split_dim = -2, concat_dim = -1)
...     def construct(self, x):
...         out = self.alltoall(x)
...         return out
>>> context.set_context(mode=context.GRAPH_MODE, device_target='Ascend')
>>> init()
>>> net = Net()
>>> rank_id = int(os.getenv("RANK_ID"))
>>> input_x = Tensor(np.ones([1, 1, 8, 1]) * rank_id, dtype = ms.float32)
>>> output = net(input_x)
>>> print(output)
"""

ALL_REDUCE = """
>>> import numpy as np
>>> from mindspore.communication import init
>>> from mindspore import Tensor
>>> from mindspore.ops import ReduceOp
>>> import mindspore.nn as nn
>>> import mindspore.ops as ops
>>> init()
>>> class Net(nn.Cell):
...     def __init__(self):
...         super(Net, self).__init__()
...         self.allreduce_sum = ops.AllReduce(ReduceOp.SUM)
...     def construct(self, x):
...         return self.allreduce_sum(x)
>>> input_ = Tensor(np.ones([2, 8]).astype(np.float32))
>>> net = Net()
>>> output = net(input_)
>>> print(output)
"""

GATHER = """
>>> import numpy as np
>>> import mindspore as ms
>>> import mindspore.nn as nn
>>> from mindspore.mint.distributed import init_process_group, gather
>>> from mindspore import Tensor
>>> # Launch 2 processes.
>>> init_process_group()
>>> input = Tensor(np.arange(4).reshape([2, 2]).astype(np.float32))
>>> outputs = [Tensor(np.zeros([2, 2]).astype(np.float32)),Tensor(np.zeros([2, 2]).astype(np.float32))]
>>> gather(input, outputs, dst=0)
>>> print(outputs)
"""

ALL_TO_ALL_V = """
>>> import nki.collectives as ncc
>>> import numpy as np
>>> metadata = np.array([[1, 2], [0, 1], [0, 0]], np.uint32)
>>> src, dst = np.arange(3) + 10 * ncc.rank_id(), np.zeros(4, int)
>>> ncc.all_to_all_v([src], [dst], ncc.ReplicaGroup([[0, 1]]), metadata)
>>> print(dst, metadata[2])
"""

#: the program, and what each rank prints
EXAMPLES = {
    "AlltoAll": (ALL_TO_ALL, ["[[[[0. 1. 2. 3. 4. 5. 6. 7.]]]]"] * 8),
    "AllReduce": (ALL_REDUCE, ["[[2. 2. 2. 2. 2. 2. 2. 2.]\n [2. 2. 2. 2. 2. 2. 2. 2.]]"] * 2),
    "gather": (GATHER, [GATHERED, UNTOUCHED]),
    "all_to_all_v": (ALL_TO_ALL_V, ["[ 0  0 10  0] [1 1]", "[ 1  2 11 12] [2 2]"]),
}

#: gives the program our packages, and keeps what it prints by the rank's number
UNDER_OTHERS = """
import contextlib, io, os, runpy, sys
import shmcoll.mindspore, shmcoll.nki
sys.modules["mindspore"], sys.modules["nki"] = shmcoll.mindspore, shmcoll.nki
with contextlib.redirect_stdout(io.StringIO()) as printed:
    runpy.run_path(sys.argv[1], run_name="__main__")
if "mindspore" in open(sys.argv[1]).read():
    assert os.environ["RANK_SIZE"] == sys.argv[2] and os.environ["DEVICE_ID"] == os.environ["RANK_ID"]
with open(f"{sys.argv[1]}.{shmcoll.init().rank}", "w") as file:
    file.write(printed.getvalue())
"""

#: the variables that a launcher sets, for rank r of n
VARIABLES = {
    "torchrun": {"RANK": "{r}", "WORLD_SIZE": "{n}", "LOCAL_RANK": "{r}", "MASTER_ADDR": "localhost",
                 "MASTER_PORT": "{port}"},
    "srun": {"SLURM_JOB_ID": "{port}", "SLURM_STEP_ID": "0", "SLURM_PROCID": "{r}", "SLURM_STEP_NUM_TASKS": "{n}",
             "SLURM_STEP_NUM_NODES": "1"},
}  # fmt: skip
COMMANDS = {
    "openmpi": ["mpiexec", "--allow-run-as-root", "--oversubscribe", "-n"],
    "mpich": ["mpiexec", "-n"],
    "impi": ["mpiexec", "-n"],
    "torch": ["torchrun", "--standalone", "--no-python", "--nproc-per-node"],
}


def each_with_one(launchers, **chosen: str):
    """Each example with the launcher that is chosen; the long forms try all pairs."""
    return pytest.mark.parametrize(
        ("launcher", "name"),
        [
            pytest.param(launcher, name, marks=() if chosen[name] == launcher else pytest.mark.stress)
            for launcher in launchers
            for name in EXAMPLES
        ],
    )


@pytest.fixture
def example(tmp_path):
    """`example(name)`: the program as a file, and what each rank prints."""

    def write(name: str) -> tuple[Path, list[str]]:
        text, printed = EXAMPLES[name]
        path = tmp_path / "example.py"
        path.write_text("".join(f"{line[4:]}\n" for line in text.strip().splitlines()))
        return path, printed

    return write


@pytest.fixture
def environment() -> dict[str, str]:
    """Ours without what a launcher or MindSpore's launcher would have set."""
    other = re.compile(r"(OMPI_|PMI|SLURM_|MS_|TORCHELASTIC_|RANK|WORLD_SIZE|LOCAL_|MASTER_|DEVICE_ID|SHMCOLL_ARENA)")
    kept = {name: value for name, value in os.environ.items() if not other.match(name)}
    path = os.pathsep.join([str(ROOT), *filter(None, [kept.get("PYTHONPATH")])])
    return {**kept, "PYTHONPATH": path, "SHMCOLL_JOIN_TIMEOUT": "40"}


def printed_to_files(path: Path, n: int) -> list[str]:
    return [Path(f"{path}.{rank}").read_text().removesuffix("\n") for rank in range(n)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_under_shmrun(example, environment, name):
    path, printed = example(name)
    flag = "--nki" if name == "all_to_all_v" else "--mindspore"
    done = subprocess.run(
        [sys.executable, "-m", "shmrun", flag, "-l", "-n", str(len(printed)), str(path)],
        env=environment, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    by_rank = ["\n".join(line[4:] for line in lines if line.startswith(f"[{r}] ")) for r in range(len(printed))]
    assert by_rank == printed


@pytest.mark.slow
@each_with_one(VARIABLES, AlltoAll="torchrun", AllReduce="srun", gather="torchrun", all_to_all_v="srun")
def test_with_the_variables_of_a_launcher(example, environment, name, launcher):
    path, printed = example(name)
    n, port = len(printed), 10000 + os.getpid() % 50000
    started = [
        subprocess.Popen(
            [sys.executable, "-c", UNDER_OTHERS, str(path), str(n)],
            env={
                **environment,
                **{key: value.format(r=rank, n=n, port=port) for key, value in VARIABLES[launcher].items()},
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(n)
    ]
    errors = [process.communicate(timeout=90)[1] for process in started]
    assert errors == [""] * n
    assert printed_to_files(path, n) == printed


@pytest.mark.slow
@each_with_one(COMMANDS, AlltoAll="mpich", AllReduce="openmpi", gather="torch", all_to_all_v="openmpi")
def test_under_a_launcher(example, environment, name, launcher):
    path, printed = example(name)
    n, (first, *rest) = len(printed), COMMANDS[launcher]
    found = shutil.which(first, path=str(LAUNCHERS / launcher / "bin"))
    if found is None:
        pytest.skip(f"{launcher} is not installed; make test-launchers does it")
    done = subprocess.run(
        [found, *rest, str(n), sys.executable, "-c", UNDER_OTHERS, str(path), str(n)],
        env=environment, capture_output=True, text=True, timeout=90,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert printed_to_files(path, n) == printed
