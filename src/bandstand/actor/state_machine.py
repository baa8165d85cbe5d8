"""State machines: actors whose handlers depend on the state they are in.

What the class says is read when it is made, into a table (`course.Table`): for each state and message a handler, or that it is postponed
or ignored. Each message of the class gets one function that asks the table and goes there; so a machine is an actor like any other,
and nobody on the way of a message knows of states.
"""

# An actor keeps what the room needs under private names, to leave users theirs.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from inspect import iscoroutine, signature
from typing import TYPE_CHECKING, Any, ClassVar

from bandstand.actor.actor import Actor
from bandstand.actor.declaration import marks_of, read_class
from bandstand.actor.facade import RESERVED, facade
from bandstand.actor.plan import Plan, read_plan
from bandstand.actor.ride import Ride
from bandstand.actor.states import State
from bandstand.errors import ActorFailed, BadDeclaration, InvalidArgument, NotInThisState
from bandstand.errors.formatting import safe_repr, safe_str

if TYPE_CHECKING:
    from collections.abc import Callable

    from bandstand.actor.decorators import Mark

__all__ = ("Machine",)

OWN = frozenset({"become", "state", "unbecome"})


class Machine(Actor):
    """An actor with states. Declare them in the class, mark what handles a message in one, and go on with `become`.

    A message is handled by what its state says; else by the body of the marked method itself; and if that is empty (`...`, or
    `raise NotImplementedError`) it is *unhandled*: counted, told as `Unhandled`, an ask gets `NotInThisState`, and the machine lives on.

    `class Door(Machine, postpone_limit=1_000)` says how many postponed messages it keeps, 100 if nothing is said. One more is a failure
    of the machine, with `StashFull`.

    Raises:
        BadDeclaration: when a class is made that contradicts itself: a state it does not have, two handlers for one message in one
            state, one of another shape than its message, a timeout without a handler, and the like.
    """

    __slots__ = ("_bs_ride",)

    _bs_plan: ClassVar[Plan]
    _bs_postpone_limit: ClassVar[int] = 100
    _bs_has_prologue = True
    _bs_ride: Ride

    def __init_subclass__(cls, *, postpone_limit: int | None = None, **options: Any) -> None:
        if taken := sorted(OWN & vars(cls).keys()):
            raise BadDeclaration(
                f"{cls.__qualname__}.{taken[0]} is a name that every machine has for its own: choose another"
            )
        super().__init_subclass__(**options)
        if postpone_limit is not None:
            if type(postpone_limit) is not int or not 1 <= postpone_limit <= 1_000_000:
                raise BadDeclaration(
                    f"class {cls.__qualname__}: postpone_limit is {safe_repr(postpone_limit)}: pass a number from 1 to 1,000,000"
                )
            cls._bs_postpone_limit = postpone_limit

    @classmethod
    def _bs_declare(cls) -> None:
        if cls.__module__ == __name__:
            # This class itself has no states.
            return
        marks = marks_of(cls)
        cls._bs_plan = read_plan(cls, marks)
        slow = cls._bs_plan.slow
        handlers = {name: _dispatcher(name, mark, is_slow=name in slow) for name, mark in marks.items()}
        cls._bs_adopt_schema(
            read_class(cls, RESERVED | OWN, facade(cls), handlers=handlers, answers=(NotInThisState,))
        )
        # Its first state is entered when it starts.
        cls._bs_is_plain = False

    def _bs_prologue(self) -> None:
        self._bs_here().begin()

    def _bs_here(self) -> Ride:
        try:
            return self._bs_ride
        except AttributeError:
            ride = Ride(self, self._bs_plan, self._bs_postpone_limit)
            object.__setattr__(self, "_bs_ride", ride)
            return ride

    @property
    def state(self) -> State:
        """The state it is in."""
        here = self._bs_here()
        return self._bs_plan.states[here.course.state]

    def become(self, state: State, *, push: bool = False) -> None:
        """Go to a state, from wherever it is; also to the same one, anew. The next message is handled there.

        Inside this call: the old state's `leave` hook, its timeout is taken back, then it *is* in the new one, whose timeout is set, and
        whose `enter` hook is called; then what was postponed is put before what waits. With `push` the state it leaves is remembered,
        up to 32 of them, for `unbecome`. In `__init__` and `on_start` it says where to begin.

        Raises:
            InvalidArgument: that is no state of this class.
            BadTransition: it is in the middle of a transition, in one of its hooks; or too many are remembered.
            WrongThread: called off the loop's thread.
        """
        # By its name, if it has one: callers without types may pass anything.
        known = self._bs_plan.states.get(getattr(state, "name", ""))
        if known is None or known is not state:
            raise InvalidArgument(
                f"{safe_repr(state)} is no state of {type(self).__qualname__}: it has {', '.join(self._bs_plan.states)}"
            )
        here = self._bs_here()
        here.move(here.course.become(state.name, push=push))

    def unbecome(self) -> None:
        """Return to the state that the last `become(..., push=True)` has left, as `become` would go there.

        Raises:
            BadTransition: there is none; or it is in the middle of a transition.
        """
        here = self._bs_here()
        here.move(here.course.unbecome())


def _dispatcher(name: str, mark: Mark, *, is_slow: bool) -> Callable[..., Any]:
    """What is called for one message: it goes to whoever handles it in the present state."""

    def dispatch(machine: Machine, *arguments: Any, **named: Any) -> Any:
        handler = machine._bs_ride.route(name, mark, arguments, named)
        if handler is None:
            return None
        try:
            return handler(machine, *arguments, **named)
        except NotInThisState as error:
            raise _not_ours(mark, error) from error

    async def dispatch_slowly(machine: Machine, *arguments: Any, **named: Any) -> Any:
        handler = machine._bs_ride.route(name, mark, arguments, named)
        if handler is None:
            return None
        try:
            result = handler(machine, *arguments, **named)
            return await result if iscoroutine(result) else result
        except NotInThisState as error:
            raise _not_ours(mark, error) from error

    chosen: Any = dispatch_slowly if is_slow else dispatch
    chosen.__name__, chosen.__qualname__, chosen.__doc__ = (
        name,
        mark.function.__qualname__,
        mark.function.__doc__,
    )
    # Not `wraps`: whether it is a coroutine function is for us to say.
    chosen.__signature__ = signature(mark.function)
    handler: Callable[..., Any] = chosen
    return handler


def _not_ours(mark: Mark, error: NotInThisState) -> BaseException:
    """What another machine has answered to a handler: its own answer only if it declares it, as for any exception."""
    if isinstance(error, mark.raises):
        return error
    return ActorFailed(
        f"{mark.function.__qualname__}() was refused by another machine, and did not expect it: {safe_str(error)}"
    )
