"""Runs the subcommand of a command line. Each is imported when it is used."""

from shmrun.cli import help, values
from shmrun.cli.config_sources import near
from shmrun.cli.printing import tell
from shmrun.cli.subcommands import SUBCOMMANDS

_SHORTEST_WATCH = 0.1  # seconds


def run(name: str, *arguments: str) -> int:
    """Run a subcommand and return the exit code."""
    if {"-h", "--help"} & set(arguments):
        print(help.SUBCOMMANDS[name], end="")
        return 0
    flags, most = SUBCOMMANDS[name]
    seconds = 1.0
    for word in arguments:
        if name == "inspect" and word.startswith("--watch="):
            try:
                seconds = max(values.positive(word.partition("=")[2]), _SHORTEST_WATCH)
            except values.Wrong as e:
                tell(f"shmrun: --watch: {e}")
                return 2
    arguments = tuple("--watch" if word.startswith("--watch=") else word for word in arguments)
    given = set(arguments) & set(flags)
    words = [word for word in arguments if word not in flags]
    if any(word.startswith("-") for word in words) or (most is not None and len(words) > most):
        likely = "".join(near(word, flags) for word in words[:1])
        text = f"shmrun {name} takes no {' '.join(words)}{likely}; to run a program of that name: shmrun -n 2 {name}"
        tell(f"shmrun: {text} (see shmrun {name} --help)")
        return 2
    if name == "ps":
        from shmrun.commands import ps

        return ps.show(as_json="--json" in given)
    if name == "inspect":
        from shmrun.commands import inspect

        job = words[0] if words else None
        every = seconds if "--watch" in given else None
        verbose, stacks, as_json = "-v" in given, "--stacks" in given, "--json" in given
        return inspect.show(job, verbose=verbose, stacks=stacks, as_json=as_json, seconds=every)
    if name == "verdict":
        from shmrun.commands import verdict

        return verdict.show(words[0] if words else None, verbose="-v" in given, as_json="--json" in given)
    if name == "doctor":
        from shmrun.commands import doctor

        return doctor.examine(as_json="--json" in given)
    from shmrun.commands import warm

    return warm.warm(words, everything="--all" in given)
