"""A port: one method of a handle. Calling it makes a message and posts it.

`handle.add(5)` is the hottest line a user writes. As a descriptor that makes a bound object for every access it would cost
more than the whole rest of the message. So, compiled, a port is to Python what a function is: a *method descriptor*, which is
called with the handle in front, and called directly, by the vectorcall protocol, without a tuple of arguments (the `.pxd`
says how). `handle.add` by itself, for its twins, goes through `__get__` and makes that object.

Arguments are bound here, on the caller's side: a wrong call is a TypeError of the caller, and no message. The usual call, all
arguments by position, needs no binding at all; any other goes through the method's binder, a function of the same signature.
"""

# The hot modules are one mechanism in several files, across both rooms: they share kernels' insides by .pxd.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from bandstand.actor.enums import HELD, PENDING, RETRY
from bandstand.actor.hot.asks import Asked
from bandstand.actor.hot.handle import Handle
from bandstand.actor.hot.method import Method
from bandstand.actor.hot.reply import Reply
from bandstand.actor.hot.waits import Landing
from bandstand.core.numbers import ACCEPTED, AFAR, AWAY, DATA, FULL
from bandstand.errors import BandstandError, LoopClosed, MailboxFull, NoSuchActor, PodDown
from bandstand.errors.formatting import safe_repr

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import interpreted as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from bandstand.core.hot.cell import Cell
    from bandstand.core.hot.desk import Desk
    from bandstand.core.hot.ids import ActorId
    from bandstand.core.hot.wheel import Timer

Fate: TypeAlias = int
Milliseconds: TypeAlias = int

ZERO = 0
# Whether whoever sends may be blocked until somebody is there.
MAY_WAIT = True
AT_ONCE = False


def refusal(handle: Handle) -> BandstandError:
    """Why nobody takes a message."""
    place = handle._bs_place
    if place is not None and place.is_patient:
        return PodDown(f"nobody is there to take a message: {place.describe()}")
    if handle._bs_loop._closed:
        return LoopClosed("the loop is closed: it was asked to stop, or was destroyed")
    if place is not None:
        return NoSuchActor(f"nobody is there to take a message: {place.describe()}")
    return NoSuchActor(f"{safe_repr(handle)} has ended: its actor accepts nothing any more")


def packed(kernel: Desk, handle: Handle, method: Method, data: object) -> object:
    """The data of a message to an actor of this loop, with what is to travel along, if anything is."""
    porter = kernel._porter
    return data if porter is None else porter.pack(handle, method, data)


def post(kernel: Desk, actor: ActorId, method: Method, data: object, sender: object) -> Fate:
    """Post a message that is packed: ACCEPTED, FULL, AWAY or AFAR, with nothing done but for ACCEPTED."""
    if (
        kernel._direct
        and kernel._stepper is None
        and not method.is_async
        and kernel._call_directly(actor, method.lane, data, method, sender)
    ):
        return ACCEPTED
    return kernel._post_known(actor, method.lane, data, method, sender)


def post_at(actor: ActorId, method: Method, data: object, sender: object) -> Fate:
    """Post a message to an actor that is known, from whatever thread, never by a direct call.

    ACCEPTED, FULL or AWAY; `sender` is an `Asked`, or 0.
    """
    kernel: Any = actor.home
    fate = known(kernel, actor, method, data, sender)
    if fate != AFAR:
        return fate
    try:
        kernel._post_afar(actor, method.lane, data, method, sender)
    except MailboxFull:
        return FULL
    except BandstandError:
        return AWAY
    return ACCEPTED


def known(kernel: Desk, actor: ActorId, method: Method, data: object, sender: object) -> Fate:
    """The kernel's own way to post, for a kernel whose type is known."""
    return kernel._post_known(actor, method.lane, data, method, sender)


def has_room(actor: ActorId, method: Method) -> bool:
    """Whether an actor's mailbox would take a message now, of whatever policy. From any thread; the next moment it may not."""
    cell: Cell | None = actor.cell
    return cell is not None and (cell.overflow is not None or cell.has_room(method.lane))


