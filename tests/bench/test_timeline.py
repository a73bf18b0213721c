"""`shmbench timeline`: a picture of a part of a timeline, and what is told when there is nothing to draw."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from shmbench.commands import timeline

from shmcoll.profiling import timeline as written
from shmcoll.profiling.spans import CALL, RANGE, RankProfile, Span
from tests.support.benched import shmbench

MS = 1_000_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two ranks of three steps; rank 1 loads for longer, and rank 0 waits for it."""
    ranks = []
    for rank in range(2):
        spans = []
        for step in range(3):
            at = 10 * step * MS
            ready = at + (1 + 5 * rank) * MS
            spans.append(Span(rank, 0, (), 0, RANGE, "load", "", at, ready))
            waited = (1 - rank) * 5 * MS
            end = at + 9 * MS
            spans.append(Span(rank, 0, (0, 1), 0, CALL, "barrier", "", ready, end, waited, sequence=step + 1))
        ranks.append(RankProfile(rank, spans=spans))
    written.write(str(tmp_path / "t.json.gz"), ranks)
    return tmp_path / "t.json.gz"


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")
def test_a_part_is_drawn(file: Path, tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        shmbench("timeline", file, "-o", tmp_path / name, "--begin", "5.5", "--end", "18")
    drawn = (tmp_path / "a.svg").read_text()
    assert drawn == (tmp_path / "b.svg").read_text()
    texts = [text.strip() for text in re.findall(r"<text[^>]*>([^<]*)</text>", drawn)]
    for rank in (0, 1):
        assert f"rank {rank}   program" in texts and f"rank {rank}   all ranks" in texts
    assert {"load", "barrier", "waiting", "call", "range", "ms"} <= set(texts)
    assert texts.count("waiting") == 2  # a slice, and its colour; of the first step there is no room for the word


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "x.txt"], "a picture's name ends in .png, .svg, .pdf"),
        (["-o", "x.png", "--begin", "40"], "nothing lies between 40 and 29 ms: the timeline has 29 ms"),
        (["-o", "x.png", "--begin", "9", "--end", "9"], "nothing lies between 9 and 9 ms"),
    ],
)
def test_what_cannot_be_drawn(file: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        timeline.main([str(file), *arguments])
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("content", ["[]", "{}", "no", '{"traceEvents": [1]}'])
def test_a_file_that_is_no_timeline(tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(SystemExit):
        timeline.main([str(tmp_path / "x.json"), "-o", "x.png"])
    assert "x.json is not a timeline of shmrun --trace" in capsys.readouterr().err
