"""For those who put typed actors somewhere else: handles by place, posting with a receipt, what a class is made of.

A door of its own, as `bandstand.core.lowlevel` is: pods and links need it, a program does not.
"""

# The house's own door: it alone may reach for what handles do not show.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from bandstand.actor.actor import BaseActor
from bandstand.actor.declaration import checked_actor_class, checked_actor_loop
from bandstand.actor.decorators import DeclaredTell
from bandstand.actor.enums import HELD, NO_ARGUMENTS, ONE_ARGUMENT, POSITIONAL_ARGUMENTS, RETRY
from bandstand.actor.faces import checked_ask_ms
from bandstand.actor.far import is_in_event_loop
from bandstand.actor.hot.asks import Asked
from bandstand.actor.hot.gauge import gauge_of
from bandstand.actor.hot.handle import Handle
from bandstand.actor.hot.method import Method
from bandstand.actor.hot.port import has_room, is_draining, land_at, packed, post_at
from bandstand.actor.hot.reply import interrupt_handler
from bandstand.actor.hot.stage import Parcel
from bandstand.actor.interface import Implements, interface_of
from bandstand.actor.outside import checked as checked_handle
from bandstand.actor.outside import kill as kill_behind
from bandstand.actor.outside import stop as stop_behind
from bandstand.actor.porter import Luggage
from bandstand.actor.presence import Presence, class_of, key_of
from bandstand.actor.spawning import UNSET_MS
from bandstand.actor.status import answer_inquiry, make_report
from bandstand.core import ActorId
from bandstand.core.numbers import ACCEPTED, AWAY, FULL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextvars import Context

    from bandstand.actor.faces import Tell
    from bandstand.actor.hot.handle import Place
    from bandstand.actor.hot.port import Port
    from bandstand.actor.loop import Loop

__all__ = (
    "ACCEPTED",
    "AWAY",
    "FULL",
    "HELD",
    "RETRY",
    "UNSET_MS",
    "Asked",
    "DeclaredTell",
    "Handle",
    "Method",
    "Parcel",
    "Presence",
    "allow_direct_calls",
    "answer_inquiry",
    "arguments_of",
    "check_ask_ms",
    "checked_actor_class",
    "checked_actor_loop",
    "checked_handle",
    "class_of",
    "deliver",
    "forget_actor",
    "gauge_of",
    "handle_at",
    "handle_of",
    "has_room",
    "home_context",
    "instance_of",
    "interrupt_handler",
    "is_draining",
    "is_open_to",
    "is_plain_thread",
    "key_of",
    "kill_behind",
    "land_at",
    "make_report",
    "methods_of",
    "name_of_mark",
    "packed_for",
    "parcel_in",
    "parks",
    "parts_of",
    "place_of",
    "ports_of",
    "post_at",
    "replaced",
    "set_packing",
    "settle_at",
    "stop_behind",
    "tick_inline",
)


def check_ask_ms(field: str, ms: float | None) -> None:
    """Refuse what is no deadline of asks; UNSET_MS stands for the class's own.

    Raises:
        InvalidArgument: so it is.
    """
    if ms != UNSET_MS:
        checked_ask_ms(field, ms)


def handle_at(
    kind: type[Any],
    loop: Loop,
    place: Place,
    *,
    name: str | None = None,
    ask_ms: float | None = UNSET_MS,
    actor: ActorId | None = None,
) -> Handle:
    """A handle of an actor that is found by its place, whenever the one that is known has ended.

    Args:
        kind: the class of the actor.
        loop: any loop of typed actors; counts as the handle's own until somebody is found.
        place: where to find the actor.
        name: for people.
        ask_ms: how long asks wait; None for ever, the class's own if nothing is said.
        actor: who is there at present; None if nobody is.
    """
    known = checked_actor_class(kind)
    home = cast("Loop", loop if actor is None else actor.home)
    known_actor = ActorId(0, None, home) if actor is None else actor
    ms = known.__actor_ask_ms__ if ask_ms == UNSET_MS else checked_ask_ms("ask_ms", ask_ms)
    return known.__actor_schema__.handle(home, known_actor, name, home._asks, ms, place)


def handle_of(kind: type[Any], loop: Loop, actor: ActorId, name: str | None, ask_ms: float | None) -> Handle:
    """A handle of a class whose messages go to this actor, whatever that makes of them: one that passes them on.

    Args:
        kind: the class.
        loop: where the actor lives.
        actor: who gets them.
        name: for people.
        ask_ms: how long asks wait; None for ever, UNSET_MS for the class's own.
    """
    known = checked_actor_class(kind)
    ms = known.__actor_ask_ms__ if ask_ms == UNSET_MS else checked_ask_ms("ask_ms", ask_ms)
    return known.__actor_schema__.handle(loop, actor, name, loop._asks, ms, None)


