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

from bandstand.core.numbers import ACCEPTED, AFAR, AWAY, FULL
from bandstand.errors import BandstandError, LoopClosed, NoSuchActor
from bandstand.service.hot.asks import Asked
from bandstand.service.hot.handle import Handle
from bandstand.service.hot.method import Method
from bandstand.service.hot.reply import Reply
from bandstand.service.hot.waits import Landing
from bandstand.service.numbers import PENDING

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import interpreted as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from bandstand.core.hot.cell import Cell
    from bandstand.core.hot.wheel import Timer

Fate: TypeAlias = int
Milliseconds: TypeAlias = int


def refusal(handle: Handle) -> BandstandError:
    """Why nobody takes a message."""
    if handle._bs_loop._closed:
        return LoopClosed("the loop is closed: it was asked to stop, or was destroyed")
    if handle._bs_place is not None:
        return NoSuchActor(f"nobody is there to take a message: {handle._bs_place.describe()}")
    return NoSuchActor(f"{handle!r} has ended: its actor accepts nothing any more")


def packed(handle: Handle, method: Method, data: object) -> object:
    """The data of a message with what is to travel along, if anything is."""
    kernel = handle._bs_loop
    porter = kernel._porter
    return data if porter is None else porter.pack(handle, method, data)


def post(handle: Handle, method: Method, data: object, sender: object) -> Fate:
    """Post a message: ACCEPTED, FULL, AWAY or AFAR, with nothing done but for ACCEPTED."""
    actor = handle._bs_actor
    kernel = handle._bs_loop
    fate = kernel._post_known(actor, method.lane, data, method, sender)
    if fate == AWAY and handle._bs_renew():
        fate = kernel._post_known(handle._bs_actor, method.lane, data, method, sender)
    return fate


def refuse(handle: Handle, method: Method, data: object, sender: object, fate: Fate) -> None:
    """A message was not accepted at once: send it from afar, let its mailbox give something up for it, or say why not."""
    actor = handle._bs_actor
    kernel = handle._bs_loop
    if fate == AFAR:
        post_afar(handle, method, data, sender)
    elif fate == FULL:
        cell = actor.cell
        assert cell is not None
        if kernel._enqueue(cell, method.lane, data, method, sender) != ACCEPTED:
            raise kernel._full(cell, method.lane)
    else:
        kernel._refused += 1
        raise refusal(handle)


def post_afar(handle: Handle, method: Method, data: object, sender: object) -> None:
    """Send a message from another thread than the loop's own, or raise."""
    actor = handle._bs_actor
    if actor.cell is None and handle._bs_renew():
        actor = handle._bs_actor
    kernel = handle._bs_loop
    if actor.cell is None or kernel._closed:
        raise refusal(handle)
    kernel._post_afar(actor, method.lane, data, method, sender)


def tell(handle: Handle, method: Method, data: object) -> None:
    """Send a one-way message, from any thread, or raise."""
    data = packed(handle, method, data)
    fate = post(handle, method, data, 0)
    if fate != ACCEPTED:
        refuse(handle, method, data, 0, fate)


def try_tell(handle: Handle, method: Method, data: object) -> bool:
    """Send a one-way message, from any thread; False if it is not accepted."""
    try:
        tell(handle, method, data)
    except BandstandError:
        return False
    return True


def ask(handle: Handle, method: Method, data: object, ms: Milliseconds) -> Reply:
    """Ask, on the loop's own thread; the reply that will have the answer."""
    data = packed(handle, method, data)
    kernel = handle._bs_loop
    reply = Reply.__new__(Reply)
    reply.kernel = kernel
    reply.actor = handle._bs_actor
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
    fate = post(handle, method, data, reply)
    # Another incarnation may have taken it.
    reply.actor = handle._bs_actor
    if fate != ACCEPTED:
        refuse(handle, method, data, reply, fate)
    reply.asks.asked += 1
    return reply


def is_afar(handle: Handle) -> bool:
    """Whether this is another thread than that of the handle's loop."""
    kernel = handle._bs_loop
    return kernel._is_afar()


def land(handle: Handle, method: Method, data: object) -> Landing:
    """Send a one-way message as soon as there is room; what tells that it is in. Loop thread only."""
    kernel = handle._bs_loop
    landing = Landing(kernel, handle._bs_actor, handle._bs_name, method, -1, handle._bs_asks)
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
    data = packed(handle, method, data)
    fate = post(handle, method, data, 0)
    actor = handle._bs_actor
    kernel = handle._bs_loop
    cell: Cell | None = actor.cell
    if fate == FULL and cell is not None and cell.overflow is None and not cell.closing:
        return kernel._wait_for_room(cell, method.lane, data, method, 0, waiter)
    if fate != ACCEPTED:
        refuse(handle, method, data, 0, fate)
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
            raise TypeError(f"{self.method.name}() is called on a handle, not on {handle!r}")
        return self.call(handle, self.binder(None, *arguments, **named))

    def call(self, handle: Handle, data: object) -> Any:
        """Post a message of these data."""
        method = self.method
        if method.is_ask:
            if is_afar(handle):
                # The face knows how: there is another event loop to wait in, or none at all.
                return self.face(handle, self)._ask_afar(data)  # type: ignore[attr-defined]  # an ask's face
            return ask(handle, method, data, handle._bs_ask_ms)
        tell(handle, method, data)
        return None

    def __repr__(self) -> str:
        return f"<method {self.method.name!r} of handles of {self.method.owner}>"


if not cython.compiled:

    def open_port(port: Port) -> None:
        """Make a port callable by vectorcall: only compiled ones are."""
