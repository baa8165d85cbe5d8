"""Look at the documentation in a real browser, and fail on what a reader would see as broken.

    python -m tools.browser                     build the site, and look at every page
    python -m tools.browser index.md guides     look only at these pages and folders
    python -m tools.browser --ready             only say whether a browser is installed

Each page is opened at 1280 and 390 pixels, in light and dark. It is a problem if the page is wider than the window, if a text can
hardly be read on its background, if an image does not load, if the console has an error, or if an internal link or its anchor leads
nowhere. The screenshots are in build/screenshots.

Chromium or Chrome is driven through `--remote-debugging-pipe`, so nothing but the browser is needed.
"""

from __future__ import annotations

import argparse
import base64
import fcntl
import functools
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

ROOT: Final = Path(__file__).resolve().parent.parent
WIDTHS: Final = (1280, 390)
SCHEMES: Final = ("light", "dark")
NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
OPTIONS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
# How long the browser may take for one step, in seconds.
PATIENCE: Final = 60.0
# The tallest screenshot, in pixels; a longer page is cut.
TALLEST: Final = 8000

# Returns a list of problems. Colours are drawn on a canvas, which understands every notation of a colour.
LOOK: Final = r"""
(async () => {
  await document.fonts.ready;
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  const problems = [];
  const name = element => {
    const text = (element.textContent || element.alt || "").trim().replace(/\s+/g, " ").slice(0, 40);
    return "<" + element.tagName.toLowerCase() + (element.className ? " " + element.className : "") + "> " + text;
  };
  // Not window.innerWidth: on a phone the window grows with what does not fit.
  const width = screen.width;
  if (document.documentElement.scrollWidth > width) {
    const wide = [...document.body.querySelectorAll("*")].filter(element => {
      const box = element.getBoundingClientRect();
      if (box.right <= width + 1 || box.width === 0) return false;
      for (let up = element; up && up !== document.body; up = up.parentElement)
        if (up !== element && getComputedStyle(up).overflowX !== "visible") return false;
      return true;
    });
    problems.push("the page is " + document.documentElement.scrollWidth + " px wide: " + wide.slice(0, 3).map(name).join("; "));
  }
  for (const image of document.images)
    if (image.complete && image.naturalWidth === 0) problems.push("an image does not load: " + image.getAttribute("src"));

  const context = Object.assign(document.createElement("canvas"), {width: 1, height: 1}).getContext("2d", {willReadFrequently: true});
  const known = new Map();
  const rgba = colour => {
    if (!known.has(colour)) {
      context.clearRect(0, 0, 1, 1);
      context.fillStyle = colour;
      context.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
      known.set(colour, [r, g, b, a / 255]);
    }
    return known.get(colour);
  };
  const over = (top, below) => top.slice(0, 3).map((c, i) => c * top[3] + below[i] * (1 - top[3])).concat(1);
  const background = element => {
    const layers = [];
    for (let up = element; up; up = up.parentElement) {
      const style = getComputedStyle(up);
      if (style.backgroundImage.includes("gradient") || style.backgroundImage.includes("url")) return null;
      const colour = rgba(style.backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const light = colour => {
    const [r, g, b] = colour.slice(0, 3).map(c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const page = background(document.body);
  if (page && light(page) > 0.5 === dark) problems.push("the background is " + (dark ? "light" : "dark") + " where the reader prefers the opposite");
  const seen = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || seen.has(element)) continue;
    seen.add(element);
    if (!element.checkVisibility({opacityProperty: true, visibilityProperty: true}) || element.closest("[aria-hidden=true], svg, .md-skip, .headerlink")) continue;
    const box = element.getBoundingClientRect();
    if (box.width < 2 || box.height < 2) continue;
    const style = getComputedStyle(element);
    const below = background(element);
    if (!below) continue;
    let opacity = 1;
    for (let up = element; up; up = up.parentElement) opacity *= Number(getComputedStyle(up).opacity);
    const colour = rgba(style.color).slice();
    colour[3] *= opacity;
    const [high, low] = [light(over(colour, below)), light(below)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    const size = parseFloat(style.fontSize);
    const needed = size >= 24 || (size >= 18.5 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    if (ratio < needed) problems.push("contrast " + ratio.toFixed(1) + " is below " + needed + ": " + name(element));
  }
  return problems;
})()
"""


class BrowserError(Exception):
    """The browser did not do what it was asked."""


