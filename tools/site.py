"""Sort the pages of the documentation: those for new users come first.

MkDocs finds the pages itself, so a new page cannot be forgotten. This lists only what comes first; all other pages follow in
alphabetical order.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ("FIRST", "arrange", "on_nav")

# Top-level pages by their file, sections by their folder.
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
    """An entry of the navigation: a page, which has a file, or a section, which has children."""

    title: str | None
    children: list[Item] | None

    @property
    def file(self) -> _File:
        """The file of a page."""
        ...


class Navigation(Protocol):
    """The navigation."""

    items: list[Item]


def arrange(items: list[Item]) -> list[Item]:
    """Return the top-level items in reading order."""
    for item in items:
        # Do not set the title of a page: MkDocs reads it from the page later, unless it is set.
        if item.children and item.title in TITLES:
            item.title = TITLES[item.title]
    return sorted(items, key=lambda item: _rank(_place(item)))


def on_nav(nav: Navigation, **_: object) -> Navigation:
    """MkDocs calls this hook after it has found all pages."""
    nav.items[:] = arrange(nav.items)
    return nav


def _place(item: Item) -> str:
    """Return the file of a page, or the folder of a section: that of its first page."""
    return _place(item.children[0]).partition("/")[0] if item.children else item.file.src_uri


def _rank(place: str) -> tuple[int, str]:
    return (FIRST.index(place) if place in FIRST else len(FIRST), place)
