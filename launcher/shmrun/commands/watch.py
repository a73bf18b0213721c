"""`shmrun inspect --watch`: the table of a running job, again and again, until it ends."""

import json
import time

from shmcoll.diagnostics.hang_report import stacks_of, table
from shmcoll.diagnostics.job_document import SHOWN, document
from shmcoll.diagnostics.job_end import how_it_ended
from shmcoll.diagnostics.observer import ObservedJob
from shmcoll.profiling.live_rates import Rate, Rates
from shmcoll.profiling.statistics import amount
from shmrun.cli.printing import one_line
from shmrun.commands.ps import command_of
from shmrun.commands.screen import Screen

FAILED = 3  # exit code


def watch(job: ObservedJob, seconds: float, *, verbose: bool, stacks: bool, as_json: bool) -> int:
    """Show a job until it ends. Returns 0 if it has ended well, else FAILED."""
    rates, command = Rates(job), one_line(command_of(job.creator))
    with Screen() as screen:
        screen.is_terminal = screen.is_terminal and not as_json
        while True:
            end = how_it_ended(job)
            found, rate = job.standings(), rates.look()
            below = stacks_of(found) if stacks and end is None else None
            if as_json:
                told = document(job, found, below, last=SHOWN if verbose else 0)
                for one in told["ranks"]:
                    now = rate.get(one["rank"])
                    one |= {"calls_per_second": now and now.calls, "bytes_per_second": now and now.bytes}
                    one |= {"waiting": now and now.waiting}
                print(json.dumps(told | {"ended": None if end is None else not end}), flush=True)
            else:
                age = (time.monotonic_ns() - job.created) / 1e9
                title = f"job {job.creator} of {job.ranks} ranks, {age:.0f} s: {command or 'its process has ended'}"
                lines = [title, *table(found, below, _columns(rate)).split("\n")]
                if verbose:
                    from shmrun.commands.inspect import history

                    lines += ["", *history(job)]
                screen.show(lines, [job.verdict(found)])
            if end is not None:
                break
            screen.pause(seconds)
    if not as_json:
        if screen.is_terminal:
            print(*lines, sep="\n")
        print(f"Job {job.creator} has failed: {one_line(end)}." if end else f"Job {job.creator} has ended.")
    return FAILED if end else 0


def _columns(rates: dict[int, Rate]) -> dict[str, dict[int, str]]:
    columns = {
        "calls/s": {rank: f"{rate.calls:,.0f}" for rank, rate in rates.items()},
        "bytes/s": {rank: amount(rate.bytes) for rank, rate in rates.items()},
    }
    waiting = {rank: f"{rate.waiting:.0%}" for rank, rate in rates.items() if rate.waiting is not None}
    return columns | ({"waiting": waiting} if waiting else {})
