"""What the log is told of a loop's events: a line for each kind, once a second at most, and nothing left out at the end.

Not of restarts and escalations, for which supervisors have their own lines, one for each with its cause; nor of stalls, which the
watchdog names while they last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from bandstand.core.events import Lagged, RuntimeEvent, Unhandled
from bandstand.core.gossip import Gossip
from bandstand.core.logs import CrashLimiter

if TYPE_CHECKING:
    from bandstand.core.clock import Clock
    from bandstand.core.logs import SafeLogger

__all__ = ("Bulletin",)


@final
class Bulletin:
    """The lines of one loop."""

    __slots__ = (
        "_dead",
        "_dropped",
        "_lagged",
        "_missed",
        "_owes",
        "_unhandled",
        "_unlogged",
        "_untold",
        "_what",
        "crashes",
        "lagged",
        "unhandled",
        "untold",
    )

    def __init__(self, logger: SafeLogger, clock: Clock) -> None:
        self.unhandled = 0
        self.lagged = 0
        self.untold = 0
        """Events that were counted and not told to those who listen."""
        self.crashes = CrashLimiter(clock)
        """Which crashes have a line of their own."""
        # Whether one of those has a line to come; and what to say of the latest.
        self._owes = False
        self._what = ""
        self._missed = ""
        self._dead = Gossip(
            logger, clock, "%d dead letters (%d in all): messages whose actors ended before they were handled"
        )
        self._dropped = Gossip(
            logger, clock, "%d messages dropped (%d in all) by the overflow policy of a full mailbox"
        )
        self._unhandled = Gossip(
            logger, clock, "%d messages (%d in all) that their actors have no method for, or not now; %s"
        )
        self._lagged = Gossip(logger, clock, "%d times (%d in all) a subscriber was too slow; %s")
        self._untold = Gossip(
            logger, clock, "%d events (%d in all) were counted, but not told: those who listen cause too many"
        )

        self._unlogged = Gossip(
            logger,
            clock,
            "%d crashes (%d in all) have no line of their own: they are like others that were logged",
        )

    def admit_crash(self, place: str, error: BaseException | None) -> int:
        """How a crash is to be logged, as `CrashLimiter.admit` says."""
        count = self.crashes.admit(place, error)
        self._owes = self._owes or count == 0
        return count

    def note(self, event: RuntimeEvent) -> None:
        """Something was told: have it mentioned, if it is of a kind that has its line here."""
        if isinstance(event, Unhandled):
            self.unhandled += 1
            self._what = f"the last: {event.what}, for {event.actor!r} {event.name or '(unnamed)'}"
            self._owes = True
        elif isinstance(event, Lagged):
            self.lagged += 1
            end = ", and is cut off" if event.is_cut_off else ""
            self._missed = f"the last: {event.subscriber} has missed {event.missed} of {event.source}{end}"
            self._owes = True

    def give_up(self, count: int) -> None:
        """So many events will not be told."""
        self.untold += count
        self._owes = self._owes or count > 0

    def speak(self, dead: int, dropped: int, *, is_last: bool = False) -> bool:
        """Say what is due; with `is_last`, all that was not said. Whether nothing is left to say."""
        is_all = self._dead.speak(dead, is_last=is_last)
        is_all = self._dropped.speak(dropped, is_last=is_last) and is_all
        if self._owes:
            are_said = (
                self._unhandled.speak(self.unhandled, self._what, is_last=is_last),
                self._lagged.speak(self.lagged, self._missed, is_last=is_last),
                self._untold.speak(self.untold, is_last=is_last),
                self._unlogged.speak(self.crashes.unlogged, is_last=is_last),
            )
            self._owes = not all(are_said)
        return is_all and not self._owes
