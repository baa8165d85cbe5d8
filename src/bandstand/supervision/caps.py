"""Mailbox caps against a loop's limits: the one thing about a spec that only the loop can judge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bandstand.core.lowlevel import checked_cap
from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_str
from bandstand.supervision.spec import (
    AnySupervisorSpec,
    ChildSpec,
    DynamicSpec,
    PartitionSpec,
    SupervisorSpec,
)

if TYPE_CHECKING:
    from bandstand.core import Loop

__all__ = ("check_caps",)


def check_caps(loop: Loop, what: AnySupervisorSpec | ChildSpec[Any]) -> None:
    """See that every mailbox of a child, or of a whole tree, suits the loop, before anything starts.

    Raises:
        InvalidArgument: one does not.
    """
    if isinstance(what, SupervisorSpec):
        for child in what.children:
            check_caps(loop, child)
    elif isinstance(what, (DynamicSpec, PartitionSpec)):
        check_caps(loop, what.child)
    elif isinstance(what.run, (SupervisorSpec, DynamicSpec, PartitionSpec)):
        check_caps(loop, what.run)
    else:
        try:
            checked_cap(loop, what.mailbox_cap)
        except InvalidArgument as error:
            raise InvalidArgument(f"child {what.name!r}: {safe_str(error)}") from None