def find_browser() -> str | None:
    """Return the path of an installed browser."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One browser with one page, driven by its debugging protocol."""

    def __init__(self, program: str) -> None:
        self._profile = tempfile.TemporaryDirectory(prefix="bandstand-browser-", ignore_cleanup_errors=True)
        to_child, self._to = _pipe()
        self._from, from_child = _pipe()
        log = str(Path(self._profile.name) / "log.txt")
        arguments = [program, *OPTIONS, f"--user-data-dir={self._profile.name}", "about:blank"]
        # The protocol is spoken on the descriptors 3 and 4 of the browser.
        self._process = os.posix_spawn(
            program,
            arguments,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
                (os.POSIX_SPAWN_DUP2, to_child, 3),
                (os.POSIX_SPAWN_DUP2, from_child, 4),
            ],
        )
        os.close(to_child)
        os.close(from_child)
        self._buffer = b""
        self._count = 0
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End the browser."""
        os.close(self._to)
        os.close(self._from)
        os.kill(self._process, signal.SIGTERM)
        os.waitpid(self._process, 0)
        self._profile.cleanup()

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """Call a method of the protocol, and return its result.

        Raises:
            BrowserError: it failed.
        """
        self._count += 1
        request: dict[str, object] = {"id": self._count, "method": method, "params": params}
        if self._session is not None:
            request["sessionId"] = self._session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        deadline = time.monotonic() + PATIENCE
        while True:
            message = self._read(deadline, method)
            if message.get("id") == self._count:
                if "error" in message:
                    raise BrowserError(f"{method}: {message['error']['message']}")
                result: dict[str, Any] = message["result"]
                return result
            self._events.append(message)

    def open(self, url: str) -> list[str]:
        """Open a page, and return the errors of its console."""
        self._events.clear()
        self.call("Page.navigate", url=url)
        deadline = time.monotonic() + PATIENCE
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            self._events.append(self._read(deadline, url))
        # So that what the page does when it has loaded is reported as well.
        self.evaluate("new Promise(done => setTimeout(done, 50))")
        return [error for error in map(_console_error, self._events) if error is not None]

    def evaluate(self, expression: str) -> Any:
        """Evaluate an expression of JavaScript; if it is a promise, await it.

        Raises:
            BrowserError: it raised.
        """
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise BrowserError(str(result["exceptionDetails"]["exception"].get("description", result)))
        return result["result"].get("value")

    def resize(self, width: int, scheme: str) -> None:
        """Set the width of the window and the preferred colours."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            screenWidth=width,
            screenHeight=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, file: Path) -> None:
        """Write a screenshot of the whole page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], TALLEST), "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(shot["data"]))

    def _read(self, deadline: float, waiting_for: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self._from, 1 << 20) if ready else b""
            if not data:
                raise BrowserError(
                    f"{waiting_for}: the browser {'has ended' if ready else 'does not answer'}"
                )
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message


def _pipe() -> tuple[int, int]:
    """Return a pipe whose descriptors do not collide with those of the browser, 3 and 4."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


def _console_error(event: dict[str, Any]) -> str | None:
    params = event.get("params", {})
    match event.get("method"):
        case "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            return f"an exception: {details.get('exception', {}).get('description', details['text'])}"
        case "Runtime.consoleAPICalled" if params["type"] == "error":
            return f"console.error: {' '.join(str(each.get('value', '')) for each in params['args'])}"
        case "Log.entryAdded" if params["entry"]["level"] == "error":
            return f"{params['entry']['text']} {params['entry'].get('url', '')}".strip()
        case _:
            return None


@contextmanager
def browser(program: str) -> Generator[Browser]:
    """Run a browser for a block."""
    running = Browser(program)
    try:
        yield running
    finally:
        running.close()


