"""`bandstand trace`: shows what a message has caused, as a tree with times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

from bandstand.cli.output import (
    KIND_COLOURS,
    Colours,
    ErrorReporter,
    ExitCode,
    answer_data,
    clock_time,
    print_answer,
    printable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bandstand.cli.settings import Target

__all__ = ("trace",)


def trace(
    id: str,  # noqa: A002  # its name on the wire
    limit: int,
    target: Target,
    out: TextIO,
    err: TextIO,
    *,
    is_json: bool = False,
) -> ExitCode:
    """Print the causes of a message and everything that it has caused; `FAILED` if the node does not know the message."""
    with ErrorReporter(err) as reporter, target.connected() as bus:
        answer = bus.exchange("query", "Syscall.Trace", {"id": id, "limit": limit})
        if answer.kind == "error":
            return print_answer(answer, out, err, is_json=is_json)
        found = answer_data(answer)
        if is_json:
            print_answer(answer, out, err, is_json=True)
        if not found["found"] or found["tree"] is None:
            err.write(
                f"bandstand: {printable(id)} is not in the log: the node never saw it, or has dropped it from the log\n"
            )
            return ExitCode.FAILED
        if not is_json:
            _print_tree(found, id, out, err)
        return ExitCode.SUCCESS
    return reporter.exit_code


# Any, here and below: JSON values.
def _print_tree(found: Mapping[str, Any], wanted: str, out: TextIO, err: TextIO) -> None:
    colours = Colours(out)
    tree: Mapping[str, Any] = found["tree"]
    out.writelines(
        f"{colours('caused by', 'dim')} {_node_text(ancestor, colours)}\n" for ancestor in found["ancestors"]
    )
    out.write(f"{_node_text(tree, colours)}  {clock_time(tree['timestamp'])}{_mark(tree, wanted, colours)}\n")
    # Not recursive: a tree can be deeper than Python's stack.
    pending: list[tuple[Mapping[str, Any], str, bool]] = list(_children(tree, ""))
    while pending:
        node, prefix, is_last = pending.pop()
        branch = "└── " if is_last else "├── "
        after = f"+{float(node.get('afterMs') or 0):g} ms"
        out.write(f"{prefix}{branch}{_node_text(node, colours)}  {after}{_mark(node, wanted, colours)}\n")
        pending += _children(node, prefix + ("    " if is_last else "│   "))
    if not found["complete"]:
        err.write(
            "bandstand: the tree is incomplete: messages were dropped from the log, or there are more than --limit\n"
        )


def _children(node: Mapping[str, Any], prefix: str) -> Iterator[tuple[Mapping[str, Any], str, bool]]:
    """Return the children of a node in reverse order: the caller takes them from the end of a list."""
    children: list[Mapping[str, Any]] = node.get("children") or []
    for index in range(len(children) - 1, -1, -1):
        yield children[index], prefix, index == len(children) - 1


def _node_text(node: Mapping[str, Any], colours: Colours) -> str:
    kind = str(node["kind"])
    to = f" → {node['destination']}" if node.get("destination") else ""
    name = printable(f"{kind} {node['type']}{to}")
    return f"{colours(name, KIND_COLOURS.get(kind, 'dim'))}  {colours(printable(str(node['id'])), 'dim')}"


def _mark(node: Mapping[str, Any], wanted: str, colours: Colours) -> str:
    return colours("  ← this", "bold") if node["id"] == wanted and node.get("afterMs") else ""
