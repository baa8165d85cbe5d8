"""A snapshot of the actors of a loop as a tree, as data and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bandstand.core.enums import ActorStatus
from bandstand.errors.validation import check_int

if TYPE_CHECKING:
    from bandstand.core.ids import ActorId
    from bandstand.core.mailbox import ChildGroup

__all__ = ("Tree", "TreeNode", "build_tree")

# Deeper levels are not indented any further: with full indentation the text would grow with the square of the depth.
MAX_INDENTED = 64
# Of a longer list of children, only this many are drawn.
MAX_CHILDREN = 20


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
    kind: str = ""
    """The class of a typed actor; empty for a raw one."""
    busy: str = ""
    """The message that it is handling, as a method or a type; empty if it is idle. Often empty, because a handler that does not wait is
    seen only from inside."""

    def __str__(self) -> str:
        parts = [self.status.name.lower() if self.status is not None else "down"]
        if self.busy:
            parts.append(f"busy with {self.busy}")
        if self.waiting:
            parts.append(f"{self.waiting} waiting")
        if self.restarts:
            parts.append(f"{self.restarts} restart{'s' if self.restarts > 1 else ''}")
        if self.note:
            parts.append(self.note)
        kind = f": {self.kind}" if self.kind and self.kind != self.name else ""
        return f"{self.name}{kind} ({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class Tree:
    """A snapshot of all actors of a loop. `str(tree)` draws it; iteration yields all nodes, parents first.

    `str(tree)` is `tree.draw()`, which folds long lists of children.
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

    def draw(self, *, max_children: int | None = MAX_CHILDREN) -> str:
        """Draw the tree, one line for each actor.

        Args:
            max_children: how many children of an actor, and how many actors without a supervisor, are drawn. One line counts the
                others. None draws all.

        Raises:
            InvalidArgumentError: it is not an int from 1 on, nor None.
        """
        if max_children is not None:
            check_int("max_children", max_children, 1, 1 << 30)
        return "\n".join(_draw(self.roots, max_children)) if self.roots else "(no actors)"

    def __str__(self) -> str:
        return self.draw()


def _draw(roots: Sequence[TreeNode], most: int | None) -> Iterator[str]:
    # A loop instead of recursion: a tree may be deeper than the stack.
    waiting = [(node, 0, "", "") for node in reversed(_folded(roots, most))]
    while waiting:
        node, level, first, rest = waiting.pop()
        depth = f"[{level}] " if level >= MAX_INDENTED else ""
        yield f"{first}{depth}{node}"
        if isinstance(node, str):
            continue
        children = _folded(node.children, most)
        last = len(children) - 1
        for place in range(last, -1, -1):
            if level + 1 < MAX_INDENTED:
                bend, stem = ("└── ", "    ") if place == last else ("├── ", "│   ")
            else:
                bend = stem = ""
            waiting.append((children[place], level + 1, rest + bend, rest + stem))


def _folded(nodes: Sequence[TreeNode], most: int | None) -> list[TreeNode | str]:
    """Return the first nodes, and a line that counts the others, by status if not all of them are running."""
    if most is None or len(nodes) <= most:
        return list(nodes)
    others = nodes[most:]
    counts = Counter("down" if node.status is None else node.status.name.lower() for node in others)
    states = (
        "" if set(counts) == {"running"} else ", ".join(f"{count} {state}" for state, count in counts.items())
    )
    return [*nodes[:most], f"… {len(others)} more" + (f" ({states})" if states else "")]


def build_tree(
    rows: Sequence[tuple[ActorId, str | None, ActorId | None, int, int, ChildGroup | None]],
    describe: Callable[[ActorId], tuple[str, str]],
) -> Tree:
    """Make the tree of all actors from (id, name, supervisor, status, waiting, children), the oldest actor first.

    `describe` returns the class of an actor, and what it is busy with.
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
                node = replace(node, name=member.name, restarts=member.restarts, note=member.note)
            children.append(node)
        children.extend(done.pop(child) for child in under.get(actor, ()) if child in done)
        shown = repr(actor) if name is None else name
        done[actor] = TreeNode(
            shown, actor, ActorStatus(status), waiting, 0, "", tuple(children), *describe(actor)
        )
    return Tree(tuple(done[actor] for actor in under.get(None, ()) if actor in done))
