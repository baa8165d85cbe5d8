"""`bandstand dead`: lists, shows, replays and deletes dead letters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO, final

import msgspec

from bandstand.cli.output import (
    Colours,
    ErrorReporter,
    ExitCode,
    answer_data,
    clock_time,
    format_table,
    one_line,
    print_answer,
    printable,
    terminal_width,
    truncate,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bandstand.bus.client.blocking import BlockingConnection
    from bandstand.cli.settings import Target

__all__ = ("DeadOptions", "dead")

# The width of the last column if the output is not a terminal.
_DETAIL_WIDTH: Final = 80


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DeadOptions:
    """What to do, and with which dead letters."""

    verb: Literal["list", "show", "replay", "purge"]
    id: str = ""
    type: str = ""
    """A type or a pattern; empty for all."""
    reason: str = ""
    limit: int = 100
    before: str = ""
    is_json: bool = False

    def data(self) -> dict[str, object]:
        """Return the data of the request."""
        fields: dict[str, object] = {"id": self.id, "type": self.type, "reason": self.reason}
        if self.verb == "list":
            fields |= {"before": self.before, "limit": self.limit}
        return {name: value for name, value in fields.items() if value}


def dead(options: DeadOptions, target: Target, out: TextIO, err: TextIO) -> ExitCode:
    """Do what the options say, and print the result."""
    with ErrorReporter(err) as reporter, target.connected() as bus:
        return _VERBS[options.verb](options, bus, out, err)
    return reporter.exit_code


def _list(options: DeadOptions, bus: BlockingConnection, out: TextIO, err: TextIO) -> ExitCode:
    answer = bus.exchange("query", "Dead.List", options.data())
    if answer.kind == "error" or options.is_json:
        return print_answer(answer, out, err, is_json=options.is_json)
    page = answer_data(answer)
    letters: list[dict[str, Any]] = page["letters"]
    width = terminal_width(out)
    rows = [
        (
            str(each["id"]),
            clock_time(each["at"]),
            str(each["reason"]),
            f"{each['kind']} {each['type']}",
            str(each["attempts"]),
            truncate(one_line(each["said"]), 0 if width else _DETAIL_WIDTH),
        )
        for each in letters
    ]
    if rows:
        head = ("id", "at", "reason", "message", "attempts", "error")
        table = format_table([tuple(map(printable, row)) for row in rows], head)
        out.writelines(f"{truncate(line, width)}\n" for line in table.splitlines())
    dropped = f"; {int(page['fallen'])} older ones were dropped" if page["fallen"] else ""
    out.write(f"{len(letters)} of {int(page['held'])} dead letters{dropped}\n")
    return ExitCode.SUCCESS


def _show(options: DeadOptions, bus: BlockingConnection, out: TextIO, err: TextIO) -> ExitCode:
    answer = bus.exchange("query", "Dead.Show", options.data())
    if answer.kind == "error" or options.is_json:
        return print_answer(answer, out, err, is_json=options.is_json)
    found = answer_data(answer)
    letter: dict[str, Any] = found["letter"]
    rows = [
        (printable(name), printable(one_line(value))) for name, value in letter.items() if value is not None
    ]
    out.write(format_table(rows) + "\n")
    out.writelines(
        f"\ncaused by\n  {printable(_frame_name(ancestor))}\n" for ancestor in found.get("lineage") or ()
    )
    out.write(f"\nmessage\n{_indented(found['message'])}\n")
    if found.get("answer"):
        out.write(f"\nanswer\n{_indented(found['answer'])}\n")
    return ExitCode.SUCCESS


def _replay(options: DeadOptions, bus: BlockingConnection, out: TextIO, err: TextIO) -> ExitCode:
    answer = bus.exchange("command", "Dead.Replay", options.data())
    is_done = answer.kind == "reply" and answer_data(answer)["outcome"] != "failed"
    if answer.kind == "error" or options.is_json:
        code = print_answer(answer, out, err, is_json=options.is_json)
        return code if code or is_done else ExitCode.FAILED
    found = answer_data(answer)
    outcome = Colours(out)(printable(str(found["outcome"])), "green" if is_done else "red")
    out.write(
        f"{outcome}: {printable(str(found['id']))} was sent again as {printable(str(found['replay']))}\n"
    )
    if found.get("answer"):
        out.write(f"{_indented(found['answer'])}\n")
    if not is_done:
        err.write("bandstand: the message failed again; the dead letter is kept\n")
    return ExitCode.SUCCESS if is_done else ExitCode.FAILED


def _purge(options: DeadOptions, bus: BlockingConnection, out: TextIO, err: TextIO) -> ExitCode:
    answer = bus.exchange("command", "Dead.Purge", options.data())
    if answer.kind == "error" or options.is_json:
        return print_answer(answer, out, err, is_json=options.is_json)
    count = int(answer_data(answer)["purged"])
    out.write(f"deleted {count} dead letter{'' if count == 1 else 's'}\n")
    return ExitCode.SUCCESS


_VERBS: Final = {"list": _list, "show": _show, "replay": _replay, "purge": _purge}


# Any: JSON values.
def _frame_name(frame: Mapping[str, Any]) -> str:
    return f"{frame['kind']} {frame['type']} {frame['metadata']['id']}"


def _indented(value: object) -> str:
    text = msgspec.json.format(msgspec.json.encode(value)).decode()
    return "\n".join(f"  {printable(line)}" for line in text.split("\n"))
