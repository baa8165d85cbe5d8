"""For those who build runtimes on the loop: speaking with the system's voice.

Supervisors and pods need it; a program that only uses actors does not. It is a door of its own so that nobody speaks for
the system by accident.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bandstand.core.vocabulary import SystemTag
from bandstand.errors import InvalidArgument

if TYPE_CHECKING:
    from bandstand.core.hot.ids import ActorId
    from bandstand.core.loop import Loop

__all__ = ("send_system",)


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