@contextmanager
def served(folder: Path) -> Generator[str]:
    """Serve a folder on this machine; the address, with a slash at the end."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name in the base class
        """Log nothing."""


# -- links: every page, without the browser ------------------------------------------------------------------------------

_TAG = re.compile(
    r"<(?:a|img|link|script|source)\b[^>]*?\s(href|src)=(\"[^\"]*\"|'[^']*'|[^\s>]+)", re.IGNORECASE
)
_ID = re.compile(r"\s(?:id|name)=(\"[^\"]*\"|'[^']*'|[^\s>]+)", re.IGNORECASE)


def broken_links(site: Path) -> list[str]:
    """Return the internal links of all pages of a built site that lead nowhere, with their anchors."""
    texts = {page: page.read_text("utf-8") for page in sorted(site.rglob("*.html"))}
    anchors = {
        page: {unescape(each.strip("\"'")) for each in _ID.findall(text)} for page, text in texts.items()
    }
    problems: list[str] = []
    for page, text in texts.items():
        if page.name == "404.html":
            continue
        base = "http://site/" + page.relative_to(site).as_posix().removesuffix("index.html")
        for link in sorted({unescape(value.strip("\"'")) for _, value in _TAG.findall(text)}):
            target, anchor = urldefrag(urljoin(base, link))
            parts = urlsplit(target)
            if parts.scheme not in {"http", "https"} or parts.netloc != "site":
                continue
            file = site / unquote(parts.path).lstrip("/")
            file = file / "index.html" if file.is_dir() else file
            where = f"{page.relative_to(site).as_posix()}: {link}"
            if not file.exists():
                problems.append(f"{where} leads nowhere")
            elif anchor and file in anchors and unquote(anchor) not in anchors[file] | {"__"}:
                problems.append(f"{where} has no such anchor")
    return problems


# -- pages in the browser ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class View:
    """One page at one width in one colour scheme."""

    page: str
    width: int
    scheme: str

    def __str__(self) -> str:
        return f"{self.page or 'index'} ({self.width} px, {self.scheme})"

    @property
    def file(self) -> str:
        """The name of the screenshot."""
        page = re.sub(r"\W+", "-", self.page.removesuffix(".html").strip("/")) or "index"
        return f"{page}-{self.width}-{self.scheme}.png"


def look(seer: Browser, address: str, view: View, shots: Path | None) -> list[str]:
    """Open a page, and return what is wrong with it."""
    seer.resize(view.width, view.scheme)
    problems = seer.open(address + view.page)
    problems += seer.evaluate(LOOK)
    if shots is not None:
        seer.screenshot(shots / view.file)
    return [f"{view}: {problem}" for problem in dict.fromkeys(problems)]


def check(site: Path, pages: Iterable[str], program: str, shots: Path | None) -> list[str]:
    """Look at pages of a built site in all widths and schemes, and check the links of all its pages."""
    problems = broken_links(site)
    with served(site) as address, browser(program) as seer:
        for page in pages:
            for scheme in SCHEMES:
                for width in WIDTHS:
                    problems += look(seer, address, View(page, width, scheme), shots)
    return problems


def build(site: Path) -> None:
    """Build the documentation. Warnings are errors.

    Raises:
        SystemExit: it cannot be built.
    """
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    environment = {**os.environ, "DISABLE_MKDOCS_2_WARNING": "true", "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{done.stdout}{done.stderr}\nbrowser: the documentation cannot be built")


def pages_of(site: Path, chosen: Iterable[str]) -> list[str]:
    """Return the addresses of the pages in a built site: those of the chosen Markdown files and folders, or all."""
    found = [page.parent.relative_to(site).as_posix() for page in sorted(site.rglob("index.html"))]
    pages = ["" if page == "." else f"{page}/" for page in found]
    wanted = list(chosen)
    if not wanted:
        return pages
    # A file is one page, a folder all pages in it.
    files = {
        re.sub(r"(^|/)index\.md$", "", each).removesuffix(".md").strip("/")
        for each in wanted
        if each.endswith(".md")
    }
    folders = tuple(f"{each.strip('/')}/" for each in wanted if not each.endswith(".md"))
    return [page for page in pages if page.rstrip("/") in files or page.startswith(folders)]


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pages", nargs="*", help="pages and folders below docs; all by default")
    parser.add_argument("--ready", action="store_true", help="only say whether a browser is installed")
    parser.add_argument("--site", type=Path, help="a site that is built already")
    options = parser.parse_args()
    program = find_browser()
    if program is None:
        print(f"browser: none of {', '.join(NAMES)} is installed: apt-get install chromium", file=sys.stderr)
        return 2
    if options.ready:
        print(program)
        return 0
    site = options.site or ROOT / "build" / "site"
    if options.site is None:
        build(site)
    shots = ROOT / "build" / "screenshots"
    shutil.rmtree(shots, ignore_errors=True)
    pages = pages_of(site, options.pages)
    problems = check(site, pages, program, shots)
    for problem in problems:
        print(problem, file=sys.stderr)
    views = len(pages) * len(WIDTHS) * len(SCHEMES)
    print(
        f"browser: {len(pages)} pages, {views} screenshots in {shots.relative_to(ROOT)}, {len(problems)} problems"
    )
    return 1 if problems or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
