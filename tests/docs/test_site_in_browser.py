"""tools/browser.py: what it reports about a page, and that pages of the documentation have nothing to report.

The tests that open pages need Chromium or Chrome. `.ci/run` installs it where it can, and says so where it cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tools import browser

pytestmark = [
    pytest.mark.once,
    pytest.mark.slow,
    pytest.mark.real_time(reason="a real browser"),
    pytest.mark.timeout(300),
]

PROGRAM = browser.find_browser()
needs_browser = pytest.mark.skipif(
    PROGRAM is None, reason="no browser is installed, so no page was looked at: apt-get install chromium"
)

GOOD = """<!doctype html><title>x</title><link rel="icon" href="data:,">
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<style>@media (prefers-color-scheme: dark) { html { background: #111; color: #eee } }</style>
<h1 id="top">Title</h1><p>Text with a <a href="#top">link</a>.</p>"""


@pytest.fixture(scope="module")
def seer() -> Iterator[browser.Browser]:
    assert PROGRAM is not None
    with browser.browser(PROGRAM) as running:
        yield running


def problems_of(
    seer: browser.Browser, folder: Path, html: str, width: int = 390, scheme: str = "light"
) -> list[str]:
    (folder / "index.html").write_text(html, "utf-8")
    with browser.served(folder) as address:
        return browser.look(seer, address, browser.View("", width, scheme), folder / "shots")


@needs_browser
@pytest.mark.parametrize("scheme", browser.SCHEMES)
def test_a_good_page_has_no_problems(seer: browser.Browser, tmp_path: Path, scheme: str) -> None:
    assert problems_of(seer, tmp_path, GOOD, scheme=scheme) == []
    assert (tmp_path / "shots" / f"index-390-{scheme}.png").read_bytes().startswith(b"\x89PNG")


@needs_browser
@pytest.mark.parametrize(
    ("addition", "problem"),
    [
        ("<div style='width: 500px'>wide</div>", " px wide: <div> wide"),
        ("<p style='color: #999; background: #fff'>faint</p>", "contrast 2.8 is below 4.5: <p> faint"),
        ("<p style='opacity: 0.3'>faint</p>", "contrast 2.1 is below 4.5: <p> faint"),
        ("<img src='missing.png' alt='x'>", "an image does not load: missing.png"),
        ("<script>console.error('broken')</script>", "console.error: broken"),
        ("<script>throw new Error('broken')</script>", "an exception: Error: broken"),
        ("<style>html { background: #000; color: #fff } a { color: #ccf }</style>", "the background is dark"),
    ],
)
def test_it_reports(seer: browser.Browser, tmp_path: Path, addition: str, problem: str) -> None:
    assert any(problem in each for each in problems_of(seer, tmp_path, GOOD + addition))


@needs_browser
def test_a_page_that_is_too_wide_is_reported(seer: browser.Browser, tmp_path: Path) -> None:
    html = GOOD + "<div style='width: 800px'>wide</div>"
    assert problems_of(seer, tmp_path, html, width=1280) == []
    assert len(problems_of(seer, tmp_path, html, width=390)) == 1


def test_it_reports_links_and_anchors_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "guide").mkdir()
    (tmp_path / "index.html").write_text(
        '<a href="guide/#there">x</a><a href="guide/#nowhere">x</a><a href="gone/">x</a><a href="https://example.org/">x</a>',
        "utf-8",
    )
    (tmp_path / "guide" / "index.html").write_text('<h2 id="there">x</h2><img src="../gone.svg">', "utf-8")
    assert browser.broken_links(tmp_path) == [
        "guide/index.html: ../gone.svg leads nowhere",
        "index.html: gone/ leads nowhere",
        "index.html: guide/#nowhere has no such anchor",
    ]


def test_pages_are_chosen_by_their_markdown_files_and_folders(tmp_path: Path) -> None:
    for page in ("", "bus", "bus/errors", "tutorial", "guides/asks", "guides/timers"):
        (tmp_path / page).mkdir(parents=True, exist_ok=True)
        (tmp_path / page / "index.html").write_text("", "utf-8")
    assert len(browser.pages_of(tmp_path, [])) == 6
    assert browser.pages_of(tmp_path, ["bus/index.md"]) == ["bus/"]
    assert browser.pages_of(tmp_path, ["bus"]) == ["bus/errors/", "bus/"]
    assert browser.pages_of(tmp_path, ["index.md", "tutorial.md"]) == ["", "tutorial/"]
    assert browser.pages_of(tmp_path, ["guides"]) == ["guides/asks/", "guides/timers/"]
    assert browser.pages_of(tmp_path, ["nowhere.md"]) == []


# One page of each kind: prose, pictures, tables, long code, the reference, charts.
PAGES = (
    "index.md",
    "concepts.md",
    "install.md",
    "performance.md",
    "guides/supervision.md",
    "reference/errors.md",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    browser.build(folder)
    return folder


def test_no_link_of_the_site_is_broken(site: Path) -> None:
    assert browser.broken_links(site) == []


@needs_browser
@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_the_site_is_readable(site: Path, seer: browser.Browser, page: str) -> None:
    (address,) = browser.pages_of(site, [page])
    with browser.served(site) as base:
        for scheme in browser.SCHEMES:
            for width in browser.WIDTHS:
                assert browser.look(seer, base, browser.View(address, width, scheme), None) == []


def test_internal_members_are_not_in_the_reference(site: Path) -> None:
    shown = "".join(page.read_text("utf-8") for page in (site / "reference").rglob("index.html"))
    for name in (
        "core.Loop.run",
        "actor.Actor.on_start",
        "pod.Troupe.play",
        "bus.Node.tap",
        "scope.Channel.send",
    ):
        assert f'id="bandstand.{name}"' in shown, name
    for name in (
        "core.Loop.kernel",
        "core.RuntimeEvents.admit_crash",
        "actor.ActorSystem.runner",
        "actor.ActorSystem.start_actor",
        "supervision.Supervisor.spend_restarts",
        "pod.Phases.publish",
        "bus.scheduler.Scheduler",
    ):
        assert f'id="bandstand.{name}"' not in shown, name
    assert 'id="bandstand.bus.Command.__' not in shown
