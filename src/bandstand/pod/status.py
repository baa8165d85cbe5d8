"""Records that describe a troupe at one moment: status, health and message counts."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass
from traceback import extract_stack
from typing import Self

from bandstand.errors import InvalidArgumentError
from bandstand.pod.enums import PodPhase, ThreadModel
from bandstand.supervision import RestartPolicy

__all__ = ("Health", "PodStats", "PodStatus", "RoleStatus", "TroupeStatus", "thread_location")

HEADER = ("pod", "phase", "thread", "restart", "no.", "up", "where", "roles", "waiting", "reason")
# Longer reasons are cut in the table.
MAX_REASON = 60


# --- status -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleStatus:
    """One actor of a pod."""

    name: str
    kind: str
    """The name of its class."""
    is_exposed: bool
    waiting: int | None
    """How many messages wait in its mailbox; None if it does not run, or did not answer in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStatus:
    """One pod, in its current incarnation."""

    name: str
    phase: PodPhase
    reason: str
    """Why it is in that phase; often empty."""
    number: int
    """The number of its incarnation, from 1; 0 if it was never started."""
    is_gone: bool
    """Whether it has ended and will not be restarted."""
    thread: ThreadModel
    restart: RestartPolicy
    roles: tuple[RoleStatus, ...] = ()
    up_s: float | None = None
    """For how many seconds it has been running; None if it does not run."""
    process: int | None = None
    """The id of its process; None if it runs in the process of the troupe."""
    native_id: int | None = None
    """The native id of its thread; None if it has no thread at the moment."""
    core: int | None = None
    """The core that it is pinned to, as the operating system reports it; None if it is not pinned."""

    @property
    def restarts(self) -> int:
        """How often it was restarted."""
        return max(self.number - 1, 0)

    @property
    def waiting(self) -> int | None:
        """How many messages wait in the mailboxes of its actors; None if that is not known."""
        known = [role.waiting for role in self.roles if role.waiting is not None]
        return sum(known) if known else None

    def to_dict(self) -> dict[str, object]:
        """Return the same as plain values, for JSON."""
        return {
            "name": self.name,
            "phase": self.phase.value,
            "reason": self.reason,
            "number": self.number,
            "restarts": self.restarts,
            "is_gone": self.is_gone,
            "thread": self.thread.value,
            "restart": self.restart.value,
            "roles": [asdict(role) for role in self.roles],
            "up_s": self.up_s,
            "process": self.process,
            "native_id": self.native_id,
            "core": self.core,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TroupeStatus:
    """A whole troupe. `str(status)` is a table; iterating yields the pods."""

    name: str
    is_running: bool
    """Whether all its pods have started and it is not stopping."""
    up_s: float | None
    """For how many seconds it has been running; None if it does not run."""
    pods: tuple[PodStatus, ...] = ()
    nested: tuple[TroupeStatus, ...] = ()
    """The nested troupes, named by their attributes."""

    def __iter__(self) -> Iterator[PodStatus]:
        return iter(self.pods)

    def pod(self, name: str) -> PodStatus:
        """Return a pod by name. A pod of a nested troupe has a dotted name: `effects.reverb`.

        Raises:
            InvalidArgumentError: there is no such pod.
        """
        outer, _, inner = name.partition(".")
        if inner:
            for troupe in self.nested:
                if troupe.name == outer:
                    return troupe.pod(inner)
        for pod in self.pods:
            if pod.name == name:
                return pod
        known = ", ".join(each for each, _ in _rows_of(self))
        raise InvalidArgumentError(f"troupe {self.name!r} has no pod {name!r}; it has {known or 'none'}")

    def table(self) -> str:
        """Return a table with one line per pod. Pods of nested troupes have dotted names."""
        rows = [HEADER, *(_cells(name, pod) for name, pod in _rows_of(self))]
        # Empty columns are left out.
        columns = [column for column in zip(*rows, strict=True) if len(rows) == 1 or any(column[1:])]
        widths = [max(map(len, column)) for column in columns]
        state = (
            f"running for {_format_duration(self.up_s)}"
            if self.is_running and self.up_s is not None
            else "not running"
        )
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in zip(*columns, strict=True)
        ]
        return "\n".join([f"{self.name}: {state}", *lines])

    def to_dict(self) -> dict[str, object]:
        """Return the same as plain values, for JSON."""
        return {
            "name": self.name,
            "is_running": self.is_running,
            "up_s": self.up_s,
            "pods": [pod.to_dict() for pod in self.pods],
            "nested": [troupe.to_dict() for troupe in self.nested],
        }

    def __str__(self) -> str:
        return self.table()


def _rows_of(status: TroupeStatus) -> Iterator[tuple[str, PodStatus]]:
    """Yield the pods of a troupe and of its nested troupes, with dotted names."""
    yield from ((pod.name, pod) for pod in status.pods)
    for troupe in status.nested:
        yield from ((f"{troupe.name}.{name}", pod) for name, pod in _rows_of(troupe))


