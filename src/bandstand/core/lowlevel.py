"""For those who build runtimes and test kits on the loop: the system's voice, and the choice of who runs next.

Supervisors and pods need it; a program that only uses actors does not. It is a door of its own so that nobody speaks for
the system by accident.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bandstand.core.vocabulary import SystemTag
from bandstand.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable

    from bandstand.core.hot.ids import ActorId
    from bandstand.core.loop import Loop

__all__ = ("send_system", "set_scheduler")


def send_system(loop: Loop, target: ActorId | int, data: object, tag: SystemTag) -> bool:
    """Send a message on the SYSTEM lane. It takes any free slot of the target's mailbox, the system's reserve included.

    Only `CHILD_START` and `CHILD_RESTART` can be sent so: exits, downs and I/O events come from what they tell of.

    Returns:
        False if there was not one free slot: then the target has failed with `MailboxOverrun`.

    Raises:
        InvalidArgument: the tag is not one of the two.
        NoSuchActor, ActorNotLocal, LoopClosed, WrongThread: as for `Loop.send`.
    """
    if tag is not SystemTag.CHILD_START and tag is not SystemTag.CHILD_RESTART:
        raise InvalidArgument(f"tag is {tag!r}: pass SystemTag.CHILD_START or SystemTag.CHILD_RESTART")
    return loop._post_system(target, data, tag)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # the house's own door


def set_scheduler(loop: Loop, pick: Callable[[int], int] | None) -> None:
    """Choose which of the ready actors runs next: `pick(n)` answers 0 to n - 1, in the order they became ready.

    None is the loop's own rule, first come, first served. For tests that look for what depends on the order of actors;
    promises of order inside one actor hold under every choice.
    """
    loop._shuffle = pick  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # the house's own door
