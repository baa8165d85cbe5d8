"""Tokens: what one is, where it may lie, and that it is never shown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.bus import Token
from bandstand.errors import InvalidArgumentError

pytestmark = [pytest.mark.once, pytest.mark.spec("C17"), pytest.mark.guarantee("G196")]

GOOD = "0123456789abcdef"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.touch(0o600)
    return path


@pytest.mark.parametrize("content", [GOOD, f"{GOOD}\n", f"{GOOD}\r\n"])
def test_it_is_the_one_line_of_its_file(file: Path, content: str) -> None:
    file.write_bytes(content.encode())
    token = Token.read(file)
    assert token.value == GOOD
    assert token.is_shown_by(GOOD)


@given(st.text())
def test_nothing_else_is_it(said: str) -> None:
    assert Token(GOOD).is_shown_by(said) is (said == GOOD)
    assert not Token(GOOD).is_shown_by(said + "\ud800")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o666, 0o601])
def test_a_file_that_others_can_get_at_is_refused_in_a_sentence(file: Path, mode: int) -> None:
    file.write_text(GOOD)
    file.chmod(mode)
    with pytest.raises(
        InvalidArgumentError, match=f"has mode {mode:04o}, so other users can read or write it: chmod 600"
    ):
        Token.read(file)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(GOOD)
    os.chown(file, 12345, 12345)
    with pytest.raises(InvalidArgumentError, match="belongs to another user"):
        Token.read(file)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "has 0 characters, but needs 16 to 1024"),
        (b"\n", "has 0 characters"),
        (b"short\n", "has 5 characters"),
        (b"x" * 1025, "has 1025 characters"),
        (b"0123456789 abcdef", "has spaces"),
        (b"0123456789abcdef\n\n", "has spaces, line breaks"),
        (b"0123456789abcde\xff", "not ASCII"),
        (b"0123456789abcde\0", "has spaces, line"),
    ],
)
def test_what_is_no_token_is_refused_and_not_shown(file: Path, content: bytes, said: str) -> None:
    file.write_bytes(content)
    with pytest.raises(InvalidArgumentError, match=said) as caught:
        Token.read(file)
    assert "0123456789" not in str(caught.value)
    assert "openssl rand" in str(caught.value)


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name, said in (("pipe", "not a regular file"), ("none", "No such file"), (".", "not a regular file")):
        with pytest.raises(InvalidArgumentError, match=said):
            Token.read(tmp_path / name)
    with pytest.raises(InvalidArgumentError, match="embedded null byte"):
        Token.read("a\0b")


@pytest.mark.parametrize("value", ["short", "", "x" * 1025, "spaces in the middle of", None, 5, b"x" * 20])
def test_one_that_is_made_in_a_program_is_checked_as_well(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"the token (has|is a)"):
        Token(value)


def test_it_does_not_show_itself() -> None:
    assert GOOD not in repr(Token(GOOD))
    assert GOOD not in f"{Token(GOOD)}"