def is_draining(actor: ActorId) -> bool:
    """Whether an actor that is alive only finishes what it has, by itself or with its whole loop. From any thread.

    A loop that only finishes what it has still takes what its own actors send in their turns.
    """
    cell: Cell | None = actor.cell
    kernel: Any = actor.home
    return cell is not None and (cell.closing or is_shut(kernel))


def is_shut(kernel: Desk) -> bool:
    """Whether a loop takes nothing from here any more, and only finishes what it has."""
    return kernel._shut and (kernel._current is None or kernel._is_afar())


def land_at(actor: ActorId, method: Method, data: object, asked: Asked) -> Fate:
    """Post a message to an actor that is known, on its own thread, and never by a direct call; if its lane is full, have it wait there.

    ACCEPTED; FULL, if it waits for room, in its order; or AWAY. Where the mailbox has another policy for a full lane, that decides,
    and `asked` is told.
    """
    kernel: Any = actor.home
    fate = known(kernel, actor, method, data, asked)
    cell: Cell | None = actor.cell
    if fate != FULL or cell is None:
        return fate
    if cell.closing:
        return AWAY
    return wait_at(kernel, cell, method, data, asked)


def wait_at(kernel: Desk, cell: Cell, method: Method, data: object, asked: Asked) -> Fate:
    """The same for a full lane, of a kernel and a cell whose types are known."""
    if cell.overflow is not None:
        return kernel._enqueue(cell, method.lane, data, method, asked)
    kernel._wait_for_room(cell, method.lane, data, method, asked, asked)
    return FULL


def refuse(
    handle: Handle, method: Method, data: object, message: object, sender: object, fate: Fate, may_wait: bool
) -> None:
    """A message was not accepted at once: send it from afar, let its mailbox give something up for it, or say why not.

    `data` are its arguments, `message` is what was made of them.
    """
    actor = handle._bs_actor
    kernel = handle._bs_loop
    if fate == FULL and actor.home is kernel and not (has_patience(handle) and is_draining(actor)):
        make_room(kernel, actor, method, message, sender)
    elif fate == AWAY and (handle._bs_place is None or not handle._bs_place.is_patient):
        kernel._refused += 1
        raise refusal(handle)
    else:
        post_afar(handle, method, data, sender, may_wait)


def has_patience(handle: Handle) -> bool:
    """Whether messages may wait at the place of a handle for somebody to come."""
    place = handle._bs_place
    return place is not None and bool(place.is_patient)


def post_afar(handle: Handle, method: Method, data: object, sender: object, may_wait: bool) -> None:
    """Send a message from whatever thread, to whoever is there, now or later, or raise. `sender` is good on any thread.

    What was not enqueued is tried once more where somebody may have come meanwhile.
    """
    place = handle._bs_place
    waits = has_patience(handle)
    tries = 2 if waits else 1
    while True:
        tries -= 1
        actor = handle._bs_actor
        kernel: Any = actor.home
        if kernel._closed or not actor.is_alive or (waits and is_draining(actor)):
            # Another thread may have renewed it just now.
            if handle._bs_renew() or handle._bs_actor is not actor:
                actor = handle._bs_actor
                kernel = actor.home
            elif place is None or tries < 0:
                raise refusal(handle)
            else:
                asked = None if sender is ZERO else sender
                answer = place.hold(handle, method, data, asked, may_wait)  # type: ignore[arg-type]  # an Asked
                if answer == HELD:
                    return
                if answer != RETRY:
                    raise refusal(handle)
                continue
        message = packed(kernel, handle, method, data)
        if not kernel._is_afar():
            # On our own thread after all: by the inbox, those that are sent next would overtake it.
            fate = known(kernel, actor, method, message, sender)
            if fate == FULL:
                make_room(kernel, actor, method, message, sender)
                return
            if fate == ACCEPTED:
                return
            if tries <= 0:
                raise refusal(handle)
            continue
        try:
            kernel._post_afar(actor, method.lane, message, method, sender)
        except (NoSuchActor, LoopClosed):
            # It has ended between the look and the send.
            if tries <= 0:
                if waits:
                    raise refusal(handle) from None
                raise
        else:
            return


