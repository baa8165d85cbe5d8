"""Getting a message into a mailbox, and keeping the books of what became of it.

Every message that anybody tries to send has exactly one fate, and each fate is a counter:

    sent  =  handled + refused + dead + dropped          (+ what still waits in a mailbox)

`Post` is the lowest storey of the kernel: post, reach, life, monitors, links, timers, arrivals, sending, kernel, births, calls, desk,
spawning. They are one object, because separate ones would put a pointer between a send and its mailbox; each storey is a class that adds one
concern.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from bandstand.core.delivery import DeliveryCallback
from bandstand.core.enums import ACCEPTED, DATA, FULL, SYSTEM, Lane, Overflow
from bandstand.core.mailbox import RunQueue
from bandstand.errors import BandstandError, MailboxFull, NoSuchActor
from bandstand.errors.formatting import safe_repr

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from bandstand.core.context import ActorContext
    from bandstand.core.delivery import StashCounter
    from bandstand.core.mailbox import ActorCell

Count: TypeAlias = int
LaneNumber: TypeAlias = int
FateNumber: TypeAlias = int
Hook: TypeAlias = Callable[..., Any]

LANES = tuple(Lane)


class Post:
    """The run queue, the books, and the way into a mailbox."""

    __slots__ = (
        "_accepted",
        "_aside",
        "_awake",
        "_dead",
        "_dead_system",
        "_dropped",
        "_dropped_system",
        "_handled",
        "_looking",
        "_on_dead_letter",
        "_on_dropped",
        "_on_full",
        "_queue",
        "_refused",
        "_telling",
    )

    def __init__(self) -> None:
        self._queue = RunQueue()
        self._accepted: Count = 0
        self._handled: Count = 0
        self._refused: Count = 0
        self._dead: Count = 0
        # Those of them that the system itself has sent: nothing a user has lost.
        self._dead_system: Count = 0
        self._dropped: Count = 0
        # Those that their actors have put aside: they wait, but nobody comes to them by himself.
        self._aside: Count = 0
        # Those of them that nobody has sent: events of a descriptor that is not watched any more.
        self._dropped_system: Count = 0
        # True while somebody is going to look at the run queue anyway: a tick runs or is scheduled, or there is no
        # host to be woken. Then making an actor ready costs no call.
        self._awake = True
        # Whether somebody wants to know as soon as there is nothing left to do: then every end is a reason to look.
        self._looking = False
        # How many hooks are being called at this moment.
        self._telling: Count = 0
        self._on_full: Hook | None = None
        self._on_dead_letter: Hook | None = None
        self._on_dropped: Hook | None = None

    def _rouse(self) -> None:
        """Have the host call for a tick. The loop above overrides it."""

    def _complain(self, what: str, error: BaseException) -> None:
        """Report that somebody's hook has raised. The loop above overrides it."""

    def _enqueue(
        self, cell: ActorCell, lane: LaneNumber, data: object, tag: object, sender: object
    ) -> FateNumber:
        """Put a user message into a living cell's lane and make the cell ready."""
        if not cell.offer(lane, data, tag, sender):
            return self._overflow(cell, lane, data, tag, sender)
        self._accepted += 1
        if not cell.queued:
            self._ready(cell)
        return ACCEPTED

    @cython.nonecheck(False)
    def _ready(self, cell: ActorCell) -> None:
        """Put a cell that is not queued into the run queue, and see that somebody comes to run it."""
        cell.queued = True
        self._queue.push(cell)
        self._stir()

    @cython.nonecheck(False)
    def _stir(self) -> None:
        """Have the host call for a tick, unless one runs or is on its way."""
        if not self._awake:
            self._awake = True
            self._rouse()

    def _look(self) -> None:
        """Something has ended outside a tick. If somebody waits for that, have a tick find out whether all has."""
        if self._looking:
            self._stir()

    def _overflow(
        self, cell: ActorCell, lane: LaneNumber, data: object, tag: object, sender: object
    ) -> FateNumber:
        """Decide about a message that met a full lane, by the policy its target was spawned with."""
        policy = cell.overflow
        if policy is None or cell.closing:
            self._refused += 1
            if self._on_full is not None and not cell.closing:
                self._tell(self._on_full, (cell.actor,))
            return FULL
        ring = cell.lane(lane)
        self._accepted += 1
        self._dropped += 1
        if policy is Overflow.DROP_NEWEST or ring.count == 0:
            # An empty lane can only be full while the system holds every slot: there is nothing older to give up.
            letter = (data, tag, sender)
        else:
            letter = ring.shift() if policy is Overflow.DROP_OLDEST else ring.pop_newest()
            ring.push(data, tag, sender)
        if isinstance(letter[2], DeliveryCallback):
            letter[2].dropped(cell.actor, cell.name)
            letter = (letter[0], letter[1], 0)
        if self._on_dropped is not None:
            self._tell(self._on_dropped, (cell.actor, LANES[lane], *letter))
        return ACCEPTED

    def _full(self, cell: ActorCell, lane: Count) -> BandstandError:
        """The error for a lane without room."""
        actor = cell.actor
        assert actor is not None
        if cell.closing:
            return NoSuchActor(
                f"actor {actor!r} {cell.name or '(unnamed)'} is ending: it handles what it has, and accepts nothing any more"
            )
        return MailboxFull.of(
            actor, actor.number, cell.name, LANES[lane].name, cell.depth(lane) + cell.coming(lane), cell.cap
        )

    def _bury_one(self, cell: ActorCell, lane: LaneNumber, data: object, tag: object, sender: object) -> None:
        """ActorContext one accepted message into a dead letter, and answer whoever waits for it."""
        self._dead += 1
        if isinstance(sender, DeliveryCallback):
            sender.lost(cell.actor, cell.name, cell.reason, cell.cause)
            sender = 0
        if self._on_dead_letter is not None:
            self._tell(self._on_dead_letter, (cell.actor, LANES[lane], data, tag, sender))

    def _bury(self, cell: ActorCell) -> Count:
        """ActorContext every unread message of a cell into a dead letter; how many there were."""
        return 0 if cell.waiting() == 0 else self._bury_lanes(cell, DATA)

    def _bury_lanes(self, cell: ActorCell, last: LaneNumber) -> Count:
        """ActorContext the unread messages of a cell's lanes, from SYSTEM to `last`, into dead letters; how many there were."""
        count = 0
        lane = 0
        while lane <= last:
            if cell.depth(lane) > 0:
                ring = cell.lane(lane)
                count += ring.count
                self._dead += ring.count
                if lane == SYSTEM:
                    self._dead_system += ring.count
                if lane != DATA:
                    cell.urgent -= ring.count
                while ring.count > 0:
                    letter = ring.shift()
                    if lane == SYSTEM:
                        # What stands in the sender's place there is the runtime's own business.
                        letter = (letter[0], letter[1], 0)
                    elif isinstance(letter[2], DeliveryCallback):
                        letter[2].lost(cell.actor, cell.name, cell.reason, cell.cause)
                        letter = (letter[0], letter[1], 0)
                    if self._on_dead_letter is not None:
                        self._tell(self._on_dead_letter, (cell.actor, LANES[lane], *letter))
            lane += 1
        return count

    def _set_aside(self, cell: ActorCell, turn: ActorContext, data: object, shelf: StashCounter) -> None:
        """Keep the message at hand: it has not been handled, and its sender still waits."""
        sender = turn.sender
        turn.sender = 0
        if cell.stashed is None:
            cell.stashed = []
        cell.stashed.append((turn.lane_number, data, turn.tag, sender, shelf))
        shelf.count += 1
        self._aside += 1
        self._handled -= 1

    def _put_back(self, cell: ActorCell, shelf: StashCounter | None) -> Count:
        """Put what a cell has kept on a shelf, or on all of them, before what waits in its lanes, in the order it was kept; how many."""
        kept = cell.stashed
        if kept is None:
            return 0
        left: list[tuple[int, object, object, object, StashCounter]] = []
        count = 0
        for letter in reversed(kept):
            if shelf is not None and letter[4] is not shelf:
                left.append(letter)
                continue
            letter[4].count -= 1
            cell.put_back(letter[0], letter[1], letter[2], letter[3])
            count += 1
        left.reverse()
        cell.stashed = left or None
        self._aside -= count
        return count

    def _tell(self, hook: Hook, arguments: tuple[object, ...]) -> bool:
        """Call somebody's hook; whether it came through. What it raises is reported and goes no further."""
        self._telling += 1
        try:
            hook(*arguments)
        except (KeyboardInterrupt, SystemExit) as error:
            self._leave(error)
        except BaseException as error:  # noqa: BLE001  # whatever somebody's hook raises
            self._complain(f"the hook {safe_repr(getattr(hook, '__qualname__', hook))} raised", error)
        else:
            return True
        finally:
            self._telling -= 1
        return False

    def _leave(self, error: BaseException) -> None:
        """Note that the whole loop must end with `error`. The kernel above overrides it."""
