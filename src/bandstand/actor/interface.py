"""An interface apart from its implementation: the marks are in one class, the handlers in another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, get_origin

from bandstand.actor import outside
from bandstand.actor.actor import Performer
from bandstand.actor.declaration import read_interface
from bandstand.actor.facade import RESERVED, facade
from bandstand.actor.generics import argument_of
from bandstand.errors import BadDeclaration
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.core import ActorId

__all__ = ("Implements", "Interface", "interface_of")

I_co = TypeVar("I_co", covariant=True)


def interface_of(cls: type) -> type | None:
    """What a class implements; None if those that derive from it will say."""
    if cls.__module__ == __name__:
        return None
    interface = argument_of(cls, Implements)
    if isinstance(interface, TypeVar):
        # A generic class in between: those that derive from it will say.
        return None
    if interface is None:
        raise BadDeclaration(
            f"{cls.__qualname__} derives from Implements without an interface: write Implements[TheInterface]"
        )
    # A generic interface is read as it is declared.
    known = get_origin(interface) or interface
    if not isinstance(known, type):
        raise BadDeclaration(f"{cls.__qualname__} implements {safe_repr(interface)}: pass the class itself")
    return known


class Interface(Protocol):
    """What can be sent to some actor, apart from any implementation: a class of marked methods without bodies.

    Derive from it and from `Protocol`, so that checkers allow the bodies to be `...`:

        class Counting(Interface, Protocol):
            @data
            def add(self, n: int) -> None: ...

    What every handle has besides is declared here, so that one that is typed as an interface has it too.
    """

    def stop(self, *, drain: bool = False) -> None:
        """As `Actor.stop`."""
        ...

    def kill(self) -> None:
        """As `Actor.kill`."""
        ...

    @property
    def ended(self) -> outside.End:
        """As `Actor.ended`."""
        ...

    def __actor_id__(self) -> ActorId:
        """The id of the actor, for what takes any kind of actor: `Scope.adopt` for one."""
        ...


class Implements(Performer, Generic[I_co]):
    """Derive from `Implements[Counting]`, and write each method of that interface, without marks.

    `loop.spawn` returns a handle typed as the interface. Inside, methods are what they are: plain methods.

    Raises:
        BadDeclaration: when a class is made that misses a method, has a marked one that the interface does not know, or one
            of another shape. It names class, method and difference.
    """

    @classmethod
    def _bs_declare(cls) -> None:
        interface = interface_of(cls)
        if interface is None:
            # This class, or a generic one in between: those that derive from it will say.
            return
        cls._bs_adopt_schema(read_interface(cls, interface, RESERVED, facade(cls)))
