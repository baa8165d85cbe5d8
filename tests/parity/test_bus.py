"""The compiled modules of the bus do the same in both modes."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from bandstand.errors import BandstandError
from tests.parity.builds import Build, both_builds

TEXTS = st.text(alphabet='[]{}"\\a,:', max_size=60).map(str.encode)


def lines_of(build: Build, chunks: list[bytes]) -> list[bytes]:
    splitter = build["bandstand.bus.wire.LineSplitter"](20)
    cut: list[bytes] = []
    for chunk in chunks:
        splitter.feed(chunk)
        while batch := splitter.cut():
            cut += batch
    splitter.end()
    cut += splitter.cut()
    return cut


@pytest.mark.slow
@given(chunks=st.lists(st.binary(max_size=30) | st.sampled_from([b"\n", b"a\nb", b"x" * 25]), max_size=20))
def test_bytes_are_cut_alike(chunks: list[bytes]) -> None:
    interpreted, compiled = both_builds()
    assert lines_of(interpreted, chunks) == lines_of(compiled, chunks)


@given(text=TEXTS, limit=st.integers(0, 5))
def test_depth_is_seen_alike(text: bytes, limit: int) -> None:
    interpreted, compiled = both_builds()
    assert interpreted["bandstand.bus.wire.is_deeper"](text, limit) == compiled[
        "bandstand.bus.wire.is_deeper"
    ](text, limit)


@given(sizes=st.lists(st.integers(0, 12), max_size=60))
def test_the_log_keeps_alike(sizes: list[int]) -> None:
    kept: list[tuple[list[str], int, int]] = []
    for build in both_builds():
        log = build["bandstand.bus.message_log.MemoryLog"](messages=5, bytes=10)
        for number, size in enumerate(sizes):
            metadata = build.bus.Metadata(str(number), 0)
            log.append(build.bus.Frame(kind="event", type="A.B", data=Raw(b"x" * size), metadata=metadata))
        kept.append(([frame.metadata.id for frame in log.recent(100)], log.held_bytes, log.skipped))
    assert kept[0] == kept[1]


@given(
    steps=st.lists(st.integers(-2_000_000, 2_000_000), max_size=30),
    chance=st.binary(min_size=10, max_size=10),
)
def test_ids_are_made_alike(steps: list[int], chance: bytes) -> None:
    def draw(_count: int) -> bytes:
        return chance

    made: list[list[str]] = []
    for build in both_builds():
        now = 1_767_910_000_000_000_000
        times = iter([now := now + step for step in steps])
        make = build["bandstand.bus.frame.IdGenerator"](partial(next, times), draw)
        made.append([make() for _ in steps])
    assert made[0] == made[1]


def test_a_codec_checks_alike() -> None:
    texts: list[list[str]] = []
    for build in both_builds():
        codec = build["bandstand.bus.contracts.codec.PayloadCodec"](int | None, "query A.B")
        assert codec.read(b"5") == codec.read(b"5.0") == 5
        assert bytes(codec.write(7)) == b"7"
        assert bytes(codec.write(None)) == b"null"
        texts.append([])
        for call, value in (
            (codec.read, b"x"),
            (codec.read, b"1.5"),
            (codec.write, "x"),
            (codec.write, float("nan")),
        ):
            with pytest.raises(BandstandError) as caught:
                call(value)
            texts[-1].append(str(caught.value))
    assert texts[0] == texts[1]


TABLE_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["enter", "keep", "keep", "leave", "expire"]), st.integers(0, 5), st.integers(0, 9)
    ),
    max_size=60,
)


@given(steps=TABLE_STEPS)
def test_the_request_table_keeps_alike(steps: list[tuple[str, int, int]]) -> None:
    transcripts: list[list[object]] = []
    for build in both_builds():
        table, now = build["bandstand.bus.request_table.RequestTable"](3, 20, 10.0), 0.0
        credit = build["bandstand.bus.admission.CreditLimit"](100, True)  # noqa: FBT003  # by position in C
        heard: list[object] = []
        for way, number, size in steps:
            now += size
            name = f"q{number}"
            metadata = build.bus.Metadata(name, 0)
            asked = build.bus.Frame(kind="query", type="A.B", data=Raw(b"x" * size), metadata=metadata)
            found = table.find(name)
            if way == "enter":
                pending = build["bandstand.bus.request.PendingRequest"](None, asked, credit, False)  # noqa: FBT003
                heard.append(table.enter(pending))
            elif way == "expire":
                table.expire(now)
            elif found is not None and getattr(found, "stage", None) == 0:
                found.stage = 2
                if way == "keep":
                    table.keep(found, asked, now)
                else:
                    table.leave(found)
            heard.append((len(table), table.held_bytes, table.count_open(), len(table.open_requests())))
            assert len(table) <= 3
            assert table.held_bytes <= 20
            assert table.count_open() == len(table.open_requests())
        transcripts.append(heard)
    assert transcripts[0] == transcripts[1]
