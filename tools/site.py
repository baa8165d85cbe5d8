"""Put the pages of the documentation in the order somebody new reads them.

No page is listed: each is found by its place, so none can be written and then forgotten. Only what comes first is said here;
the rest follows by the alphabet, as before.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ("FIRST", "arrange", "on_nav")

# Pages at the top by their file, sections by their folder.
FIRST = (
    "index.md",
    "tutorial.md",
    "concepts.md",
    "howto",
    "examples",
    "semantics.md",
    "reference",
    "raw.md",
    "architecture.md",
    "decisions",
    "requirements.md",
)
TITLES = {"Howto": "How to"}


class _File(Protocol):
    src_uri: str


class Item(Protocol):
    """What stands in the navigation: a page, which has a file, or a section, which has children."""

    title: str | None
    children: list[Item] | None

    @property
    def file(self) -> _File:
        """Where a page lies."""
        ...


class Navigation(Protocol):
    """All that stands in the navigation."""

    items: list[Item]


def arrange(items: list[Item]) -> list[Item]:
    """The items at the top, those first that are to be read first."""
    for item in items:
        # A page is left alone: its title is read from it later, unless somebody has set one.
        if item.children and item.title in TITLES:
            item.title = TITLES[item.title]
    return sorted(items, key=lambda item: _rank(_place(item)))


def on_nav(nav: Navigation, **_: object) -> Navigation:
    """Called by MkDocs when it has found all pages."""
    nav.items[:] = arrange(nav.items)
    return nav


def _place(item: Item) -> str:
    """The file of a page, or the folder of a section: that of the first page in it."""
    return _place(item.children[0]).partition("/")[0] if item.children else item.file.src_uri


def _rank(place: str) -> tuple[int, str]:
    return (FIRST.index(place) if place in FIRST else len(FIRST), place)
