"""What a troupe does, at one moment: as data, as plain values for JSON, and as a table for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bandstand.errors import InvalidArgument
from bandstand.pod.vocabulary import PodPhase, RestartPolicy, ThreadModel

__all__ = ("PodStatus", "RoleStatus", "TroupeStatus")

HEAD = ("pod", "phase", "thread", "restart", "no.", "up", "where", "roles", "waiting", "reason")
# How much of a reason fits into a table.
LONGEST_REASON = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleStatus:
    """One actor of a pod."""

    name: str
    kind: str
    """The name of its class."""
    is_exposed: bool
    waiting: int | None
    """How many messages wait in its mailbox; None if nobody is there, or it was not known in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStatus:
    """One pod, in its present incarnation."""

    name: str
    phase: PodPhase
    reason: str
    """Why it is in that phase, in a sentence; often empty."""
    number: int
    """The number of its incarnation, from 1 on; 0 if it was never started."""
    is_gone: bool
    """Whether it will not be started again."""
    thread: ThreadModel
    restart: RestartPolicy
    roles: tuple[RoleStatus, ...] = ()
    up_s: float | None = None
    """For how many seconds it has been running; None if it does not."""
    process: int | None = None
    """The id of its process; None if it runs in the troupe's own."""
    native_id: int | None = None
    """What the system calls its thread; None if it has none at present."""
    core: int | None = None
    """The core that it is pinned to, as the system confirms; None if it is not."""

    @property
    def restarts(self) -> int:
        """How often it was started again."""
        return max(self.number - 1, 0)

    @property
    def waiting(self) -> int | None:
        """How many messages wait in the mailboxes of its actors; None if nothing is known."""
        known = [role.waiting for role in self.roles if role.waiting is not None]
        return sum(known) if known else None

    def to_dict(self) -> dict[str, object]:
        """The same in plain values, as JSON has them."""
        return {
            "name": self.name,
            "phase": self.phase.value,
            "reason": self.reason,
            "number": self.number,
            "restarts": self.restarts,
            "is_gone": self.is_gone,
            "thread": self.thread.value,
            "restart": self.restart.value,
            "roles": [
                {
                    "name": role.name,
                    "kind": role.kind,
                    "is_exposed": role.is_exposed,
                    "waiting": role.waiting,
                }
                for role in self.roles
            ],
            "up_s": self.up_s,
            "process": self.process,
            "native_id": self.native_id,
            "core": self.core,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TroupeStatus:
    """A whole troupe. `str(status)` is its table; iterating gives its pods."""

    name: str
    is_playing: bool
    """Whether all its pods were started, and it was not stopped."""
    up_s: float | None
    """For how many seconds it has been playing; None if it does not."""
    pods: tuple[PodStatus, ...] = ()
    nested: tuple[TroupeStatus, ...] = ()
    """The troupes inside it; their names are those of their attributes."""

    def __iter__(self) -> Iterator[PodStatus]:
        return iter(self.pods)

    def pod(self, name: str) -> PodStatus:
        """One pod, by its name; one of a troupe inside by both, `effects.reverb`.

        Raises:
            InvalidArgument: there is no such pod.
        """
        outer, _, inner = name.partition(".")
        if inner:
            for troupe in self.nested:
                if troupe.name == outer:
                    return troupe.pod(inner)
        for pod in self.pods:
            if pod.name == name:
                return pod
        known = ", ".join(each for each, _ in self._rows())
        raise InvalidArgument(f"troupe {self.name!r} has no pod {name!r}; it has {known or 'none'}")

    def table(self) -> str:
        """A table for people, a line for each pod; those of troupes inside with the names of both."""
        rows = [HEAD, *(_row(name, pod) for name, pod in self._rows())]
        # What nobody has anything to say in is left out.
        columns = [column for column in zip(*rows, strict=True) if len(rows) == 1 or any(column[1:])]
        widths = [max(map(len, column)) for column in columns]
        state = (
            f"playing for {_lasting(self.up_s)}"
            if self.is_playing and self.up_s is not None
            else "not playing"
        )
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in zip(*columns, strict=True)
        ]
        return "\n".join([f"{self.name}: {state}", *lines])

    def to_dict(self) -> dict[str, object]:
        """The same in plain values, as JSON has them."""
        return {
            "name": self.name,
            "is_playing": self.is_playing,
            "up_s": self.up_s,
            "pods": [pod.to_dict() for pod in self.pods],
            "nested": [troupe.to_dict() for troupe in self.nested],
        }

    def _rows(self) -> Iterator[tuple[str, PodStatus]]:
        yield from ((pod.name, pod) for pod in self.pods)
        for troupe in self.nested:
            yield from ((f"{troupe.name}.{name}", pod) for name, pod in troupe._rows())  # noqa: SLF001  # its own kind

    def __str__(self) -> str:
        return self.table()


def _row(name: str, pod: PodStatus) -> Sequence[str]:
    where = [f"process {pod.process}"] if pod.process is not None else []
    where += [f"core {pod.core}"] if pod.core is not None else []
    reason = " ".join(pod.reason.split())
    return (
        name,
        pod.phase.value + (", gone" if pod.is_gone else ""),
        pod.thread.value,
        pod.restart.value,
        str(pod.number),
        "" if pod.up_s is None else _lasting(pod.up_s),
        ", ".join(where),
        " ".join(role.name for role in pod.roles),
        "" if pod.waiting is None else str(pod.waiting),
        reason if len(reason) <= LONGEST_REASON else f"{reason[: LONGEST_REASON - 1]}…",
    )


def _lasting(seconds: float) -> str:
    """A length of time as people say it, in its two largest units."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"
