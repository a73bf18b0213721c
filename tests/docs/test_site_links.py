"""Every link of the built site leads to a page, and every anchor to a place in it: as HTML, and in a browser.

The browser is a headless Chromium. It opens a page of this file, which loads the pages of the site in a frame, follows
every link that it finds there, and posts what it has seen back to the server of the test. Each page builds the index of
the search, which takes as long as all else of it: so nothing is in the index until the search is tried.
"""

import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest

from tests.support.patience import PATIENCE

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-breakpad", "--no-first-run"),
    *("--disable-background-networking", "--remote-debugging-port=0", "--enable-logging=stderr"),
)

DRIVER = """<!DOCTYPE html><iframe></iframe><script>
const frame = document.querySelector("iframe");
const load = url => new Promise(done => { frame.onload = () => done(frame.contentDocument); frame.src = url; });
async function follow(pages) {
  const seen = {pages: [], followed: 0, broken: [], found: []}, anchors = new Map();
  for (const page of pages) {
    const shown = await load(page);
    seen.pages.push(shown.querySelector("h1").innerText);
    for (const image of shown.images) if (!image.naturalWidth) seen.broken.push(`${page}: image ${image.src}`);
    for (const link of shown.links) {
      const url = new URL(link.href);
      if (url.origin != location.origin) continue;
      const there = url.origin + url.pathname;
      if (!anchors.has(there)) anchors.set(there, new Map());
      if (!anchors.get(there).has(url.hash)) anchors.get(there).set(url.hash, page);
    }
  }
  for (const [there, hashes] of anchors) {
    if (!(await fetch(there)).ok) { seen.broken.push(`${[...hashes.values()][0]}: ${there}`); continue; }
    const shown = await load(there);
    for (const [hash, page] of hashes) {
      seen.followed++;
      if (!hash) continue;
      frame.contentWindow.location.hash = hash;
      if (!shown.querySelector(":target")) seen.broken.push(`${page}: ${there}${hash}`);
    }
  }
  await fetch("/search");
  const shown = await load(pages[0] + "?q=ulimit");
  for (let tries = 0; shown.querySelector("[data-md-component=search]") && tries < 100 && !seen.found.length; tries++) {
    await new Promise(done => setTimeout(done, 100));
    seen.found = [...shown.querySelectorAll(".md-search-result__link")].map(link => new URL(link.href).pathname);
  }
  return seen;
}
follow(PAGES).catch(error => ({error: String(error)})).then(
  seen => fetch("/seen", {method: "POST", body: JSON.stringify(seen)}));
</script>"""


class Page(HTMLParser):
    """The places of a page that links can lead to, its links, and what it loads from elsewhere."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.places.add(given.get("id") or "")
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")
        source = given.get("src") or (given.get("href") if tag == "link" and given.get("rel") == "stylesheet" else None)
        if source:
            self.loads.append(source)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(target)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=PATIENCE, check=True)
    return target


def broken(site: Path) -> list[str]:
    """Name each link of the site that leads nowhere, and each file that is loaded from elsewhere or is missing."""
    pages = {path.relative_to(site).as_posix(): Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    found = []
    for name, page in pages.items():
        for link in page.links:
            url, anchor = urldefrag(urljoin(f"http://site/{name}", link).removeprefix("http://site"))
            if urlsplit(link).scheme:
                continue
            target = pages.get(url.lstrip("/"))
            exists = target is not None or (site / unquote(url).lstrip("/")).is_file()
            if not exists or (anchor and (target is None or unquote(anchor) not in target.places)):
                found.append(f"{name}: {link}")
        for source in page.loads:
            if urlsplit(source).scheme or not (site / name).parent.joinpath(urlsplit(source).path).is_file():
                found.append(f"{name} loads {source}")
    return found


def test_links_and_anchors_lead_somewhere_in_the_html(site: Path) -> None:
    assert broken(site) == []


def test_each_kind_of_broken_link_is_found_in_the_html(tmp_path: Path) -> None:
    links = '<a href="b.html#there">b</a><a href="#here">a</a><a href="c.html">c</a>'
    (tmp_path / "a.html").write_text(f'<p id="here">{links}')
    (tmp_path / "b.html").write_text('<script src="https://elsewhere/x.js"></script><img src="none.png">')
    assert sorted(broken(tmp_path)) == [
        "a.html: b.html#there",
        "a.html: c.html",
        "b.html loads https://elsewhere/x.js",
        "b.html loads none.png",
    ]


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_links_of_the_pages_beside_the_site_lead_to_files(name: str) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", (ROOT / name).read_text())
    assert [link for link in links if not urlsplit(link).scheme and not (ROOT / link).exists()] == []


class Handler(SimpleHTTPRequestHandler):
    """The files of a site, a page that follows its links, and a place to post what was seen.

    searches: whether the index of the search has anything in it."""

    def __init__(
        self, pages: list[str], seen: "queue.Queue[Any]", searches: threading.Event, *args: Any, **options: Any
    ) -> None:
        self.driver = DRIVER.replace("PAGES", json.dumps(pages)).encode()
        self.seen = seen
        self.searches = searches
        super().__init__(*args, **options)

    def do_GET(self) -> None:
        if self.path == "/follow":
            self.answer("text/html; charset=utf-8", self.driver)
        elif self.path == "/search":
            self.searches.set()
            self.answer("text/plain", b"")
        elif self.path.endswith("/search_index.json") and not self.searches.is_set():
            index = json.loads(Path(self.translate_path(self.path)).read_text())
            self.answer("application/json", json.dumps(index | {"docs": []}).encode())
        else:
            super().do_GET()

    def answer(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.seen.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def follow(site: Path, scratch: Path) -> Iterator[Any]:
    """Yield what Chromium has seen of a site, then end it; at the end yield what its console has said."""
    pages = sorted(f"/{path.relative_to(site)}" for path in site.rglob("*.html") if path.name != "404.html")
    seen: queue.Queue[Any] = queue.Queue()
    handler = partial(Handler, pages, seen, threading.Event(), directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, open(scratch / "log", "w+") as log:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        command = [str(CHROMIUM), *OPTIONS, f"--user-data-dir={scratch / 'profile'}"]
        command.append(f"http://127.0.0.1:{server.server_port}/follow")
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True)
        try:
            yield seen.get(timeout=PATIENCE)
        finally:
            browser.terminate()
            browser.wait()
            server.shutdown()
            serving.join()
        log.seek(0)
        yield [line for line in log if "CONSOLE" in line and "Uncaught" in line]


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on PATH: apt-get install chromium")
def test_a_browser_follows_every_link(site: Path, tmp_path: Path) -> None:
    seen, complaints = follow(site, tmp_path)
    assert seen.get("error") is None
    assert seen["broken"] == []
    assert complaints == []
    assert len(seen["pages"]) == len(list((ROOT / "docs").rglob("*.md")))
    assert all(seen["pages"])
    assert seen["followed"] > 5 * len(seen["pages"])
    assert "/faq.html" in seen["found"]  # by the search for "ulimit"


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on PATH: apt-get install chromium")
def test_a_browser_finds_broken_links(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    links = '<a href="#here">a</a><a href="#there">b</a><a href="c.html">c</a>'
    text = f'<h1>A</h1><p id="here">{links}<img src="none.png"><script>nonsense()</script>'
    (tmp_path / "site" / "a.html").write_text(text)
    seen, complaints = follow(tmp_path / "site", tmp_path)
    assert [line.split("/")[-1] for line in seen["broken"]] == ["none.png", "a.html#there", "c.html"]
    assert {"nonsense is not defined" in line for line in complaints} == {True}