def arguments_of(method: Method, data: object) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that a message carries, as its sender gave them."""
    if method.shape == NO_ARGUMENTS:
        return (), {}
    if method.shape == ONE_ARGUMENT:
        return (data,), {}
    arguments: Any = data
    return (arguments, {}) if method.shape == POSITIONAL_ARGUMENTS else (arguments[0], arguments[1])


def replaced(handle: Handle, place: Place) -> Handle:
    """The same handle at another place."""
    return type(handle)(
        handle._bs_loop, handle._bs_actor, handle._bs_name, handle._bs_asks, handle._bs_ask_ms, place
    )


def forget_actor(handle: Handle) -> None:
    """Have a handle ask its place when it is used next, whomever it knows. From any thread."""
    handle._bs_forget()


def settle_at(loop: Loop, actor: ActorId, place: Place) -> None:
    """Have an actor call itself by its place: what it gives others as `self.me` stays good when it is started again."""
    instance: Any = loop._state_of(actor)
    if instance is not None:
        object.__setattr__(instance, "__actor_handle__", replaced(instance.__actor_handle__, place))


def place_of(handle: Handle) -> Place | None:
    """The place of a handle; None for one of an actor that has none."""
    return handle._bs_place


def ports_of(kind: type[Any]) -> Mapping[str, Port]:
    """The ports of a class's handles, by the names of its methods."""
    return checked_actor_class(kind).__actor_schema__.ports


def name_of_mark(kind: type[Any], mark: object) -> str | None:
    """The name under which a class's handles have a mark's method: `Counter.add` of a Counter; None if they have not.

    The mark may be that of a base, or of the interface.
    """
    known = checked_actor_class(kind)
    interface = interface_of(known) if Implements in known.__mro__ else None
    for base in (*known.__mro__, *(() if interface is None else interface.__mro__)):
        for name, value in vars(base).items():
            if value is mark and name in known.__actor_schema__.ports:
                return name
    return None


def methods_of(what: type[Any] | Handle) -> list[Method]:
    """Every kind of message that a class takes, or a handle sends, in an order that is the same in every process."""
    # As declared. What was found out since about derived messages leads to the same ports, and comes after them.
    if isinstance(what, Handle):
        known: Any = type(what)
        ports, messages = known._bs_ports, known._bs_messages
    else:
        schema = checked_actor_class(what).__actor_schema__
        ports, messages = schema.ports, schema.messages
    return list({port.method: None for port in (*ports.values(), *messages.values())})


def deliver(
    handle: Handle,
    actor: ActorId,
    method: Method,
    data: object,
    asked: Asked | None,
    context: Context | None,
) -> int:
    """Post a message that has waited to an actor, as if it had been sent by `handle` in that context: ACCEPTED, FULL or AWAY.

    From any thread. The handle itself is left alone. Without a context the data is packed already. What the packing raises comes
    out here.
    """
    if context is not None:
        home = cast("Loop", actor.home)
        there = type(handle)(home, actor, handle._bs_name, home._asks, handle._bs_ask_ms, None)
        data = context.run(packed, home, there, method, data)
    if asked is None:
        return post_at(actor, method, data, 0)
    # First: the answer may be there before we are back.
    before = asked.actor
    asked.moved(actor)
    fate = post_at(actor, method, data, asked)
    if fate != ACCEPTED:
        asked.actor = before
    return fate


def parts_of(tell: Tell[...]) -> tuple[Handle, Method, Callable[..., object]]:
    """What `handle.method` is made of: the handle, the kind of message, and what makes its data of the arguments, with None before them."""
    return tell._handle, tell._port.method, tell._port.binder


def packed_for(handle: Handle, method: Method, data: object) -> object:
    """The data of a message with what travels along from here, if anything does, to be posted later. Loop thread only."""
    return packed(handle._bs_loop, handle, method, data)


def parcel_in(context: Context, data: object) -> Parcel:
    """The data of a message that is to be handled inside a context."""
    return Parcel(data, Luggage(context, None, None))


def parks(kind: type[Any]) -> bool:
    """Whether actors of a class want to know that a round is over: see `Actor.on_park`."""
    return checked_actor_class(kind).on_park is not BaseActor.on_park


def home_context(loop: Loop) -> Context:
    """The context in which a loop's plain handlers run."""
    return loop._home_context


def tick_inline(loop: Loop) -> bool:
    """Run a tick here and now, for somebody outside of one who has just brought messages; False if that cannot be, or not now."""
    return loop._tick_inline()


def is_plain_thread() -> bool:
    """Whether this thread runs no event loop, and so may be blocked."""
    return not is_in_event_loop()


def is_open_to(loop: Loop, actor: ActorId) -> bool:
    """Whether an actor of a loop takes messages. From any thread; the next moment it may not."""
    return actor.is_alive and not loop._closed


def allow_direct_calls(loop: Loop) -> None:
    """Have actors of a loop that send each other messages be called directly, where nobody can tell the difference but by the time."""
    loop._direct = True


def set_packing(loop: Loop, pack: Callable[[Handle, Method, object], object]) -> None:
    """Have a function make of each message's arguments what is posted, on the sender's thread, for handles of this loop's actors.

    What it raises comes out of the call, and nothing is sent. It takes the place of the parcels that carry context variables.
    """
    loop._set_packing(pack)


def instance_of(loop: Loop, actor: ActorId) -> Any:
    """The object behind a typed actor; None if it has ended. Loop thread only."""
    return loop._state_of(actor)
