"""The wire: what the specification prints, word for word; what is wrong, named; and nothing but `InvalidMessageError` for strangers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from bandstand.bus.frame import KINDS, LONGEST_TIMEOUT_MS, Frame, Metadata
from bandstand.bus.wire import DECODE_ERRORS, is_deeper, read_frame, read_plain, split_problem, write_frame
from bandstand.errors import InvalidMessageError

pytestmark = [pytest.mark.spec("C1"), pytest.mark.guarantee("G72")]

# As the specification prints them, §8.3.1, §8.3.3, §8.3.2, §13.1 and §14.2; where it has dots, something stands for them.
PRINTED = {
    "schedule": """
    {
      "kind": "command",
      "type": "Timer.Schedule",
      "data": {
        "delay": 5000,
        "message": {
          "kind": "command",
          "type": "Memory.Cleanup",
          "data": { "olderThan": 3600000 },
          "metadata": { "id": "scheduled-001", "timestamp": 0 }
        }
      },
      "metadata": { "id": "timer-cmd-001", "timestamp": 1767910000000 }
    }""",
    "scheduled": """
    { "kind": "command", "type": "Memory.Cleanup", "data": { "olderThan": 3600000 },
      "metadata": { "id": "scheduled-001", "timestamp": 0 } }""",
    "cancel": """
    {
      "kind": "command",
      "type": "Timer.Cancel",
      "data": { "timerId": "timer-123" },
      "metadata": { "id": "cancel-001", "timestamp": 1767910000000 }
    }""",
    "timeout": """
    {
      "kind": "error",
      "type": "Sys.Timeout",
      "data": { "originalId": "cmd-123", "message": "Request timed out" },
      "metadata": {
        "id": "err-1", "timestamp": 1767910000000, "causation": "cmd-123", "correlation": "flow-7"
      }
    }""",
    "set": """
    {"kind":"command","type":"Memory.Set","data":{"key":"a","value":[1,2.5,null,"\u00e9"]},"metadata":{"id":"c1","timestamp":1,
     "timeout":250}}""",
    "reply": """
    {"kind":"reply","type":"Memory.Set","data":{},"metadata":{"id":"r1","timestamp":2,"causation":"c1"}}""",
    "boot": """
    {
      "kind": "event",
      "type": "Sys.BootComplete",
      "data": {
        "capabilities": [
          { "id": "Memory", "handles": ["command:Memory.Set", "query:Memory.Get"] },
          { "id": "Http", "handles": ["command:Http.Fetch"] }
        ],
        "subscriptions": {
          "Memory.Changed": ["Audit", "Metrics"]
        },
        "adapters": ["unix:/tmp/pwos.sock"],
        "timers": { "defaultTimeout": 30000 }
      },
      "metadata": { "id": "boot-001", "timestamp": 1767910000000 }
    }""",
}


def compact(text: str) -> bytes:
    """One line, the keys in the order in which they are printed."""
    return json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False).encode()


def line(**changes: Any) -> bytes:
    """A good message but for what is said; None leaves a field out."""
    whole: dict[str, Any] = {
        "kind": "command",
        "type": "Memory.Set",
        "data": {},
        "metadata": {"id": "c1", "timestamp": 1},
    }
    whole.update(changes)
    return json.dumps({key: value for key, value in whole.items() if value is not None}).encode()


def problem_of(text: bytes) -> InvalidMessageError:
    with pytest.raises(InvalidMessageError) as caught:
        read_frame(text)
    return caught.value


# --- what is printed ----------------------------------------------------------------------------------------------------------


class TestWhatIsPrinted:
    @pytest.mark.parametrize("name", PRINTED)
    def test_may_have_white_space_wherever_json_may(self, name: str) -> None:
        spread = read_frame(PRINTED[name].encode())
        assert json.loads(write_frame(spread)) == json.loads(PRINTED[name])

    @pytest.mark.parametrize(
        "data", [b"{}", b"null", b"5", b'"text"', b"[1,2]", b"1.00000000000000000001", b"1e5"]
    )
    def test_data_stays_as_it_came(self, data: bytes) -> None:
        """A number is not rounded on its way through: nobody has looked at it."""
        frame = read_frame(
            b'{"kind":"event","type":"A.B","data":' + data + b',"metadata":{"id":"x","timestamp":1}}'
        )
        assert bytes(frame.data) == data
        assert data in write_frame(frame)

    @pytest.mark.parametrize(
        "order", [("metadata", "data", "type", "kind"), ("data", "metadata", "kind", "type")]
    )
    def test_keys_may_come_in_any_order(self, order: tuple[str, ...]) -> None:
        whole = json.loads(line())
        shuffled = json.dumps({key: whole[key] for key in order}, separators=(",", ":")).encode()
        assert read_frame(shuffled) == read_frame(json.dumps(whole, separators=(",", ":")).encode())

    @pytest.mark.parametrize("stamp", [0, 1, 1767910000000, 1767910000000.5, -1])
    def test_a_time_may_be_whole_or_not(self, stamp: float) -> None:
        assert read_frame(line(metadata={"id": "x", "timestamp": stamp})).metadata.timestamp == stamp

    def test_who_is_owed_an_answer(self) -> None:
        owed = {kind for kind in KINDS if read_frame(line(kind=kind)).is_request}
        assert owed == {"command", "query"}


# --- what is unknown, and what is wrong ---------------------------------------------------------------------------------------


class TestUnknownFields:
    @pytest.mark.parametrize("value", [1, None, {"deep": [1, {"er": 2}]}, "text"])
    def test_are_passed_over(self, value: object) -> None:
        whole: dict[str, Any] = json.loads(line())
        whole["specversion"] = value
        whole["metadata"]["tenant"] = value
        assert read_frame(json.dumps(whole).encode()).metadata == Metadata("c1", 1)


LONG = "x" * 201


class TestWrongFields:
    @pytest.mark.parametrize(
        ("changes", "path"),
        [
            ({"kind": None}, "$"),
            ({"kind": "wish"}, "$.kind"),
            ({"kind": 5}, "$.kind"),
            ({"kind": "Command"}, "$.kind"),
            ({"type": None}, "$"),
            ({"type": ""}, "$.type"),
            ({"type": 5}, "$.type"),
            ({"type": LONG}, "$.type"),
            ({"metadata": None}, "$"),
            ({"metadata": 5}, "$.metadata"),
            ({"metadata": []}, "$.metadata"),
            ({"metadata": {"id": "x"}}, "$.metadata"),
            ({"metadata": {"timestamp": 1}}, "$.metadata"),
            ({"metadata": {"id": "", "timestamp": 1}}, "$.metadata.id"),
            ({"metadata": {"id": 7, "timestamp": 1}}, "$.metadata.id"),
            ({"metadata": {"id": LONG, "timestamp": 1}}, "$.metadata.id"),
            ({"metadata": {"id": "x", "timestamp": "1"}}, "$.metadata.timestamp"),
            ({"metadata": {"id": "x", "timestamp": 1, "causation": 5}}, "$.metadata.causation"),
            ({"metadata": {"id": "x", "timestamp": 1, "correlation": ""}}, "$.metadata.correlation"),
            ({"metadata": {"id": "x", "timestamp": 1, "timeout": 0}}, "$.metadata.timeout"),
            ({"metadata": {"id": "x", "timestamp": 1, "timeout": -5}}, "$.metadata.timeout"),
            ({"metadata": {"id": "x", "timestamp": 1, "timeout": 1.5}}, "$.metadata.timeout"),
            (
                {"metadata": {"id": "x", "timestamp": 1, "timeout": LONGEST_TIMEOUT_MS + 1}},
                "$.metadata.timeout",
            ),
        ],
    )
    def test_are_named_by_their_path(self, changes: dict[str, Any], path: str) -> None:
        found = problem_of(line(**changes))
        assert found.path == path
        assert str(found).startswith("not a message: ")
        assert "`$" not in str(found), "the path is told once, and not inside the sentence as well"

    def test_a_field_that_is_missing_is_named(self) -> None:
        assert "`timestamp`" in str(problem_of(line(metadata={"id": "x"})))

    def test_a_kind_that_is_none_is_answered_with_those_there_are(self) -> None:
        assert str(problem_of(line(kind="wish"))).endswith(
            "a kind is one of command, query, event, reply, error"
        )

    @pytest.mark.parametrize(
        "text", [b"", b" ", b"{", b"nonsense", b'{"kind":"command"', b"{} {}", b"\xff\xfe"]
    )
    def test_what_is_no_json_has_no_path(self, text: bytes) -> None:
        assert problem_of(text).path in {"", "$"}

    @pytest.mark.parametrize("text", [b"5", b"[]", b"null", b'"text"'])
    def test_what_is_no_object_is_wrong_at_the_top(self, text: bytes) -> None:
        assert problem_of(text).path == "$"

    @pytest.mark.parametrize(
        "data", [b"NaN", b"01", b"[1,]", b'"\x01"', b'"\\ud800"', b"'a'", b"-", b"tru", b"[1 2]"]
    )
    def test_data_that_is_no_json_is_found_though_nobody_decodes_it(self, data: bytes) -> None:
        problem_of(b'{"kind":"event","type":"A.B","data":' + data + b',"metadata":{"id":"x","timestamp":1}}')

    def test_an_error_does_not_repeat_a_value_of_a_megabyte(self) -> None:
        assert len(str(problem_of(line(kind="x" * 500_000)))) < 600

    def test_no_error_of_another_library_shows_as_its_cause(self) -> None:
        assert problem_of(line(kind=5)).__cause__ is None


class TestWhoseErrorItIs:
    @pytest.mark.parametrize("changes", [{"kind": "wish"}, {"type": 5}, {"kind": None}, {"type": LONG}])
    def test_the_id_is_told_if_it_can_be_made_out(self, changes: dict[str, Any]) -> None:
        assert problem_of(line(**changes)).request_id == "c1"

    @pytest.mark.parametrize(
        "metadata", [None, 5, {"timestamp": 1}, {"id": 7, "timestamp": 1}, {"id": "", "timestamp": 1}]
    )
    def test_and_is_none_if_it_cannot(self, metadata: object) -> None:
        assert problem_of(line(metadata=metadata)).request_id is None

    def test_one_that_is_too_long_is_cut(self) -> None:
        """It is written into an answer: nobody makes that grow."""
        assert problem_of(line(metadata={"id": "y" * 5000, "timestamp": 1})).request_id == "y" * 200

    def test_a_line_cut_short_has_none(self) -> None:
        assert problem_of(line()[:-1]).request_id is None


class TestBrokenBytes:
    def test_the_byte_is_counted_from_the_beginning_of_the_line(self) -> None:
        text = b'{"kind":"event","type":"A.\xff","metadata":{"id":"x","timestamp":1}}'
        assert f"at byte {text.index(0xFF)}" in str(problem_of(text))

    @pytest.mark.parametrize("broken", [b"\xff", b"\xc3(", b"\xed\xa0\x80", b"\xf0\x9f"])
    def test_inside_the_data_as_well_though_nobody_decodes_it(self, broken: bytes) -> None:
        """Else it would be passed on, and break whoever gets it."""
        text = b'{"kind":"event","type":"A.B","data":"' + broken + b'","metadata":{"id":"x","timestamp":1}}'
        assert "not UTF-8" in str(problem_of(text))

    @pytest.mark.parametrize("where", [b'{"data":', b'{"other":', b'{"metadata":{"other":'])
    def test_nesting_without_end_is_a_bad_message(self, where: bytes) -> None:
        assert "nested too deeply" in str(problem_of(where + b"[" * 200_000))

    def test_all_that_decoding_can_raise_is_known(self) -> None:
        for text, kind in (
            (b"{", msgspec.MsgspecError),
            (b'"\xff"', UnicodeDecodeError),
            (b"[" * 200_000, RecursionError),
        ):
            with pytest.raises(kind) as caught:
                msgspec.json.decode(text)
            assert isinstance(caught.value, DECODE_ERRORS)
            assert split_problem(caught.value)[0]


class TestDepth:
    @pytest.mark.parametrize(
        ("text", "is_deep"),
        [
            ('{"a":"' + '\\"' + "[" * 200 + '"}', False),
            ('{"a":"\\\\"' + ',"b":' + "[" * 200, True),
            ('"' + "[" * 200 + '"', False),
            ("[" * 129, True),
            ("[" * 128, False),
            ("[]" * 500, False),
        ],
    )
    def test_brackets_inside_strings_do_not_count(self, text: str, is_deep: bool) -> None:
        assert is_deeper(text.encode(), 128) is is_deep


class TestPinning:
    def test_a_small_message_does_not_keep_a_huge_line_alive(self) -> None:
        """Unknown fields are passed over, and must be forgotten too: frames are kept, in mailboxes and in the log."""
        huge = line(junk="x" * 1_000_000)
        before = sys.getrefcount(huge)
        frame = read_frame(huge)
        assert sys.getrefcount(huge) == before
        assert bytes(frame.data) == b"{}"


# --- anything -----------------------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
NAMES = st.text(min_size=1, max_size=200)
WHOLE = st.integers(-(1 << 60), 1 << 60)
METADATA = st.builds(
    Metadata,
    id=NAMES,
    timestamp=WHOLE | st.floats(allow_nan=False, allow_infinity=False),
    causation=st.none() | NAMES,
    correlation=st.none() | NAMES,
    timeout=st.none() | st.integers(1, LONGEST_TIMEOUT_MS),
)
FRAMES = st.builds(
    Frame,
    kind=st.sampled_from(KINDS),
    type=NAMES,
    data=JSON.map(lambda value: Raw(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))),
    metadata=METADATA,
)


def attempt(text: bytes) -> Frame | InvalidMessageError:
    """What reading comes to; any other exception is a failure of the test that calls it."""
    try:
        return read_frame(text)
    except InvalidMessageError as problem:
        return problem


@given(text=st.binary(max_size=300))
@example(text=b"")
@example(text=b"\x00")
def test_any_bytes_are_a_frame_or_a_bad_message(text: bytes) -> None:
    assert str(attempt(text))


@given(frame=FRAMES, at=st.integers(0, 1 << 16), bite=st.integers(0, 8), graft=st.binary(max_size=8))
def test_a_damaged_message_is_a_frame_or_an_error(frame: Frame, at: int, bite: int, graft: bytes) -> None:
    """Bytes are taken out of a good message, and others put in."""
    whole = write_frame(frame)
    at %= len(whole) + 1
    found = attempt(whole[:at] + graft + whole[at + bite :])
    if isinstance(found, InvalidMessageError):
        assert found.request_id is None or 1 <= len(found.request_id) <= 200
    else:
        assert read_frame(write_frame(found)) == found, "what is taken in can be handed on"


@pytest.mark.slow
@given(frame=FRAMES)
def test_every_frame_comes_back_as_it_was(frame: Frame) -> None:
    written = write_frame(frame)
    assert b"\n" not in written
    assert read_frame(written) == frame
    assert write_frame(read_frame(written)) == written
    assert json.loads(written)["metadata"]["id"] == frame.metadata.id


CANONICAL = (
    b'{"kind":"query","type":"Memory.Get","data":{"key":"key-1"},"metadata":{"id":"0123456789ABCDEFGHJKMNPQRS","timestamp":1767910000000}}',
    b'{"kind":"command","type":"A.B","data":{},"metadata":{"id":"1","timestamp":0}}',
    b'{"kind":"command","type":"A.B","data":[1,-2,0,true,false,null,"x",[],{"a":{"b":[{}]}}],"metadata":{"id":"1","timestamp":7}}',
)
SNIPPETS = [
    *(
        *(b'"', b"\\", b"\n", b" ", b"\x00", b"\x1f", b"\x7f", b"\xc3\xa9", b"{", b"}", b"[", b"]", b","),
        *(b":", b"-", b".", b"e", b"0"),
    ),
    *(
        *(b"00", b"01", b"1.0", b"1e3", b"-", b"tru", b"nul", b"NaN", b"null", b'""', b'"a":1'),
        *(b'"timeout":5', b',"timeout":5', b"[[[[[["),
    ),
    *(b"9" * 17, b"9" * 19, b"9" * 30, b"a" * 201),
]


@pytest.mark.parametrize("line", CANONICAL)
def test_a_canonical_line_is_read_as_the_decoder_reads_it(line: bytes) -> None:
    assert read_plain(line) == msgspec.json.decode(line, type=Frame)
    assert write_frame(read_frame(line)) == line


@pytest.mark.parametrize("line", CANONICAL)
@pytest.mark.parametrize("snippet", SNIPPETS)
def test_so_is_a_line_with_something_inserted_or_replaced(line: bytes, snippet: bytes) -> None:
    for at in range(len(line) + 1):
        for cut in (0, 1, len(snippet)):
            check_read_plain(line[:at] + snippet + line[at + cut :])


@given(frame=FRAMES, at=st.integers(0, 1 << 16), bite=st.integers(0, 8), graft=st.binary(max_size=8))
def test_and_any_other(frame: Frame, at: int, bite: int, graft: bytes) -> None:
    whole = write_frame(frame)
    at %= len(whole) + 1
    check_read_plain(whole)
    check_read_plain(whole[:at] + graft + whole[at + bite :])


def check_read_plain(line: bytes) -> None:
    """What is read at once is what the decoder reads, and a short line of ASCII that the decoder reads is read at once."""
    found = read_plain(line)
    try:
        expected = msgspec.json.decode(line, type=Frame)
    except DECODE_ERRORS:
        assert found is None
    else:
        may_refuse = len(line) > 200 or not line.isascii()
        assert found == expected or (found is None and may_refuse)


# Texts around the eight characters that are looked at together, with and without one that has to be escaped.
TEXTS = (
    *("", "a", "abcdefg", "abcdefgh", "abcdefghi", "0123456789ABCDEFGHJKMNPQRS", "A" * 200),
    *(
        *('"', '"bcdefgh', 'abcdefg"', 'abcdefgh"', "abc\\", "abcdefgh\\jklmnop", "\x00"),
        *("0123456789abcde\x1f", "01234567\n"),
    ),
    *("\x7f", "\xe9", "abcdefgh\u2603", "\U0001f600"),
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", TEXTS)
def test_a_frame_is_written_as_the_encoder_writes_it(kind: Any, text: str) -> None:
    for stamp in (0, 9, 10, 1767910000000, 2**64 - 1, 2**64, -1, 1.5):
        for metadata in (
            Metadata("a", stamp),
            Metadata(text, stamp),
            Metadata("a", stamp, text),
            Metadata("a", stamp, None, text),
            Metadata(text, stamp, text, text),
            Metadata("a", stamp, timeout=5),
        ):
            for frame in (
                Frame(kind=kind, type="A.B", data=Raw(b'{"a":1}'), metadata=metadata),
                Frame(kind=kind, type=text, metadata=metadata),
            ):
                assert outcome(write_frame, frame) == outcome(msgspec.json.encode, frame)


def outcome(write: Callable[[Frame], bytes], frame: Frame) -> bytes | type[Exception]:
    """What it writes, or what it raises: the encoder refuses integers of more than 64 bits."""
    try:
        return write(frame)
    except Exception as error:  # noqa: BLE001  # whatever it is
        return type(error)


class TestWholeNumbers:
    @pytest.mark.parametrize("number", ["1e99999999999999999999", "1e500", "-1e500", "NaN", "Infinity"])
    def test_a_number_that_is_none_makes_it_no_message(self, number: str) -> None:
        metadata = '{"id":"a","timestamp":1,"timeout":1.5}'
        line = f'{{"kind":"event","type":"A.B","data":{number},"metadata":{metadata}}}'
        with pytest.raises(InvalidMessageError):
            read_frame(line.encode())

    def test_whole_numbers_in_the_metadata_leave_the_data_as_it_came(self) -> None:
        data = '{"a":1e22,"b":-0.0,"c":18014398509481985.5,"d":1e500}'
        metadata = '{"id":"a","timestamp":1,"timeout":1000.0}'
        frame = read_frame(f'{{"kind":"event","type":"A.B","data":{data},"metadata":{metadata}}}'.encode())
        assert frame.metadata.timeout == 1000
        assert bytes(frame.data) == data.encode()
