"""What the log says about an actor that has failed: its class, the message it was handling, and a summary of its state.

The kernel keeps only references, and only until the exit is handled; the texts are made when the report is logged. Every text is
limited in length, is one line, and is made without raising, whatever the program's own `__repr__` and `describe_state` do.
"""

from __future__ import annotations

from inspect import iscoroutine
from typing import TYPE_CHECKING, TypeAlias, final

from bandstand.errors.formatting import safe_repr, safe_str, single_line, type_name

if TYPE_CHECKING:
    from bandstand.core.reporter import LoopReporter

__all__ = ("TEXT_LIMIT", "CrashFacts", "CrashReport", "describe_data", "name_of_behavior", "state_summary")

TEXT_LIMIT = 300
"""The maximum length of the text of a message, and of a state."""

CrashFacts: TypeAlias = tuple[object, object, tuple[object, object] | None]
"""The behavior and the state of an actor that has failed, and tag and data of the message it failed with; None if it was handling none."""


@final
class CrashReport:
    """The texts of one crash. A text that is not known is empty."""

    __slots__ = ("kind", "message", "state")

    def __init__(self, reporter: LoopReporter, facts: CrashFacts) -> None:
        behavior, state, handled = facts
        self.kind = reporter.describe_kind(behavior, state)
        """The class of a typed actor; the behavior of a raw one."""
        self.message = "" if handled is None else reporter.describe_call(handled[1], handled[0])
        """The message with its arguments."""
        self.state = state_summary(state)
        """What `describe_state()` of the actor returned."""

    def lines(self) -> str:
        """Return the texts as indented lines, to be appended to a line of the log."""
        parts = (("class", self.kind), ("message", self.message), ("state", self.state))
        return "".join(f"\n  {label}: {text}" for label, text in parts if text)


def name_of_behavior(behavior: object) -> str:
    """Return the name of a raw behavior: a function, or an object that is called. An object with `__behavior_name__` names its methods itself."""
    owner: object = getattr(behavior, "__self__", None)
    if hasattr(type(owner), "__behavior_name__"):
        return str(getattr(owner, "__behavior_name__", ""))
    name = getattr(behavior, "__qualname__", None)
    return name if type(name) is str else type_name(behavior, qualified=True)


def describe_data(data: object, tag: object) -> str:  # noqa: ARG001  # typed actors describe messages by their tags
    """Show the data of a raw message in one line."""
    return single_line(safe_repr(data, TEXT_LIMIT))


def state_summary(state: object) -> str:
    """Return what the `describe_state` method of a state says, in one line; empty if there is no such method."""
    try:
        describe = getattr(type(state), "describe_state", None)
        summary = None if describe is None else describe(state)
        if summary is None:
            return ""
        if iscoroutine(summary):
            summary.close()
            return "(describe_state() is async: make it a plain method)"
    except BaseException as error:  # noqa: BLE001  # it runs in the middle of a failure, which must be reported
        return f"(describe_state() raised {type_name(error)})"
    return single_line(safe_str(summary, TEXT_LIMIT))
