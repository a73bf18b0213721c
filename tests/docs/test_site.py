"""The documentation builds as a site: every page is in its navigation, and every link and anchor leads somewhere."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.patience import PATIENCE

ROOT = Path(__file__).parents[2]


def build(sources: Path, target: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        command, cwd=sources, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def test_the_site_is_built_without_a_warning(tmp_path):
    told = build(ROOT, tmp_path / "site")
    assert told.returncode == 0, told.stderr
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert pages == {path.relative_to(tmp_path / "site") for path in (tmp_path / "site").rglob("*.html")} - {
        Path("404.html")
    }


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Home\n\n[nowhere](nowhere.md)\n")
    (tmp_path / "mkdocs.yml").write_text("site_name: a\nnav: [index.md]\n")
    told = build(tmp_path, tmp_path / "site")
    assert told.returncode != 0
    assert "nowhere.md" in told.stderr