def _cells(name: str, pod: PodStatus) -> Sequence[str]:
    where = [f"process {pod.process}"] if pod.process is not None else []
    where += [f"core {pod.core}"] if pod.core is not None else []
    reason = " ".join(pod.reason.split())
    return (
        name,
        pod.phase.value + (", gone" if pod.is_gone else ""),
        pod.thread.value,
        pod.restart.value,
        str(pod.number),
        "" if pod.up_s is None else _format_duration(pod.up_s),
        ", ".join(where),
        " ".join(role.name for role in pod.roles),
        "" if pod.waiting is None else str(pod.waiting),
        reason if len(reason) <= MAX_REASON else f"{reason[: MAX_REASON - 1]}…",
    )


def _format_duration(seconds: float) -> str:
    """Format a duration in its two largest units."""
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


# --- health -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The result of a health check. `bool(health)` is True if there are no problems."""

    troupe: str
    is_kubelet_alive: bool
    """Whether the kubelet's thread runs. It supervises the pods."""
    is_kubelet_prompt: bool
    """Whether the kubelet answered before the timeout. If not, something blocks its thread, and no pod is restarted."""
    kubelet_latency: float
    """How long its answer took, or how long the check waited for it, in seconds."""
    kubelet_at: str = ""
    """Where its thread is if it does not answer: the line, and the actor whose handler runs. Otherwise empty."""
    down: tuple[str, ...] = ()
    """The pods that do not run at the moment and will be restarted."""
    gone: tuple[str, ...] = ()
    """The pods that have failed and will not be restarted."""
    stuck: tuple[str, ...] = ()
    """The pods whose thread or process did not answer in time."""
    cut_off: tuple[str, ...] = ()
    """The process pods that answered the kubelet in time, but not over the link that carries messages."""
    nested: tuple[Health, ...] = ()
    """The health of the nested troupes."""

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, one sentence each."""
        found: list[str] = []
        if not self.is_kubelet_alive:
            found.append(f"troupe {self.troupe!r}: its kubelet does not run, so its pods are not restarted")
        elif not self.is_kubelet_prompt:
            found.append(
                f"troupe {self.troupe!r}: its kubelet has not answered for {self.kubelet_latency * 1000:.0f} ms: something blocks its "
                f"thread, {self.kubelet_at or 'most likely a handler of a cooperative pod'}"
            )
        for names, what in (
            (self.down, "is down, and will be restarted"),
            (self.gone, "has failed, and will not be restarted"),
            (self.stuck, "has not answered in time: a handler keeps it busy"),
            (self.cut_off, "has not answered over its link in time: messages may not reach it"),
        ):
            found += [f"troupe {self.troupe!r}: pod {name!r} {what}" for name in names]
        return (*found, *(problem for each in self.nested for problem in each.problems))

    def to_dict(self) -> dict[str, object]:
        """Return the same as plain values, for JSON."""
        return {**asdict(self), "problems": list(self.problems)}

    def __bool__(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        return "\n".join(self.problems) or f"troupe {self.troupe!r} is healthy"


# --- message counts ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PodStats:
    """How many messages were sent to the actors of a pod or a troupe, and what became of them.

    `sent == handled + refused + dead + dropped + in_doubt + waiting`. A message from one process to another counts in both: in the
    process that sends it and in the process that handles it.
    """

    sent: int = 0
    handled: int = 0
    """Messages whose handler has ended."""
    refused: int = 0
    """Messages that were rejected at once, with an error for the sender."""
    dead: int = 0
    """Messages whose actor ended before it handled them."""
    dropped: int = 0
    """Messages that the overflow policy of a full mailbox dropped."""
    in_doubt: int = 0
    """Messages that were in flight to a process, or in its mailboxes, when it died. They may have been handled or not."""
    waiting: int = 0
    """Messages that are queued or in flight."""

    def __add__(self, other: Self) -> Self:
        return type(self)(
            *(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True))
        )

    @property
    def is_balanced(self) -> bool:
        """Whether every message is counted in exactly one of the outcomes."""
        outcomes = (self.handled, self.refused, self.dead, self.dropped, self.in_doubt, self.waiting)
        return self.sent == sum(outcomes)


# --- threads ----------------------------------------------------------------------------------------------------------


def thread_location(native_id: int | None) -> str:
    """Return the line that a thread of this process is executing: "paint() in studio.py, line 12".

    Returns an empty string if there is no such thread.
    """
    for thread in threading.enumerate():
        if thread.native_id == native_id and native_id is not None:
            frames = sys._current_frames()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # documented, in spite of its name
            frame = frames.get(thread.ident or 0)
            if frame is not None:
                innermost = extract_stack(frame)[-1]
                return f"{innermost.name}() in {innermost.filename}, line {innermost.lineno}"
    return ""
