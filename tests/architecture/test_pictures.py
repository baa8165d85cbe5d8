"""The pictures of the documentation match the texts that they are drawn from."""

import re
from pathlib import Path

import pytest

from tests.architecture import package_layout
from tools import pictures

pytestmark = pytest.mark.once


def test_every_picture_is_up_to_date() -> None:
    assert list(pictures.FOLDER.glob("*.txt"))
    assert pictures.problems(pictures.FOLDER) == []


def test_every_picture_is_shown_and_described() -> None:
    pages = "".join(page.read_text("utf-8") for page in (package_layout.ROOT / "docs").rglob("*.md"))
    shown = set(re.findall(r"!\[[^\]]{20,}\]\([^)]*pictures/([^)]+)\)", pages))
    assert shown == {picture.name for picture in pictures.FOLDER.glob("*.svg")}


def test_a_picture_that_is_missing_outdated_or_left_over_is_reported(tmp_path: Path) -> None:
    text = tmp_path / "box.txt"
    text.write_text("┌─┐\n│a│\n└─┘\n", "utf-8")
    assert pictures.problems(tmp_path) == ["box.txt has no picture: run make pictures"]
    assert [picture.name for picture in pictures.draw_all(tmp_path)] == ["box.svg"]
    assert pictures.problems(tmp_path) == []
    text.write_text("┌─┐\n│b│\n└─┘\n", "utf-8")
    assert pictures.problems(tmp_path) == ["box.svg does not match box.txt: run make pictures"]
    text.unlink()
    assert pictures.problems(tmp_path) == ["box.svg has no source text: remove it, or write box.txt"]


def test_boxes_become_lines_and_words_stay_text() -> None:
    drawn = pictures.draw("┌─┐\n│a│\n└─┘──▶ <b & c>\n")
    assert 'd="M16 21H32M16 57H32M36 57H52M16 21V57M32 21V57"' in drawn
    assert ">a</text>" in drawn
    assert ">&lt;b &amp; c&gt;</text>" in drawn
    assert drawn.count("<polygon") == 1
