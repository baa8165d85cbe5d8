"""The live tree of a loop: who belongs to whom, as data, and as a picture for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bandstand.core.enums import ActorStatus

if TYPE_CHECKING:
    from bandstand.core.ids import ActorId
    from bandstand.core.mailbox import ChildGroup

__all__ = ("Tree", "TreeNode", "grow")


@dataclass(frozen=True, slots=True)
class TreeNode:
    """One actor, or one child that its supervisor has and that is not running."""

    name: str
    """Its name; its id, for an actor without one."""
    actor: ActorId | None
    """None for a child that is not running."""
    status: ActorStatus | None
    """None for a child that is not running."""
    waiting: int
    """How many messages wait in its mailbox."""
    restarts: int
    """How often its supervisor has started it again."""
    note: str
    """What its supervisor has to say of it, for example that it waits for its restart. Often empty."""
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
    """A snapshot of everybody on a loop. `str(tree)` draws it; iterating gives every node, parents first."""

    roots: tuple[TreeNode, ...]

    def __iter__(self) -> Iterator[TreeNode]:
        waiting = list(reversed(self.roots))
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))

    def find(self, name: str) -> TreeNode | None:
        """The first node of that name, parents before their children."""
        return next((node for node in self if node.name == name), None)

    def __str__(self) -> str:
        return "\n".join(_draw(self.roots)) if self.roots else "(no actors)"


def _draw(roots: Sequence[TreeNode]) -> Iterator[str]:
    # By hand, not by recursion: a tree may be as deep as somebody makes it.
    waiting = [(node, "", "") for node in reversed(roots)]
    while waiting:
        node, first, rest = waiting.pop()
        yield f"{first}{node}"
        last = len(node.children) - 1
        for place in range(last, -1, -1):
            bend, stem = ("└── ", "    ") if place == last else ("├── ", "│   ")
            waiting.append((node.children[place], rest + bend, rest + stem))


def grow(
    rows: Sequence[tuple[ActorId, str | None, ActorId | None, int, int, ChildGroup | None]],
) -> Tree:
    """Make the tree of all living actors, given the oldest first.

    A supervisor's children come in its own order, with those that are not running; others in the order of their birth.
    """
    known = {row[0]: row for row in rows}
    under: dict[ActorId | None, list[ActorId]] = {}
    for actor, _, parent, _, _, _ in rows:
        under.setdefault(parent if parent in known else None, []).append(actor)
    done: dict[ActorId, TreeNode] = {}

    # Children are younger than their supervisors, so the youngest first is leaves first; no recursion is needed.
    for actor, name, _, status, waiting, family in reversed(rows):
        members = () if family is None else family.members()
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
