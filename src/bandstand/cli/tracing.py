"""`bandstand trace`: what a message has caused, as a tree with times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

from bandstand.cli.exits import Errors, Exit, conclude, plain
from bandstand.cli.terminal import KIND_COLOURS, Paint, clock_time, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bandstand.cli.target import Target

__all__ = ("trace",)


def trace(
    id: str,  # noqa: A002  # its name on the wire
    limit: int,
    target: Target,
    out: TextIO,
    err: TextIO,
    *,
    is_json: bool = False,
) -> Exit:
    """Print what led to a message, and everything that it has led to; `FAILED` if nobody knows of it."""
    with Errors(err) as errors, target.connected() as bus:
        answer = bus.exchange("query", "Syscall.Trace", {"id": id, "limit": limit})
        if answer.kind == "error":
            return conclude(answer, out, err, is_json=is_json)
        found = plain(answer)
        if is_json:
            conclude(answer, out, err, is_json=True)
        if not found["found"] or found["tree"] is None:
            err.write(
                f"bandstand: {printable(id)} is not in the log: it never passed, or so long ago that it has fallen out\n"
            )
            return Exit.FAILED
        if not is_json:
            _print(found, id, out, err)
        return Exit.REPLY
    return errors.exit


# Any, here and below: plain values, as JSON has them.
def _print(found: Mapping[str, Any], wanted: str, out: TextIO, err: TextIO) -> None:
    paint = Paint(out)
    tree: Mapping[str, Any] = found["tree"]
    out.writelines(
        f"{paint('follows from', 'dim')} {_step(ancestor, paint)}\n" for ancestor in found["ancestors"]
    )
    out.write(f"{_step(tree, paint)}  {clock_time(tree['timestamp'])}{_mark(tree, wanted, paint)}\n")
    # The tree is as deep as the flow was long, which is no reason to recurse.
    pending: list[tuple[Mapping[str, Any], str, bool]] = list(_below(tree, ""))
    while pending:
        step, prefix, is_last = pending.pop()
        branch = "└── " if is_last else "├── "
        after = f"+{float(step.get('afterMs') or 0):g} ms"
        out.write(f"{prefix}{branch}{_step(step, paint)}  {after}{_mark(step, wanted, paint)}\n")
        pending += _below(step, prefix + ("    " if is_last else "│   "))
    if not found["complete"]:
        err.write(
            "bandstand: some of it is not shown: it has fallen out of the log, or there is more than --limit\n"
        )


def _below(step: Mapping[str, Any], prefix: str) -> Iterator[tuple[Mapping[str, Any], str, bool]]:
    """The children of a step, the last first: they come off the end."""
    children: list[Mapping[str, Any]] = step.get("children") or []
    for place in range(len(children) - 1, -1, -1):
        yield children[place], prefix, place == len(children) - 1


def _step(step: Mapping[str, Any], paint: Paint) -> str:
    kind = str(step["kind"])
    to = f" → {step['destination']}" if step.get("destination") else ""
    name = printable(f"{kind} {step['type']}{to}")
    return f"{paint(name, KIND_COLOURS.get(kind, 'dim'))}  {paint(printable(str(step['id'])), 'dim')}"


def _mark(step: Mapping[str, Any], wanted: str, paint: Paint) -> str:
    return paint("  ← this", "bold") if step["id"] == wanted and step.get("afterMs") else ""
