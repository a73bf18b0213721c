"""The work of every rank: row after row; rank 0 prints. Started by `shmrun -m shmbench.commands.worker <options>`."""

import sys

from shmrun.cli.printing import end_with_reader

from shmbench.cli.options import Options, parse
from shmbench.cli.sizes import sweep
from shmbench.collectives import Case, Collective, Counts
from shmbench.collectives.payload import dtype_of
from shmbench.report import json_report, table
from shmbench.timing.library import Library, Shmcoll
from shmbench.timing.measure import Bench, Plan, cases, sized
from shmbench.timing.other_load import busy_during
from shmbench.timing.run_load import RunLoad, busy_before
from shmcoll.engine.system.switches import is_on


def main(argv: list[str]) -> int:
    """Do the work of one rank of the benchmark of shmcoll. Returns 1 if a result was wrong, on every rank."""
    library = Shmcoll()
    if library.rank == 0:
        end_with_reader()
    options = parse(argv, ranks=library.size)
    if options.limit:
        from shmbench.timing.limit import Limit, LimitBench

        return work(Limit(), options, LimitBench)
    return work(library, options)


def work(library: Library, options: Options, kind: type[Bench] = Bench) -> int:
    """Measure what `options` ask for on `library`, by a kind of bench. Rank 0 prints the table and writes the JSON."""
    if library.size != options.ranks:
        print(f"shmbench: -n {options.ranks}, but this job has {library.size} ranks: leave -n out", file=sys.stderr)
        return 2
    if complaint := _too_late(library, options):
        if library.rank == 0:
            print(f"shmbench: {complaint}", file=sys.stderr)
        return 2
    collective = library.collective(options.collective)
    bench = kind(library, collective)
    plan = Plan(options.iters, options.warmup, options.rounds, options.check, options.conditions.buffers)
    rows = []
    load = RunLoad(library, options.neighbour_pid)
    if library.rank == 0:
        print(*filter(None, (_title(library, options), busy_before(load))), table.HEAD, sep="\n", flush=True)
    for case in _cases(library, collective, options):
        rows.append(_row(bench, case, plan))
        if library.rank == 0:
            print(table.line(rows[-1]), flush=True)
    used = load.end()
    if library.rank == 0:
        print(*filter(None, (busy_during(used), table.foot(options.collective, rows))), sep="\n", flush=True)
        if options.json:
            json_report.write(options.json, json_report.document(library, options, rows, used))
    library.barrier()
    return 1 if table.wrong(rows) else 0


def _too_late(library: Library, options: Options) -> str | None:
    """Return why ranks that run already cannot be measured as asked, or None."""
    if options.conditions.neighbour and not options.neighbour_pid:
        return "--disturb needs ranks that shmbench starts: the neighbour comes before them"
    if options.limit and len(getattr(library.comm, "nodes", ())) > 1:
        return "--limit needs ranks on one machine"
    if options.conditions.share_arrays and library.name == "shmcoll" and not is_on("SHMCOLL_SHARE_ARRAYS"):
        return "--share-arrays needs ranks that shmbench starts, or SHMCOLL_SHARE_ARRAYS=1 in their environment"
    return None


def _cases(library: Library, collective: Collective, o: Options) -> list[Case]:
    sizes = o.sizes or sweep(o.min_bytes, o.max_bytes, step=o.step_bytes, factor=o.factor)
    nothing = Counts(0, 0)
    case = Case(dtype_of(o.dtype), o.op, o.root, library.rank, library.size, nothing, algorithm=o.algorithm)
    return sized(collective, case, sizes)


def _row(bench: Bench, case: Case, plan: Plan) -> table.Row:
    timings = {placed.in_place: bench.measure(placed, plan) for placed in cases(bench.collective, case)}
    return table.Row(
        size=case.counts.size * case.dtype.itemsize,
        count=case.counts.count,
        dtype=case.dtype.name if bench.collective.sized else "none",
        op=case.op,
        root=case.root,
        bus_factor=bench.collective.bus_factor(case.ranks),
        out_of_place=timings.get(False),
        in_place=timings.get(True),
    )


def _title(library: Library, o: Options) -> str:
    step = f"{o.step_bytes}(bytes)" if o.step_bytes else f"{o.factor}(factor)"
    sizes = f"minBytes {o.min_bytes} maxBytes {o.max_bytes} step: {step}"
    if o.sizes:
        sizes = f"sizes: {','.join(map(str, o.sizes))}"
    nodes = len(getattr(library.comm, "nodes", ()))
    where = f"{nodes} nodes, here " if nodes > 1 else ""
    return (
        f"# {library.name} {library.version}, {library.size} ranks on {where}{json_report.machine()['cores']} cores\n"
        f"# {sizes} warmup iters: {o.warmup} iters: {o.iters or 'by time'} rounds: {o.rounds} "
        f"validation: {int(o.check)}" + (f" algorithm: {o.algorithm}" if o.algorithm else "") + f"\n# {o.conditions}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