def make_room(kernel: Desk, actor: ActorId, method: Method, message: object, sender: object) -> None:
    """A lane is full: let its mailbox give something up for a message, or raise."""
    cell = actor.cell
    assert cell is not None
    if kernel._enqueue(cell, method.lane, message, method, sender) != ACCEPTED:
        raise kernel._full(cell, method.lane)


@cython.nonecheck(False)
def slip(kernel: Desk, actor: ActorId, method: Method, data: object) -> bool:
    """Send a one-way message of a plain handler that nothing travels along with, into a DATA lane with room. False if any of that may not be so.

    The kernel is the handle's; should another thread renew it just now, the actor is another kernel's, and nothing is sent.
    """
    if kernel is None or actor is None:  # type: ignore[redundant-expr]  # pyright: ignore[reportUnnecessaryComparison]  # callers without types
        # A handle that was made without its constructor: what follows says so.
        return False  # type: ignore[unreachable]
    porter = kernel._porter
    if method.lane != DATA or not kernel._ticking or kernel._abroad or kernel._direct or kernel._shut:
        return False
    return (porter is None or porter.is_light) and kernel._slip_in(actor, data, method, ZERO)


def tell(handle: Handle, method: Method, data: object) -> None:
    """Send a one-way message, from any thread, or raise."""
    send(handle, method, data, MAY_WAIT)


def send(handle: Handle, method: Method, data: object, may_wait: bool) -> None:
    """The same; `may_wait` says whether the caller may be blocked until somebody is there."""
    # The loop by the actor: another thread may be renewing this very handle.
    actor = handle._bs_actor
    kernel: Desk = actor.home  # type: ignore[assignment]  # a loop
    if kernel._is_afar():
        post_afar(handle, method, data, 0, may_wait)
        return
    porter = kernel._porter
    message = data if porter is None else porter.pack(handle, method, data)
    fate = post(kernel, actor, method, message, 0)
    if fate == AWAY and (handle._bs_renew() or handle._bs_actor is not actor):
        actor = handle._bs_actor
        if actor.home is not kernel:
            # On another loop: what travels along is packed anew.
            send(handle, method, data, may_wait)
            return
        fate = post(kernel, actor, method, message, 0)
    if fate != ACCEPTED:
        refuse(handle, method, data, message, 0, fate, may_wait)


def try_tell(handle: Handle, method: Method, data: object) -> bool:
    """Send a one-way message, from any thread; False if it is not accepted."""
    try:
        send(handle, method, data, AT_ONCE)
    except BandstandError:
        return False
    return True


def ask(handle: Handle, method: Method, data: object, ms: Milliseconds) -> Reply | None:
    """Ask, on the loop's own thread; the reply that will have the answer.

    None if nothing was sent, because nobody is there or he is on another thread by now: it has to be asked from afar.
    """
    actor = handle._bs_actor
    kernel: Desk = actor.home  # type: ignore[assignment]  # a loop
    porter = kernel._porter
    message = data if porter is None else porter.pack(handle, method, data)
    reply = Reply.__new__(Reply)
    reply.kernel = kernel
    reply.actor = actor
    reply.relay = None
    reply.name = handle._bs_name
    reply.method = method
    reply.ms = ms
    reply.asks = handle._bs_asks
    reply.asked_at = kernel._elapsed()
    reply.asker = None
    reply.stepper = None
    reply.serial = 0
    reply.alarm = None
    reply.note_asker()
    reply.state = PENDING
    reply.value = None
    reply.timer = None
    reply.waiters = None
    # Counted first: a direct call may answer before we are back.
    reply.asks.asked += 1
    fate = post(kernel, actor, method, message, reply)
    if fate == AWAY and handle._bs_renew() and handle._bs_actor.home is kernel:
        # Another incarnation takes it.
        reply.actor = handle._bs_actor
        fate = post(kernel, reply.actor, method, message, reply)
    if fate == ACCEPTED:
        return reply
    reply.asks.asked -= 1
    if fate == FULL and not (has_patience(handle) and is_draining(reply.actor)):
        refuse(handle, method, data, message, reply, fate, AT_ONCE)
        reply.asks.asked += 1
        return reply
    if handle._bs_place is None or not handle._bs_place.is_patient:
        refuse(handle, method, data, message, reply, fate, AT_ONCE)
    return None


