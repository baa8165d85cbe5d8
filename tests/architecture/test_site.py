"""The order of the pages of the documentation: what somebody new reads comes first, and nothing is left out."""

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


def test_what_is_read_first_comes_first_and_all_others_follow() -> None:
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


def test_a_page_keeps_the_title_that_is_read_later() -> None:
    class Page(Item):
        def __setattr__(self, name: str, value: object) -> None:
            assert name != "title" or "title" not in vars(self), "a title that is set is not read any more"
            super().__setattr__(name, value)

    assert len(site.arrange([Page(None, File("index.md")), Page(None, File("zoo.md"))])) == 2


def test_whatever_is_said_to_come_first_is_there() -> None:
    assert [place for place in site.FIRST if not (package_layout.ROOT / "docs" / place).exists()] == []
