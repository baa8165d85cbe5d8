"""A snapshot of the actors of a loop as a tree, as data and as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bandstand.core.enums import ActorStatus

if TYPE_CHECKING:
    from bandstand.core.ids import ActorId
    from bandstand.core.mailbox import ChildGroup

__all__ = ("Tree", "TreeNode", "build_tree")

# Deeper levels are not indented any further: with full indentation the text would grow with the square of the depth.
MAX_INDENTED = 64


@dataclass(frozen=True, slots=True)
class TreeNode:
    """One actor, or one child of a supervisor that is not running."""

    name: str
    """The name of the actor; its id if it has no name."""
    actor: ActorId | None
    """None for a child that is not running."""
    status: ActorStatus | None
    """None for a child that is not running."""
    waiting: int
    """How many messages wait in the mailbox."""
    restarts: int
    """How often the supervisor has restarted it."""
    note: str
    """A note of the supervisor, for example that a restart is pending. Often empty."""
    children: tuple[TreeNode, ...]

    def __str__(self) -> str:
        parts = [self.status.name.lower() if self.status is not None else "down"]
        if self.waiting:
            parts.append(f"{self.waiting} waiting")
        if self.restarts:
            parts.append(f"{self.restarts} restart{'s' if self.restarts > 1 else ''}")
        if self.note:
            parts.append(self.note)
        return f"{self.name} ({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class Tree:
    """A snapshot of all actors of a loop. `str(tree)` draws it; iteration yields all nodes, parents first.

    Making, iterating and drawing take time and memory in proportion to the number of nodes, however deep the tree is. From level 64 on,
    the drawing shows the level as a number and indents no further.
    """

    roots: tuple[TreeNode, ...]

    def __iter__(self) -> Iterator[TreeNode]:
        waiting = list(reversed(self.roots))
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))

    def find(self, name: str) -> TreeNode | None:
        """Return the first node with this name, parents before their children; None if there is none."""
        return next((node for node in self if node.name == name), None)

    def __str__(self) -> str:
        return "\n".join(_draw(self.roots)) if self.roots else "(no actors)"


def _draw(roots: Sequence[TreeNode]) -> Iterator[str]:
    # A loop instead of recursion: a tree may be deeper than the stack.
    waiting = [(node, 0, "", "") for node in reversed(roots)]
    while waiting:
        node, level, first, rest = waiting.pop()
        depth = f"[{level}] " if level >= MAX_INDENTED else ""
        yield f"{first}{depth}{node}"
        last = len(node.children) - 1
        for place in range(last, -1, -1):
            if level + 1 < MAX_INDENTED:
                bend, stem = ("└── ", "    ") if place == last else ("├── ", "│   ")
            else:
                bend = stem = ""
            waiting.append((node.children[place], level + 1, rest + bend, rest + stem))


def build_tree(
    rows: Sequence[tuple[ActorId, str | None, ActorId | None, int, int, ChildGroup | None]],
) -> Tree:
    """Make the tree of all actors from (id, name, supervisor, status, waiting, children), the oldest actor first.

    The children of a supervisor come in the supervisor's order, including those that are not running; other children in the order of their
    spawns.
    """
    known = {row[0]: row for row in rows}
    under: dict[ActorId | None, list[ActorId]] = {}
    for actor, _, parent, _, _, _ in rows:
        under.setdefault(parent if parent in known else None, []).append(actor)
    done: dict[ActorId, TreeNode] = {}

    # Children are younger than their supervisors, so this order visits leaves first and needs no recursion.
    for actor, name, _, status, waiting, group in reversed(rows):
        members = () if group is None else group.members()
        children: list[TreeNode] = []
        for member in members:
            node = None if member.actor is None else done.pop(member.actor, None)
            if node is None:
                node = TreeNode(member.name, None, None, 0, member.restarts, member.note, ())
            else:
                node = TreeNode(
                    member.name,
                    node.actor,
                    node.status,
                    node.waiting,
                    member.restarts,
                    member.note,
                    node.children,
                )
            children.append(node)
        children.extend(done.pop(child) for child in under.get(actor, ()) if child in done)
        shown = repr(actor) if name is None else name
        done[actor] = TreeNode(shown, actor, ActorStatus(status), waiting, 0, "", tuple(children))
    return Tree(tuple(done[actor] for actor in under.get(None, ()) if actor in done))