def is_afar(handle: Handle) -> bool:
    """Whether this is another thread than that of the handle's loop."""
    kernel: Desk = handle._bs_actor.home  # type: ignore[assignment]  # a loop
    return kernel._is_afar()


def land(handle: Handle, method: Method, data: object) -> Landing:
    """Send a one-way message as soon as there is room; what tells that it is in. Loop thread only."""
    kernel = handle._bs_loop
    landing = Landing(kernel, handle._bs_actor, handle._bs_name, method, -1, handle._bs_asks)
    landing.asked_at = kernel._elapsed()
    landing.note_asker()
    landing.message = wait_for_room(handle, method, data, landing)
    landing.actor = handle._bs_actor
    return landing


def wait_for_room(handle: Handle, method: Method, data: object, waiter: Asked) -> Timer | None:
    """Send a message as soon as there is room: `waiter` is told, now or later. Loop thread only.

    Returns:
        What waits; None if it is in.

    Raises:
        NoSuchActor, LoopClosed: there is nobody to wait for.
    """
    actor = handle._bs_actor
    kernel: Desk = actor.home  # type: ignore[assignment]  # a loop
    message = packed(kernel, handle, method, data)
    fate = post(kernel, actor, method, message, 0)
    if fate == AWAY and (handle._bs_renew() or handle._bs_actor is not actor):
        actor = handle._bs_actor
        if actor.home is not kernel and not is_afar(handle):
            return wait_for_room(handle, method, data, waiter)
        if actor.home is kernel:
            fate = post(kernel, actor, method, message, 0)
    cell: Cell | None = actor.cell
    if fate == FULL and cell is not None and cell.overflow is None and not cell.closing:
        return kernel._wait_for_room(cell, method.lane, message, method, 0, waiter)
    if fate != ACCEPTED:
        refuse(handle, method, data, message, 0, fate, AT_ONCE)
    waiter.landed()
    return None


def withdraw(handle: Handle, message: Timer) -> bool:
    """Take back a message that waits for room; False if it has it. Loop thread only."""
    kernel = handle._bs_loop
    return kernel._stop_waiting(message)


class Port:
    """One method of a handle class."""

    __slots__ = ("binder", "face", "method")

    def __init__(
        self, method: Method, binder: Callable[..., Any], face: Callable[[Handle, Port], object]
    ) -> None:
        if not isinstance(method, Method):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise TypeError(f"method is {safe_repr(method)}: pass a Method")
        self.method = method
        # A function of the method's own signature that returns the data of the message.
        self.binder = binder
        # What the method is when it is not called at once: the object that has its twins.
        self.face = face
        open_port(self)

    def __get__(self, handle: Handle | None, owner: object) -> Any:
        if handle is None:
            return self
        return self.face(handle, self)

    def __call__(self, handle: Handle, /, *arguments: Any, **named: Any) -> Any:
        """Make a message of the arguments, and post it."""
        if not isinstance(handle, Handle):  # pyright: ignore[reportUnnecessaryIsInstance]  # called on the class, with anything
            raise TypeError(f"{self.method.name}() is called on a handle, not on {safe_repr(handle)}")
        return self.call(handle, self.binder(None, *arguments, **named))

    def call(self, handle: Handle, data: object) -> Any:
        """Post a message of these data."""
        method = self.method
        if method.is_ask:
            reply = None if is_afar(handle) else ask(handle, method, data, handle._bs_ask_ms)
            if reply is None:
                # The face knows how: there is another event loop to wait in, or none at all.
                return self.face(handle, self)._ask_afar(data)  # type: ignore[attr-defined]  # an ask's face
            return reply
        if not slip(handle._bs_loop, handle._bs_actor, method, data):
            send(handle, method, data, MAY_WAIT)
        return None

    def __repr__(self) -> str:
        return f"<method {self.method.name!r} of handles of {self.method.owner}>"


if not cython.compiled:

    def open_port(port: Port) -> None:
        """Make a port callable by vectorcall: only compiled ones are."""
