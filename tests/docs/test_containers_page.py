"""The page about CI and Docker: its Python runs, and its commands and options exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from shmrun.cli.help import SUBCOMMANDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guide" / "containers.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"^(?:RUN |- run: )?(shmrun .*)$", "\n".join(text for _, text in BLOCKS), re.MULTILINE)


@pytest.mark.slow
def test_the_test_of_the_page_passes(tmp_path: Path) -> None:
    (text,) = (text for kind, text in BLOCKS if kind == "python")
    (tmp_path / "test_mean.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mean.py"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert told.returncode == 0, told.stdout


def test_the_page_has_commands() -> None:
    assert len(COMMANDS) == 5


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_is_understood(tmp_path: Path, command: str) -> None:
    (tmp_path / "mean.py").write_text("import shmcoll\nprint(shmcoll.init().size)\n")
    words = command.split()[1:]
    if words[0] in SUBCOMMANDS:
        assert all(option in SUBCOMMANDS[words[0]] for option in words[1:])
        return
    told = subprocess.run(
        [sys.executable, "-m", "shmrun", *words], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )
    ranks = words[words.index("-n") + 1]
    assert [line[-1] for line in told.stdout.splitlines()] == [ranks] * int(ranks)


def test_the_steps_for_ci_are_yaml_and_its_patterns_find_our_sources() -> None:
    yaml = pytest.importorskip("yaml")
    (text,) = (text for kind, text in BLOCKS if kind == "yaml")
    cache, *steps = yaml.safe_load(text)
    assert all(set(step) == {"run"} for step in steps)
    (pattern,) = re.findall(r"hashFiles\('(.*?)'\)", cache["with"]["key"])
    assert len(list(ROOT.glob(pattern))) > 50


@pytest.mark.parametrize("text", [text for kind, text in BLOCKS if kind == "dockerfile"])
def test_a_dockerfile_has_known_instructions(text: str) -> None:
    first, *others = text.splitlines()
    assert re.fullmatch(r"FROM python:3\.\d+-slim", first)
    assert {line.split()[0] for line in others} <= {"RUN", "COPY", "ENV", "CMD"}
