"""What a command line of MindSpore's msrun means: `msrun --worker_num 8 --join True --log_dir d script.py`.

A command line is msrun's if it has one of FLAGS, which no other launcher has. Then, as under msrun,

* there are 8 ranks by default;
* the output of rank N goes to `worker_N.log` in `--log_dir`, or to the name of `--worker_log_name`; with `--join True`
  it goes to the screen too, or that of the ranks in `--tail_worker_log`;
* ranks find MS_ROLE, MS_WORKER_NUM, MS_NODE_ID, MS_SCHED_HOST, MS_SCHED_PORT and MS_TOPO_TIMEOUT in their environment;
* `import mindspore` works: it gives `shmcoll.mindspore`, as `--mindspore` does.

It differs from msrun in three points. shmrun starts no scheduler, so there is no `scheduler.log`. It waits for the job
without `--join True` as well. Without `--log_dir` the output goes to the screen, and not to files in the current
directory.

Source: `mindspore/parallel/cluster` of MindSpore 2.10.
"""

import os
from typing import Any, NamedTuple

from shmrun.cli import values
from shmrun.cli.values import Wrong

FLAGS = ("worker-num", "local-worker-num", "join", "cluster-time-out", "worker-log-name", "tail-worker-log")

_RANKS, _HOST, _PORT, _TIME_OUT = 8, "127.0.0.1", "8118", "600"


class Habits(NamedTuple):
    """What a job of msrun has. log_name: begins the names of log files. shown: the ranks whose output goes to the
    screen as well, or None for all."""

    log_name: str
    shown: tuple[int, ...] | None


def habits(given: dict[str, str], found: dict[str, Any]) -> dict[str, Any]:
    """Return the options that change under msrun. given: the values of FLAGS. found: the options so far.

    Raises `Wrong` for a value that makes no sense.
    """
    try:
        joins = values.switch(given.get("join", "False"))
    except Wrong as e:
        raise Wrong(f"--join: {e}") from e
    ranks = found["ranks"] or _RANKS
    shown = _ranks(given.get("tail-worker-log", "-1"))
    changed = {"ranks": ranks, "msrun": Habits(_log_name(given.get("worker-log-name", "")), shown)}
    if joins and found["log_dir"]:
        changed["tee"] = True
    variables = dict(found["env"])
    usual = {
        "MS_ROLE": "MS_WORKER",
        "MS_WORKER_NUM": str(ranks),
        "MS_SCHED_HOST": variables.get("MASTER_ADDR", _HOST),
        "MS_SCHED_PORT": variables.get("MASTER_PORT", _PORT),
        "MS_TOPO_TIMEOUT": given.get("cluster-time-out", _TIME_OUT),
    }
    return changed | {"env": tuple((usual | variables).items())}


def _log_name(name: str) -> str:
    if "/" in name:
        raise Wrong(f"--worker_log_name: {name!r} has a slash; name a directory with --log_dir")
    name = name.replace("{ip}", _HOST).replace("{hostname}", os.uname().nodename)
    return f"{name or 'worker'}_"


def _ranks(text: str) -> tuple[int, ...] | None:
    """Return the ranks of `--tail_worker_log`; None for all."""
    if text == "-1":
        return None
    try:
        return tuple(map(int, text.split(",")))
    except ValueError:
        raise Wrong(f"--tail_worker_log: {text!r} is neither -1 nor a list of ranks such as 0,3") from None
