"""An interface apart from its implementation: messages are declared in one class and handled in another."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isfunction
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, get_origin

from bandstand.actor.actor import BaseActor
from bandstand.actor.bound_methods import End
from bandstand.actor.declaration import (
    ActorSchema,
    check_names,
    checked_actor_class,
    close_match,
    declared_methods,
    make_handle_method,
    make_schema,
)
from bandstand.actor.decorators import DeclaredMethod
from bandstand.actor.introspection import check_same_signature, type_argument
from bandstand.errors import DeclarationError
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.actor.handle import HandleMethod
    from bandstand.core import ActorId

__all__ = ("Implements", "Interface", "interface_of", "method_name_of")

I_co = TypeVar("I_co", covariant=True)


class Interface(Protocol):
    """The messages an actor accepts, apart from any implementation: a class of declared methods without bodies.

    Derive from it and from `Protocol`, so that type checkers accept `...` as a body:

        class Counting(Interface, Protocol):
            @tell
            def add(self, n: int) -> None: ...

    The members below are those that every handle has, so that a handle typed as an interface has them too.
    """

    def stop(self, *, drain: bool = False) -> None:
        """As `Actor.stop`."""
        ...

    def kill(self) -> None:
        """As `Actor.kill`."""
        ...

    @property
    def ended(self) -> End:
        """As `Actor.ended`."""
        ...

    def __actor_id__(self) -> ActorId:
        """Return the id of the actor, for functions that take any kind of actor, such as `Scope.adopt`."""
        ...


class Implements(BaseActor, Generic[I_co]):
    """Derive from `Implements[Counting]`, and write each method of that interface without a decorator.

    `loop.spawn` returns a handle typed as the interface. Inside the actor, the methods are plain methods.

    Raises:
        DeclarationError: when a class is created that lacks a method, declares a message the interface does not have, or has a method
            with a different signature. The error names the class, the method and the difference.
    """

    if TYPE_CHECKING:
        # A handle has the type of the interface.
        @property
        def me(self) -> I_co:
            """The actor's own handle."""
            ...

    @classmethod
    def __actor_declare__(cls) -> ActorSchema | None:
        if cls.__module__ == __name__:
            # Implements itself has no interface.
            return None
        interface = interface_of(cls)
        return None if interface is None else _read_implementation(cls, interface)


def interface_of(cls: type) -> type | None:
    """Return the interface a class implements; None if a generic class leaves it to derived classes.

    Raises:
        DeclarationError: the class derives from `Implements` without an interface, or with something that is not a class.
    """
    interface = type_argument(cls, Implements)
    if isinstance(interface, TypeVar):
        return None
    if interface is None:
        raise DeclarationError(
            f"{cls.__qualname__} derives from Implements without an interface: write Implements[TheInterface]"
        )
    # The arguments of a generic interface do not matter: it is read as it was declared.
    interface_class = get_origin(interface) or interface
    if not isinstance(interface_class, type):
        raise DeclarationError(f"{cls.__qualname__} implements {safe_repr(interface)}: pass the class itself")
    return interface_class


def _read_implementation(cls: type, interface: type) -> ActorSchema:
    methods = declared_methods(interface)
    if not methods:
        raise DeclarationError(f"{interface.__qualname__} is not an interface: it has no declared method")
    check_names(interface, methods)
    for name, declared in declared_methods(cls).items():
        wanted = methods.get(name)
        if wanted is None:
            raise DeclarationError(
                f"{cls.__qualname__}.{name} is declared as a message, but {interface.__qualname__} has no such message"
                f"{close_match(name, methods)}: declare it in the interface, or remove the decorator"
            )
        if wanted.options != declared.options:
            raise DeclarationError(
                f"{cls.__qualname__}.{name} is {safe_repr(declared)}, but {interface.__qualname__} declares {safe_repr(wanted)}: remove "
                f"the decorator, or make it the same"
            )
    handle_methods: dict[str, HandleMethod] = {}
    for name, declared in methods.items():
        handler = _handler(cls, interface, name)
        check_same_signature(
            f"{cls.__qualname__}.{name}", f"{interface.__qualname__}.{name}", declared.function, handler
        )
        handle_methods[name] = make_handle_method(
            interface.__qualname__, name, handler, declared, signature_of=declared.function
        )
    return make_schema(cls, handle_methods)


def _handler(cls: type, interface: type, name: str) -> Callable[..., Any]:
    for base in cls.__mro__:
        if base in interface.__mro__:
            continue
        value = vars(base).get(name)
        if isinstance(value, DeclaredMethod):
            return value.function
        if isfunction(value):
            return value
        if value is not None:
            raise DeclarationError(
                f"{cls.__qualname__}.{name} is {safe_repr(value)}, but {interface.__qualname__} declares a method: make it a plain method"
            )
    functions = [key for base in cls.__mro__ for key, value in vars(base).items() if isfunction(value)]
    raise DeclarationError(
        f"{cls.__qualname__} has no method {name}, which {interface.__qualname__} declares{close_match(name, functions)}"
    )


def method_name_of(kind: type[Any], declared: object) -> str | None:
    """Return the name that a class's handles have a declared method under: `Counter.add` of a Counter. None if they have none.

    The method may be declared in a base class, or in the interface.
    """
    known = checked_actor_class(kind)
    interface = interface_of(known) if Implements in known.__mro__ else None
    for base in (*known.__mro__, *(() if interface is None else interface.__mro__)):
        for name, value in vars(base).items():
            if value is declared and name in known.__actor_schema__.handle_methods:
                return name
    return None
