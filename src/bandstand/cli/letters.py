"""`bandstand dead`: what a node could not deliver or answer. Look at it, send it again, throw it away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TextIO, final

import msgspec

from bandstand.cli.exits import Errors, Exit, conclude, plain
from bandstand.cli.terminal import Paint, clock_time, cut, one_line, printable, table, width_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bandstand.bus.client.blocking import BlockingConnection
    from bandstand.cli.target import Target

__all__ = ("Letters", "tend")

# How many columns a sentence gets that stands behind the others, where it is no terminal.
SAID = 80


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Letters:
    """What is to be done, and with which letters."""

    verb: Literal["list", "show", "replay", "purge"]
    id: str = ""
    type: str = ""
    """A type or a pattern; empty for all."""
    reason: str = ""
    limit: int = 100
    before: str = ""
    is_json: bool = False

    def data(self) -> dict[str, object]:
        """What the node is asked for."""
        chosen: dict[str, object] = {"id": self.id, "type": self.type, "reason": self.reason}
        if self.verb == "list":
            chosen |= {"before": self.before, "limit": self.limit}
        return {name: value for name, value in chosen.items() if value}


def tend(wish: Letters, target: Target, out: TextIO, err: TextIO) -> Exit:
    """Do it, and print what came of it."""
    with Errors(err) as errors, target.connected() as bus:
        return _VERBS[wish.verb](wish, bus, out, err)
    return errors.exit


def _list(wish: Letters, bus: BlockingConnection, out: TextIO, err: TextIO) -> Exit:
    answer = bus.exchange("query", "Dead.List", wish.data())
    if answer.kind == "error" or wish.is_json:
        return conclude(answer, out, err, is_json=wish.is_json)
    found = plain(answer)
    letters: list[dict[str, Any]] = found["letters"]
    width = width_of(out)
    rows = [
        (
            str(each["id"]),
            clock_time(each["at"]),
            str(each["reason"]),
            f"{each['kind']} {each['type']}",
            str(each["attempts"]),
            cut(one_line(each["said"]), 0 if width else SAID),
        )
        for each in letters
    ]
    if rows:
        head = ("id", "at", "reason", "message", "attempts", "said")
        shown = table([tuple(map(printable, row)) for row in rows], head)
        out.writelines(f"{cut(line, width)}\n" for line in shown.splitlines())
    fallen = f"; {int(found['fallen'])} more have fallen out" if found["fallen"] else ""
    out.write(f"{len(letters)} of {int(found['held'])} dead letters{fallen}\n")
    return Exit.REPLY


def _show(wish: Letters, bus: BlockingConnection, out: TextIO, err: TextIO) -> Exit:
    answer = bus.exchange("query", "Dead.Show", wish.data())
    if answer.kind == "error" or wish.is_json:
        return conclude(answer, out, err, is_json=wish.is_json)
    found = plain(answer)
    letter: dict[str, Any] = found["letter"]
    rows = [
        (printable(name), printable(one_line(value))) for name, value in letter.items() if value is not None
    ]
    out.write(table(rows) + "\n")
    out.writelines(
        f"\nfollows from\n  {printable(_named(ancestor))}\n" for ancestor in found.get("lineage") or ()
    )
    out.write(f"\nmessage\n{_indented(found['message'])}\n")
    if found.get("answer"):
        out.write(f"\nanswer\n{_indented(found['answer'])}\n")
    return Exit.REPLY


def _replay(wish: Letters, bus: BlockingConnection, out: TextIO, err: TextIO) -> Exit:
    answer = bus.exchange("command", "Dead.Replay", wish.data())
    is_done = answer.kind == "reply" and plain(answer)["outcome"] != "failed"
    if answer.kind == "error" or wish.is_json:
        code = conclude(answer, out, err, is_json=wish.is_json)
        return code if code or is_done else Exit.FAILED
    found = plain(answer)
    colour = "green" if is_done else "red"
    out.write(
        f"{Paint(out)(printable(str(found['outcome'])), colour)}: {printable(str(found['id']))} was sent as "
    )
    out.write(f"{printable(str(found['replay']))}\n")
    if found.get("answer"):
        out.write(f"{_indented(found['answer'])}\n")
    if not is_done:
        err.write("bandstand: it has failed again, and is kept\n")
    return Exit.REPLY if is_done else Exit.FAILED


def _purge(wish: Letters, bus: BlockingConnection, out: TextIO, err: TextIO) -> Exit:
    answer = bus.exchange("command", "Dead.Purge", wish.data())
    if answer.kind == "error" or wish.is_json:
        return conclude(answer, out, err, is_json=wish.is_json)
    out.write(f"{int(plain(answer)['purged'])} dead letters thrown away\n")
    return Exit.REPLY


_VERBS = {"list": _list, "show": _show, "replay": _replay, "purge": _purge}


# Any: plain values, as JSON has them.
def _named(frame: Mapping[str, Any]) -> str:
    return f"{frame['kind']} {frame['type']} {frame['metadata']['id']}"


def _indented(value: object) -> str:
    text = msgspec.json.format(msgspec.json.encode(value)).decode()
    return "\n".join(f"  {printable(line)}" for line in text.split("\n"))
