"""The order of the documentation pages: those for new users come first, and no page is left out."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.architecture import package_layout
from tools import site

pytestmark = pytest.mark.once


@dataclass
class File:
    src_uri: str


@dataclass
class Item:
    title: str | None
    file: File = field(default_factory=lambda: File(""))
    children: list[site.Item] | None = None


def page(uri: str) -> Item:
    return Item(title=None, file=File(uri))


def test_the_listed_pages_come_first_and_all_others_follow() -> None:
    howto = Item("Howto", children=[page("howto/asking.md")])
    found: list[site.Item] = [
        page("architecture.md"),
        page("zoo.md"),
        howto,
        page("tutorial.md"),
        page("ants.md"),
    ]
    arranged = site.arrange(found)
    assert [item.title or item.file.src_uri for item in arranged] == [
        "tutorial.md",
        "How to",
        "architecture.md",
        "ants.md",
        "zoo.md",
    ]


def test_the_title_of_a_page_is_left_to_mkdocs() -> None:
    class Page(Item):
        def __setattr__(self, name: str, value: object) -> None:
            assert name != "title" or "title" not in vars(self), (
                "MkDocs does not read the title of the page if it is set"
            )
            super().__setattr__(name, value)

    assert len(site.arrange([Page(None, File("index.md")), Page(None, File("zoo.md"))])) == 2


def test_the_listed_pages_exist() -> None:
    assert [place for place in site.FIRST if not (package_layout.ROOT / "docs" / place).exists()] == []
