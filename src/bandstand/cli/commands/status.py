"""`bandstand health` and `bandstand stats`: the health and the counters of a node.

`stats` prints all counters that the node returns, so a new counter needs no change here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from bandstand.cli.output import (
    Colours,
    ErrorReporter,
    ExitCode,
    answer_data,
    format_table,
    one_line,
    print_answer,
    printable,
    terminal_width,
    truncate,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bandstand.cli.settings import Target

__all__ = ("duration", "show_health", "show_stats")

# All other states are yellow.
_STATE_COLOURS: Final = {
    "running": "green",
    "healthy": "green",
    "unhealthy": "red",
    "unresponsive": "red",
    "degraded": "red",
}


def show_health(target: Target, out: TextIO, err: TextIO, *, is_json: bool = False) -> ExitCode:
    """Print the health of a node and its capabilities; `FAILED` if a capability is out of service."""
    with ErrorReporter(err) as reporter, target.connected() as bus:
        answer = bus.exchange("query", "Syscall.Health")
        if answer.kind == "error" or is_json:
            code = print_answer(answer, out, err, is_json=is_json)
            return code if code or answer_data(answer)["status"] == "healthy" else ExitCode.FAILED
        report = answer_data(answer)
        colours, status = Colours(out), printable(str(report["status"]))
        out.write(
            f"{colours(status, _STATE_COLOURS.get(status, 'yellow'))}, up {duration(report['uptimeMs'])}\n"
        )
        rows = [tuple(map(printable, _row(name, each))) for name, each in report["capabilities"].items()]
        head = ("capability", "state", "handled", "crashes", "restarts", "waiting", "")
        for line, row in zip(format_table(rows, head).splitlines(), [("", ""), *rows], strict=True):
            state = row[1]
            coloured = colours(state, _STATE_COLOURS.get(state, "yellow"))
            out.write(truncate(line, terminal_width(out)).replace(state, coloured, 1) + "\n")
        return ExitCode.SUCCESS if status == "healthy" else ExitCode.FAILED
    return reporter.exit_code


# Any, here and below: JSON values.
def _row(name: str, health: Mapping[str, Any]) -> tuple[str, ...]:
    counts = (str(health.get(field, 0)) for field in ("handled", "crashes", "restarts", "waiting"))
    busy_ms = health.get("busySinceMs")
    busy = "" if busy_ms is None else f" for {duration(busy_ms)}"
    notes = [f"handling {health['at']}{busy}"] if health.get("at") else []
    if health.get("entities") is not None:
        notes.append(f"{health['entities']['inMemory']} in memory")
    if health.get("trialInMs") is not None:
        notes.append(f"next trial in {duration(health['trialInMs'])}")
    if health.get("onTrial"):
        notes.append("on trial")
    notes += [f"last fault: {one_line(health['lastFault'])}"] if health.get("lastFault") else []
    return (name, str(health["state"]), *counts, "; ".join(notes))


def show_stats(target: Target, out: TextIO, err: TextIO, *, is_json: bool = False) -> ExitCode:
    """Print the counters of a node."""
    with ErrorReporter(err) as reporter, target.connected() as bus:
        answer = bus.exchange("query", "Syscall.Stats")
        if answer.kind == "error" or is_json:
            return print_answer(answer, out, err, is_json=is_json)
        rows = [(printable(name), printable(value)) for name, value in _flatten("", answer_data(answer))]
        out.write(format_table(rows) + "\n")
        return ExitCode.SUCCESS
    return reporter.exit_code


def _flatten(prefix: str, tree: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _flatten(f"{prefix}{name}.", cast("dict[str, Any]", value))
        elif isinstance(value, (dict, list)):
            yield f"{prefix}{name}", json.dumps(cast("object", value))
        else:
            yield f"{prefix}{name}", f"{value:,}" if type(value) is int else json.dumps(value)


def duration(ms: float) -> str:
    """Return milliseconds as text with a suitable unit."""
    seconds = ms / 1000
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, hours = seconds / 60, seconds / 3600
    if minutes < 120:
        return f"{minutes:.0f} min"
    return f"{hours:.1f} h" if hours < 72 else f"{hours / 24:.1f} d"
