"""Lines cut from chunks: however the bytes come, the lines are the same, and what is kept is bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.bus.wire import LINES_PER_BATCH, OVERLONG, LineSplitter

pytestmark = [pytest.mark.spec("C17")]

LONGEST = 8
TEXTS = st.lists(st.binary(max_size=12).map(lambda text: text.replace(b"\n", b"")), max_size=12)


def everything(cutter: LineSplitter) -> list[bytes]:
    lines: list[bytes] = []
    while batch := cutter.cut():
        assert len(batch) <= LINES_PER_BATCH
        lines += batch
    return lines


def model(texts: list[bytes]) -> list[bytes]:
    """What is to be handled: no empty ones, which say nothing, and a mark for each that is too long."""
    return [OVERLONG if len(text) > LONGEST else text for text in texts if text]


@pytest.mark.slow
@given(texts=TEXTS, has_last_end=st.booleans(), data=st.data())
def test_any_chunking_gives_the_same_lines(
    texts: list[bytes], has_last_end: bool, data: st.DataObject
) -> None:
    stream = b"\n".join(texts) + (b"\n" if has_last_end else b"")
    cutter = LineSplitter(LONGEST)
    lines: list[bytes] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        cutter.feed(stream[:size])
        stream = stream[size:]
        if data.draw(st.booleans()):
            lines += everything(cutter)
    cutter.end()
    lines += everything(cutter)
    assert [line for line in lines if line] == model(texts)


@given(chunks=st.lists(st.binary(max_size=30), max_size=40))
def test_what_is_kept_is_no_more_than_a_line_and_a_chunk(chunks: list[bytes]) -> None:
    cutter = LineSplitter(LONGEST)
    for chunk in chunks:
        cutter.feed(chunk)
        everything(cutter)
        assert cutter.held() <= LONGEST + 30


def test_a_line_that_is_too_long_is_told_at_once_and_only_once() -> None:
    cutter = LineSplitter(LONGEST)
    told: list[bytes] = []
    for _ in range(100):
        cutter.feed(b"xxxx")
        told += everything(cutter)
    assert told == [OVERLONG]
    assert told[0] is OVERLONG
    cutter.feed(b"yyy\nzzz\n")
    assert [line for line in everything(cutter) if line] == [b"zzz"]


def test_a_line_that_says_what_stands_for_one_too_long_is_a_line() -> None:
    cutter = LineSplitter(100)
    cutter.feed(bytes(bytearray(OVERLONG)) + b"\n")
    (line,) = everything(cutter)
    assert line == OVERLONG
    assert line is not OVERLONG


def test_lines_are_cut_some_at_a_time() -> None:
    cutter = LineSplitter(LONGEST)
    cutter.feed(b"a\n" * (2 * LINES_PER_BATCH) + b"b")
    assert [len(cutter.cut()) for _ in range(3)] == [LINES_PER_BATCH, LINES_PER_BATCH, 0]
    cutter.end()
    assert cutter.cut() == [b"b"]
    assert cutter.cut() == []
