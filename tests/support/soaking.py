"""What the ranks of a soak run do: random cases of every collective, in groups and asynchronous too, and messages.

All ranks draw from one seed what they call together, and each from its own how long it dawdles. When one has been
killed the others shrink and go on, until FEWEST are left. Whatever is wrong is written down, for the test to find.
"""

import itertools
import json
import random
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import shmcoll
from shmcoll.engine import layout
from shmcoll.engine.compiler.compile import all_kernels, load_kernel
from shmcoll.errors import RankFailed
from tests.support.suites import SUITES, sample

FEWEST = 2
MARK = 20
TIMEOUT = 30.0  # seconds: a hang, for a rank that was killed is missed at once


class Soaked:
    """One rank: `steps` are what it has done, `marks` what it held every MARK steps, all its groups closed."""

    def __init__(self, comm: Any, seed: int, until: float):
        self.comm, self.until, self.generation = comm, until, 0
        self.name = comm.rank
        self.seed = seed
        self.own = random.Random(f"{seed} {comm.rank}")
        self.steps = 0
        self.marks: list[dict[str, float]] = []

    def run(self) -> None:
        while True:
            self.draw = random.Random(f"{self.seed} {self.generation}")
            try:
                while not self.is_over():
                    self.step()
                return
            except RankFailed:
                old, self.comm = self.comm, self.comm.shrink()
                if self.generation:
                    old.close()
                self.generation += 1
                self.comm.timeout = TIMEOUT

    def is_over(self) -> bool:
        """Told by rank 0, whose clock counts for all."""
        enough = np.array(time.time() > self.until or self.comm.size <= FEWEST)
        return bool(self.comm.broadcast(enough)[()])

    def step(self) -> None:
        steps = (self.cases, self.cases_of_a_group, self.messages, self.objects)
        (what,) = self.draw.choices(steps, (6, 2, 2, 1))
        if self.own.random() < 0.1:
            time.sleep(self.own.uniform(0, 0.01))
        what()
        self.steps += 1
        if self.steps % 10 == 0:
            Path(f"steps{self.name}").write_text(str(self.steps))
        if self.steps % MARK == 0:
            self.mark()

    def cases(self) -> None:
        run_some(self.comm, self.draw)

    def cases_of_a_group(self) -> None:
        seed, colors = self.draw.getrandbits(32), [self.draw.randrange(2) for _ in range(self.comm.size)]
        color = colors[self.comm.rank]
        group = self.comm.split(color)
        try:
            run_some(group, random.Random(seed + color))
        finally:
            group.close()

    def messages(self) -> None:
        """Round a ring, forward and back, tags out of order."""
        comm, length = self.comm, self.draw.choice((0, 1, 100, 20_000, 300_000))
        following, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        work = [comm.send(np.full(length, comm.rank + tag), following, tag, async_op=True) for tag in range(3)]
        for tag in self.draw.sample(range(3), 3):
            got, source, _ = comm.recv(source=before, tag=tag)
            if source != before or got.shape != (length,) or not (got == before + tag).all():
                raise AssertionError(f"message with tag {tag} of {length} from rank {before}: got {got!r} of {source}")
        for one in work:
            one.wait()

    def objects(self) -> None:
        value = {"from": self.comm.rank, "long": np.arange(self.draw.choice((1, 50_000)))}
        told = self.comm.all_gather_object(value)
        if [one["from"] for one in told] != list(range(self.comm.size)):
            raise AssertionError(f"objects: {told!r:.300}")
        mine = self.comm.full(self.draw.choice((1, 100_000)), self.comm.rank)
        if not (self.comm.all_reduce(mine) == sum(range(self.comm.size))).all():
            raise AssertionError("all_reduce of shared arrays")

    def mark(self) -> None:
        """Descriptors; MiB of memory that is its own, and that it holds of the arena."""
        open_files = [fd.readlink() for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
        _, resident, shared, *_ = map(int, Path("/proc/self/statm").read_text().split())
        arena = self.comm._local_rank.arena
        held = arena.load(layout.directory_offset(arena.ranks, self.name) + layout.HELD)
        self.marks.append(
            {
                "descriptors": len(open_files),
                "memory": (resident - shared) * resource.getpagesize() / (1 << 20),
                "held": held / (1 << 20),
            }
        )


def run_some(comm: Any, draw: random.Random) -> None:
    """A few of the cases of one collective, which know the right results."""
    name, seed, last = draw.choice(sorted(SUITES)), draw.getrandbits(32), draw.randrange(4, 100)
    for case, check in list(itertools.islice(sample(name)(seed, comm.size, 1), last))[-4:]:
        if " refused " in case:
            continue  # the errors name ranks of the world, which these are no more
        if wrong := check(comm):
            raise AssertionError(f"{case}: {wrong}")


def soak(seed: int, seconds: float) -> None:
    for pair in all_kernels():
        load_kernel(*pair)  # else memory would grow until each has come up
    comm = shmcoll.init()
    comm.timeout = TIMEOUT
    soaked, told = Soaked(comm, seed, time.time() + seconds), ""
    try:
        soaked.run()
    except BaseException as error:
        told = f"{type(error).__name__}: {error}"
        raise
    finally:
        report = {"steps": soaked.steps, "marks": soaked.marks, "wrong": told}
        Path(f"report{comm.rank}").write_text(json.dumps(report))


if __name__ == "__main__":
    soak(int(sys.argv[1]), float(sys.argv[2]))
