"""Reporting what happens on a loop: to the log, to subscribers of its events, and to its observer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, final

from bandstand.core.crash_report import CrashFacts, CrashReport, describe_data, name_of_behavior
from bandstand.core.enums import ExitReason, Lane
from bandstand.core.events import RuntimeEvents, Stalled, hooks_of, merge_hooks
from bandstand.core.logs import SafeLogger, repeated
from bandstand.errors import StartError
from bandstand.errors.formatting import safe_repr, single_line

if TYPE_CHECKING:
    from bandstand.core.config import Clock
    from bandstand.core.ids import ActorId
    from bandstand.core.kernel import Kernel

__all__ = ("LoopReporter", "in_brackets")

logger = SafeLogger("bandstand.core")

# The longest text of a cause in a line.
MAX_CAUSE_CHARS = 200


def describe_message(data: object, tag: object) -> str:  # noqa: ARG001  # typed actors describe messages by their tags
    """Describe a message in a word, for people."""
    return type(data).__qualname__


def describe_class(behavior: object, state: object) -> str:  # noqa: ARG001  # only typed actors have a class
    """Return the class of a typed actor. A raw actor has none."""
    return ""


def describe_kind(behavior: object, state: object) -> str:  # noqa: ARG001  # typed actors are described by their state
    """Return the name of an actor's behavior."""
    return name_of_behavior(behavior)


@final
class LoopReporter:
    """The log lines, the runtime events and the observer of one loop.

    A loop of typed actors replaces the functions `describe`, `describe_call`, `describe_class` and `describe_kind`, and sets `unwrap`, which
    returns the data of a message as it was sent.
    """

    __slots__ = (
        "_hooks",
        "_kernel",
        "_stall_timeout",
        "describe",
        "describe_call",
        "describe_class",
        "describe_kind",
        "events",
        "unwrap",
    )

    def __init__(self, kernel: Kernel, clock: Clock, stall_timeout: float | None) -> None:
        self._kernel = kernel
        self._stall_timeout = stall_timeout or 0.0
        self._hooks: dict[str, Callable[..., Any] | None] = {}
        self.describe: Callable[[object, object], str] = describe_message
        self.describe_call: Callable[[object, object], str] = describe_data
        self.describe_class: Callable[[object, object], str] = describe_class
        self.describe_kind: Callable[[object, object], str] = describe_kind
        self.unwrap: Callable[[object], object] | None = None
        self.events = RuntimeEvents(kernel, logger, clock)

    def set_observer(self, observer: object | None) -> None:
        """Have `observer` called; None for none.

        Raises:
            InvalidArgumentError: it has no hook, or one with an unknown name.
        """
        self._hooks = {} if observer is None else hooks_of(observer)
        self.install_hooks()

    def install_hooks(self) -> None:
        """Have the kernel call just the hooks that the observer or a subscriber of events needs."""
        if self._kernel.is_down:
            return
        hooks = merge_hooks(self.events.hooks(), self._hooks)
        self._kernel.set_hooks(
            hooks.get("on_actor_start"),
            hooks.get("on_actor_stop"),
            hooks.get("on_mailbox_full"),
            self._unwrapping(hooks.get("on_dead_letter")),
            self._unwrapping(hooks.get("on_dropped")),
            hooks.get("on_actor_restart"),
            hooks.get("on_supervisor_escalate"),
        )

    def close(self) -> None:
        """Remove every hook. The loop has ended."""
        self._kernel.set_hooks(None, None, None, None, None, None, None)
        self.events.close()
        self._hooks = {}

    def error(self, what: str, error: BaseException) -> None:
        """Log an error that the loop survives."""
        logger.error("%s; the loop goes on", what, exc_info=error)

    def actor_crashed(
        self,
        actor: ActorId,
        name: str | None,
        reason: int,
        cause: BaseException | None,
        dead: int,
        facts: CrashFacts,
    ) -> None:
        """Log the abnormal exit of an actor without a supervisor."""
        # By its type: isinstance() asks the exception for its __class__, which may raise.
        if issubclass(type(cause), StartError) or (cause is not None and cause is self._kernel.failure):
            # It is raised instead, by the call that started the actor or the one that runs the loop.
            return
        count = self.events.admit_crash(f"actor {self.describe_kind(facts[0], facts[1]) or name}", cause)
        if count:
            logger.error(
                "actor %r %s ended with reason %s%s and has no supervisor; %d of its messages became dead letters%s%s",
                actor,
                name or "(unnamed)",
                ExitReason(reason).name,
                in_brackets(cause),
                dead,
                repeated(count),
                CrashReport(self, facts).lines() if count == 1 else "",
                exc_info=cause if count == 1 else None,
            )

    def report_counts(self, *, is_last: bool = False) -> None:
        """Log dead letters, drops and other counted events, each kind at most once a second; at the end, all that is left."""
        kernel = self._kernel
        counters = kernel.counters
        is_all = self.events.update_log(
            counters.dead - counters.dead_system, counters.dropped - counters.dropped_system, force=is_last
        )
        kernel.reported = counters.dead + counters.dropped if is_all else -1

    def report_stall(self, actor: ActorId, name: str | None, message: object) -> str:
        """Publish that an actor blocks the loop, and return a description of its message. Called on the watchdog's thread."""
        what = self.describe(message, self._kernel.tag_of(actor))
        stalled = Stalled(actor, name, what, self._stall_timeout)
        self._kernel.inbox.call_soon(partial(self.events.tell, stalled))
        return what

    def describe_activity(self, actor: ActorId) -> tuple[str, str]:
        """Return the class of an actor, and the message that it is handling; each empty if there is none."""
        found = self._kernel.activity_of(actor)
        if found is None:
            return "", ""
        behavior, state, is_busy, tag, data = found
        what = ""
        if is_busy:
            what = "a message" if data is None and not tag else self.describe(data, tag)
        return self.describe_class(behavior, state), what

    def _unwrapping(self, hook: Callable[..., Any] | None) -> Callable[..., Any] | None:
        """Have a hook see messages as they were sent."""
        return hook if hook is None or self.unwrap is None else partial(_call_unwrapped, hook, self.unwrap)


def in_brackets(cause: BaseException | None) -> str:
    """Return the suffix of a line that shows a cause; empty if there is none."""
    return "" if cause is None else f" ({single_line(safe_repr(cause, MAX_CAUSE_CHARS))})"


def _call_unwrapped(
    hook: Callable[..., None],
    unwrap: Callable[[object], object],
    target: ActorId,
    lane: Lane,
    data: object,
    tag: object,
    sender: object,
) -> None:
    hook(target, lane, unwrap(data), tag, sender)
