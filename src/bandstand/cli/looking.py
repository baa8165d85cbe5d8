"""`bandstand health` and `bandstand stats`: how a node is, and what it has done.

What a node says about itself grows with it. So both show whatever there is, and do not know it by heart.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TextIO, cast

from bandstand.cli.exits import Errors, Exit, conclude, plain
from bandstand.cli.terminal import Paint, cut, one_line, printable, table, width_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bandstand.cli.target import Target

__all__ = ("show_health", "show_stats")

COLOURS = {
    "running": "green",
    "healthy": "green",
    "unhealthy": "red",
    "unresponsive": "red",
    "degraded": "red",
}


def show_health(target: Target, out: TextIO, err: TextIO, *, is_json: bool = False) -> Exit:
    """Print how a node and its capabilities are; `FAILED` if one of them is out of service."""
    with Errors(err) as errors, target.connected() as bus:
        answer = bus.exchange("query", "Syscall.Health")
        if answer.kind == "error" or is_json:
            code = conclude(answer, out, err, is_json=is_json)
            return code if code or plain(answer)["status"] == "healthy" else Exit.FAILED
        report = plain(answer)
        paint, status = Paint(out), printable(str(report["status"]))
        out.write(f"{paint(status, COLOURS.get(status, 'yellow'))}, up {duration(report['uptimeMs'])}\n")
        rows = [tuple(map(printable, _row(name, each))) for name, each in report["capabilities"].items()]
        lines = table(
            rows, ("capability", "state", "handled", "crashes", "restarts", "waiting", "")
        ).splitlines()
        for line, row in zip(lines, [("", ""), *rows], strict=True):
            shown = cut(line, width_of(out))
            out.write(shown.replace(row[1], paint(row[1], COLOURS.get(row[1], "yellow")), 1) + "\n")
        return Exit.REPLY if status == "healthy" else Exit.FAILED
    return errors.exit


# Any, here and below: plain values, as JSON has them.
def _row(name: str, health: Mapping[str, Any]) -> tuple[str, ...]:
    counts = (str(health.get(field, 0)) for field in ("handled", "crashes", "restarts", "waiting"))
    more = [f"at {health['at']}"] if health.get("at") else []
    if health.get("trialInMs") is not None:
        more.append(f"tried again in {duration(health['trialInMs'])}")
    if health.get("onTrial"):
        more.append("on trial")
    more += [f"last fault: {one_line(health['lastFault'])}"] if health.get("lastFault") else []
    return (name, str(health["state"]), *counts, "; ".join(more))


def show_stats(target: Target, out: TextIO, err: TextIO, *, is_json: bool = False) -> Exit:
    """Print what a node has done so far."""
    with Errors(err) as errors, target.connected() as bus:
        answer = bus.exchange("query", "Syscall.Stats")
        if answer.kind == "error" or is_json:
            return conclude(answer, out, err, is_json=is_json)
        rows = [(printable(name), printable(value)) for name, value in _flat("", plain(answer))]
        out.write(table(rows) + "\n")
        return Exit.REPLY
    return errors.exit


def _flat(prefix: str, tree: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _flat(f"{prefix}{name}.", cast("dict[str, Any]", value))
        elif isinstance(value, (dict, list)):
            yield f"{prefix}{name}", json.dumps(cast("object", value))
        else:
            yield f"{prefix}{name}", f"{value:,}" if type(value) is int else json.dumps(value)


def duration(ms: float) -> str:
    """Milliseconds for people."""
    seconds = ms / 1000
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, hours = seconds / 60, seconds / 3600
    if minutes < 120:
        return f"{minutes:.0f} min"
    return f"{hours:.1f} h" if hours < 72 else f"{hours / 24:.1f} d"
