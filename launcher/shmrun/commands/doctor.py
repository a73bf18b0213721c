"""`shmrun doctor`: one line per finding, with advice below it if there is some. The exit code is 1 if ranks cannot
run."""

import json
from collections.abc import Iterator

from shmrun.commands.findings import Finding, Level

_MARGIN = 9 + 14  # columns of the level, and of the subject


def examine(*, as_json: bool = False) -> int:
    """Check everything, print the findings, and return the exit code."""
    findings = []
    for finding in _findings():
        findings.append(finding)
        if not as_json:
            _print(finding)
    levels = [finding.level for finding in findings]
    errors, warnings = levels.count(Level.ERROR), levels.count(Level.WARNING)
    if as_json:
        found = [{"level": f.level.value, "subject": f.subject, "text": f.text, "advice": f.advice} for f in findings]
        print(json.dumps({"format": 1, "errors": errors, "warnings": warnings, "findings": found}, indent=1))
    elif errors:
        print(f"\nRanks cannot run here: {errors} of the above must be fixed.")
    else:
        print(f"\nRanks can run here; {warnings} of the above could be better." if warnings else "\nAll is well.")
    return 1 if errors else 0


def _print(finding: Finding) -> None:
    first, *others = finding.text.rstrip().splitlines()
    print(f"{finding.level.value:9}{finding.subject:14}{first}")
    for line in [*others, *([f"-> {finding.advice}"] if finding.advice else [])]:
        print(" " * _MARGIN + line, flush=True)


def _findings() -> Iterator[Finding]:
    """Yield all findings. The trial comes last, and only if no finding prevents it."""
    from shmrun.commands import installation, machine

    hindered = False
    for check in (
        machine.system,
        installation.versions,
        machine.cores,
        machine.polling,
        machine.shared_memory,
        machine.limits,
        machine.trial_arena,
        machine.one_copy,
        installation.native_entry,
        installation.compiled,
    ):
        try:
            for finding in check():
                hindered |= finding.level is Level.ERROR or finding.prevents_trial
                yield finding
        except Exception as e:  # ranks would meet any such error as well
            hindered = True
            yield Finding(Level.ERROR, check.__name__.replace("_", " "), f"{type(e).__name__}: {e}")
    if not hindered:
        yield from installation.trial()
