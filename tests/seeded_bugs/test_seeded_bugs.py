"""Which layer of tests finds which kind of bug: each one is planted in a copy of the sources, and must be found there.

Bugs of the schedule live in tests/schedule/explorer/mutants.py, bugs of the design in tests/spin/test_models.py; here
stand those that other layers must find, and the names of some of the former, so that the table is whole.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from shmcoll.startup import arena_names

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Bug:
    """`old`, which stands once in the library, becomes `new`; then the chosen tests of a layer must fail."""

    layer: str
    old: str
    new: str
    tests: str
    chosen: str


BUGS = {
    "a relaxed load where it must acquire": Bug(
        "golden IR",
        'load_atomic(_word(builder, address), "acquire", 8)',
        'load_atomic(_word(builder, address), "monotonic", 8)',
        "tests/engine/test_golden_ir.py",
        "shared_words and barrier",
    ),
    "a fence that is too weak": Bug(
        "golden IR",
        'def _fence(builder, _module):\n    builder.fence("seq_cst")',
        'def _fence(builder, _module):\n    builder.fence("release")',
        "tests/engine/test_golden_ir.py",
        "shared_words and barrier",
    ),
    "a private store to a shared word": Bug(
        "source rules",
        "        store(mine + layout.PARKED, 0)",
        "        poke(mine + layout.PARKED, 0)",
        "tests/engine/test_source_rules.py",
        "private_memory",
    ),
    "publishing without waking": Bug(
        "source rules",
        "(turn << STEP_BITS) + steps)\n    wake(ctx)",
        "(turn << STEP_BITS) + steps)",
        "tests/engine/test_source_rules.py",
        "published_in_one_file",
    ),
    "a mailbox that is a line too short": Bug(
        "layout", "\nTABLES = PROGRESS + 512\n", "\nTABLES = PROGRESS + 384\n", "tests/engine/test_layout.py", "by_hand"
    ),
    "the wrong rank is blamed": Bug(
        "fault points",
        'text = f"rank {self._group.name(culprit)} {how}{',
        'text = f"rank {self._group.name(culprit - 1)} {how}{',
        "tests/fault_injection/test_kill_at.py",
        "some_operations and 3-barrier",
    ),
    "every part of a message of more than 64 KiB is the first": Bug(
        "conformance",
        "peek(ctx + c.X + c.DATA) + sent, length)",
        "peek(ctx + c.X + c.DATA), length)",
        "tests/conformance/test_point_to_point.py",
        "both_sides",
    ),
    "the name stays when ranks do not come": Bug(
        "leak check",
        "    finally:\n        arena_names.remove(name)\n",
        "    finally:\n        pass\n",
        "tests/rendezvous/test_rendezvous.py",
        "rank_0_alone",
    ),
    "anybody's arena is taken": Bug(
        "hostile arenas",
        'if info.st_uid != os.geteuid():\n        raise ArenaError(f"the arena belongs',
        'if False:\n        raise ArenaError(f"the arena belongs',
        "tests/engine/test_arena.py",
        "somebody_else",
    ),
    "cells of any size are taken": Bug(
        "hostile arenas",
        "and cell_bytes % layout.LINE == 0",
        "",
        "tests/engine/test_hostile_arena.py",
        "any_job_page",
    ),
    "a cache that others could have written": Bug(
        "cache",
        "    if _others_may_write(info, path):",
        "    if False:",
        "tests/engine/test_object_cache.py",
        "others_may_write",
    ),
    "object files that others could have written": Bug(
        "cache",
        "    if _others_may_write(info, fd):",
        "    if False:",
        "tests/engine/test_trusted_files.py",
        "others_may_have_written",
    ),
    "a turn that is interrupted keeps the entry": Bug(
        "signals at every step",
        "        finally:\n            words[_OWNER] = c.NOBODY\n",
        "        finally:\n            list(map(int, ()))\n            words[_OWNER] = c.NOBODY\n",
        "tests/runtime/test_async_worker_interrupted.py",
        "every_step and wait_for_a_message and raise_an_exception",
    ),
    "a thread that leaves its turn is forgotten too soon": Bug(
        "signals at every step",
        "        with self.guard:\n            while self._words.item(_OWNER)",
        "        with self.guard:\n            self._remove(mine)\n            while self._words.item(_OWNER)",
        "tests/runtime/test_async_worker_interrupted.py",
        "leaves_its_turn",
    ),
    "a withdrawn receive takes its message": Bug(
        "signals at every step",
        'return self._fate.setdefault("is", _TAKEN) == _TAKEN',
        "return True",
        "tests/runtime/test_async_worker_interrupted.py",
        "withdrawn_or_reads",
    ),
    "a message that is being read is forgotten at an interrupt": Bug(
        "signals at every step",
        "        self._attached = receive, place\n        self._complete(receive, place)",
        "        self._complete(receive, place)",
        "tests/runtime/test_async_worker_interrupted.py",
        "every_step and wait_for_a_message and raise_an_exception",
    ),
    "torn records are believed": Bug(
        "records",
        "if check == _checksum(words, text):",
        "if True:",
        "tests/engine/test_records.py",
        "",
    ),
}

#: name -> (layer, the file with the bug, its table)
ELSEWHERE = {
    "the opening forgets the last peer": ("explorer", "tests/schedule/explorer/mutants.py"),
    "waits for the operation before": ("explorer", "tests/schedule/explorer/mutants.py"),
    "no fence in the poster": ("explorer", "tests/schedule/explorer/mutants.py"),
    "the parts of a long message are laid on one another": (
        "explorer",
        "tests/schedule/explorer/mutants_of_messages.py",
    ),
    **dict.fromkeys(
        (
            "any call of the thread enters between two phases of a recv",
            "a rank that was interrupted is let in again",
            "a limit does not count the time until the GIL comes back",
        ),
        ("explorer", "tests/schedule/explorer/mutants_of_events.py"),
    ),
    "one cell for all": ("explorer", "tests/schedule/explorer/mutants.py"),
    "rings before it stores": ("Spin", "tests/spin/test_models.py"),
    "ABORT is not looked at": ("Spin", "tests/spin/test_models.py"),
    "lets in before all have registered": ("Spin", "tests/spin/test_models.py"),
}


def places(root: Path, bug: Bug) -> list[Path]:
    """Return the files that have the line, one for each time. It may move."""
    return [path for path in (root / "shmcoll").rglob("*.py") for _ in range(path.read_text().count(bug.old))]


def test_the_sources_have_the_lines_of_all_bugs() -> None:
    """They are tried in the long forms only: else nobody would notice that they cannot be planted."""
    assert [name for name, bug in BUGS.items() if len(places(ROOT, bug)) != 1] == []


@pytest.mark.stress
@pytest.mark.parametrize("name", BUGS)
def test_its_layer_finds_it(tmp_path: Path, name: str) -> None:
    bug = BUGS[name]
    for folder in ("shmcoll", "tests", "launcher"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (file,) = places(tmp_path, bug)
    file.write_text(file.read_text().replace(bug.old, bug.new))
    stress = ["--stress"] if "every_step" in bug.chosen else []
    chosen = [*stress, bug.tests, "-k", bug.chosen]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *chosen]
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{tmp_path / 'launcher'}"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    for _ in arena_names.living(arena_names.every_job()):
        pass  # which removes left-overs, where these were the bug
    assert done.returncode == 1, f"{bug.layer} has not found it:\n{done.stdout}{done.stderr}"
    assert "1 failed" in done.stdout, done.stdout
    print(f"{name}: found by {bug.layer}, {bug.tests}")


@pytest.mark.parametrize("name", ELSEWHERE)
def test_other_layers_know_it(name: str) -> None:
    layer, path = ELSEWHERE[name]
    assert f'"{name}": ' in (ROOT / path).read_text(), f"{layer} does not have it any more"
