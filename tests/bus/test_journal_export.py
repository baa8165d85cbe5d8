"""Exports of a journal: lines of JSON from which every record can be made again, in a file that is complete or not there."""

from __future__ import annotations

import base64
import gzip
import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.bus.durable.export import entry_line, export
from bandstand.bus.durable.reader import Selection, entries_of
from bandstand.bus.durable.records import (
    ANSWER,
    BEGAN,
    BOOT,
    DATA,
    DEAD_ENDED,
    ENDED,
    FROM_CLIENT,
    IS_BEGUN,
    IS_DOUBTFUL,
    IS_REMEMBERED,
    KIND_NAMES,
    REQUEST,
    TIMER_ENDED,
)
from bandstand.errors import JournalError
from bandstand.journal import Page, Record
from bandstand.persistence.records import ENTITY_EVENT, EventHead, event_record
from tests.bus.node_journals import (
    NOON,
    answer,
    checkpoint,
    dead,
    entity_event,
    event,
    frame,
    numbers_record,
    request,
    timer,
)

KINDS = {name: number for number, name in KIND_NAMES.items()}

texts = st.text(min_size=1, max_size=20)
messages = st.builds(frame, texts, st.sampled_from(["command", "event", "reply"]), texts)
values = st.integers(0, (1 << 64) - 1)


def ended(kind: int, name: str) -> Record:
    return Record(kind, name.encode())


records = st.one_of(
    st.builds(request, values, messages, st.integers(0, 255)),
    st.builds(answer, values, messages, st.sampled_from([0, IS_REMEMBERED, IS_DOUBTFUL])),
    st.builds(numbers_record, st.sampled_from([BEGAN, ENDED]), st.lists(values)),
    st.builds(event, messages),
    st.builds(timer, texts, messages),
    st.builds(dead, messages),
    st.builds(entity_event, texts, st.integers(1, 9), messages),
    st.builds(ended, st.sampled_from([TIMER_ENDED, DEAD_ENDED]), texts),
    st.just(Record(BOOT, b'{"version":"1","at":5,"pid":7}')),
    st.just(Record(DATA, b'{"owner":"entities","data":{"a":[1,null]}}')),
    st.builds(Record, st.integers(100, 255), st.binary()),
)


def page(number: int, *records: Record) -> Page:
    return Page(number, NOON, records, 0)


def record_of(line: bytes) -> Record:
    """Make a record again from its line."""
    fields: dict[str, Any] = json.loads(line)
    # As bytes: a message is in the line as it was on the wire.
    raw = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    kind = KINDS.get(fields["kind"]) or int(fields["kind"])
    names = {
        "begun": IS_BEGUN,
        "remembered": IS_REMEMBERED,
        "doubtful": IS_DOUBTFUL,
        "fromClient": FROM_CLIENT,
    }
    flags = sum(names.get(name) or int(name) for name in fields.get("flags", ()))
    if kind == REQUEST:
        head = struct.pack("<QQB", fields["number"], fields["acceptedAt"], flags)
        return Record(kind, head + bytes(raw["message"]))
    if kind == ANSWER:
        return Record(kind, struct.pack("<QB", fields["number"], flags) + bytes(raw["message"]))
    if kind in {BEGAN, ENDED}:
        return numbers_record(kind, fields["numbers"])
    if kind in {TIMER_ENDED, DEAD_ENDED}:
        return Record(kind, fields["id"].encode())
    if kind == ENTITY_EVENT:
        return event_record(EventHead(**fields["entity"]), bytes(raw["message"]))
    if "message" in raw:
        return Record(kind, bytes(raw["message"]))
    return Record(
        kind, bytes(raw["content"]) if "content" in raw else base64.b64decode(fields.get("bytes", ""))
    )


def lines_of(path: Path) -> list[bytes]:
    return gzip.decompress(path.read_bytes()).splitlines()


@pytest.mark.guarantee("G506")
class TestExport:
    @given(found=st.lists(records, max_size=6))
    def test_every_record_can_be_made_again(self, found: list[Record]) -> None:
        lines = [entry_line(entry) for entry in entries_of(page(7, *found))]
        assert [record_of(line) for line in lines] == found
        assert all(b"\n" not in line for line in lines)

    def test_a_line_says_where_and_when(self) -> None:
        (line,) = [
            entry_line(entry)
            for entry in entries_of(page(12, request(7, frame("a"), IS_BEGUN | FROM_CLIENT | 64)))
        ]
        assert json.loads(line) == {
            "offset": "12-1",
            "at": NOON,
            "kind": "request",
            "number": 7,
            "acceptedAt": NOON,
            "flags": ["begun", "fromClient", "64"],
            "message": {
                "kind": "command",
                "type": "Orders.Place",
                "data": {"item": "teapot"},
                "metadata": {"id": "a", "timestamp": NOON},
            },
        }

    def test_the_file_has_the_records_that_are_selected(self, tmp_path: Path) -> None:
        path = tmp_path / "log.ndjson.gz"
        pages = [
            page(1, request(1, frame("a")), event(frame("b", "event"))),
            page(2, *checkpoint(request(1, frame("a")))),
        ]
        seen: list[int] = []
        done = export(path, pages, on_page=lambda each: seen.append(each.number))
        assert (done.pages, done.records, seen) == (2, 4, [1, 2])
        assert [json.loads(line).get("copy", False) for line in lines_of(path)] == [False, False, False, True]
        done = export(path, pages, Selection(kinds=["event"]))
        assert (done.pages, done.records) == (2, 1)
        assert [json.loads(line)["kind"] for line in lines_of(path)] == ["event"]

    def test_the_same_pages_make_the_same_file(self, tmp_path: Path) -> None:
        first, second = tmp_path / "a.gz", tmp_path / "b.gz"
        for path in (first, second):
            export(path, [page(1, event(frame("b", "event")))])
        assert first.read_bytes() == second.read_bytes()

    def test_after_an_error_there_is_no_file(self, tmp_path: Path) -> None:
        path = tmp_path / "log.ndjson.gz"

        def pages() -> Iterator[Page]:
            yield page(1, event(frame("b", "event")))
            raise JournalError("page 2 was deleted")

        with pytest.raises(JournalError):
            export(path, pages())
        assert os.listdir(tmp_path) == []

    def test_a_file_that_exists_is_kept_until_the_new_one_is_complete(self, tmp_path: Path) -> None:
        path = tmp_path / "log.ndjson.gz"
        path.write_text("old")

        def pages() -> Iterator[Page]:
            yield page(1, event(frame("b", "event")))
            assert path.read_text() == "old"
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            export(path, pages())
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["log.ndjson.gz"]
        export(path, [])
        assert lines_of(path) == []

    def test_a_directory_that_does_not_exist_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            export(tmp_path / "nowhere" / "log.ndjson.gz", [])
