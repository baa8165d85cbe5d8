"""Directories: how an actor of a troupe gets handles of its peers.

    class EnginePeers(Directory):
        vsync: Vsync
        config: Config

    class Engine(Actor):
        def __init__(self, peers: EnginePeers) -> None:
            self.peers = peers

    class Studio(Troupe):
        engine = pod().expose(Engine, directory(EnginePeers))

The annotated names are names of roles; the types are the classes of their actors, or the interfaces that these implement. The
constructor receives an object of the class, with a handle for each name. A test without a troupe makes one itself,
`EnginePeers(vsync=loop.spawn(Vsync), config=...)`, and type checkers check the arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast, dataclass_transform, get_origin

from bandstand.errors import DeclarationError, InvalidArgumentError
from bandstand.errors.formatting import safe_repr

__all__ = ("Directory", "DirectoryRequest", "directory", "fill_directories", "requests_in")

D = TypeVar("D", bound="Directory")


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Directory:
    """Handles of an actor's peers, by role name. Frozen.

    Derive from it and annotate the names of the roles. The base class itself, `directory(Directory)`, holds all roles that the
    actor's pod can see; type checkers allow `peers["vsync"]` there.

    Raises:
        DeclarationError: when a subclass gives a name a value, or uses a reserved name.
        InvalidArgumentError: when an object is made with an unknown name, or without one of the names.
    """

    # Dunder names, so that every other name is free for roles.
    __directory_hints__: ClassVar[Mapping[str, Any]] = {}
    """The annotation of each name, unevaluated."""
    __directory_owners__: ClassVar[Mapping[str, type]] = {}
    """The class that annotates each name. Its module is where the annotation is evaluated."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = {name: hint for name, hint in get_annotations(cls).items() if not _is_classvar(hint)}
        for name in own:
            if name in vars(cls):
                raise DeclarationError(
                    f"{cls.__qualname__}.{name} has a value: the troupe fills the directory; remove the value"
                )
            if hasattr(Directory, name):
                raise DeclarationError(
                    f"{cls.__qualname__}.{name} is reserved: every directory has that attribute; rename the role"
                )
        # The names of base classes come first.
        hints: dict[str, Any] = {}
        owners: dict[str, type] = {}
        for base in reversed(cls.__bases__):
            if issubclass(base, Directory):
                hints |= base.__directory_hints__
                owners |= base.__directory_owners__
        cls.__directory_hints__ = hints | own
        cls.__directory_owners__ = owners | dict.fromkeys(own, cls)

    def __init__(self, **handles: object) -> None:
        kind = type(self)
        if kind is not Directory:
            known = kind.__directory_hints__
            if unknown := [name for name in handles if name not in known]:
                raise InvalidArgumentError(f"{kind.__qualname__} has no {unknown[0]!r}: {_listed(known)}")
            if missing := [name for name in known if name not in handles]:
                raise InvalidArgumentError(
                    f"{kind.__qualname__} needs {missing[0]!r}: pass a handle of that name"
                )
        # Bypasses __setattr__, which raises.
        self.__dict__.update(handles)

    def __getitem__(self, name: str) -> Any:  # its class depends on the name
        """Return the handle of a role.

        Raises:
            KeyError: the directory has no such name.
        """
        try:
            return self.__dict__[name]
        except KeyError:
            raise KeyError(f"{name!r} is not in {self!r}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__)

    def __len__(self) -> int:
        return len(self.__dict__)

    def __contains__(self, name: object) -> bool:
        return name in self.__dict__

    # Hidden from type checkers: for them a directory has the annotated names only, and is frozen.
    if not TYPE_CHECKING:

        def __getattr__(self, name):
            raise AttributeError(
                f"{type(self).__qualname__} has no {name!r}: {_listed(self.__dict__)}", name=name, obj=self
            )

        def __setattr__(self, name, value):
            raise AttributeError(f"{type(self).__qualname__}.{name} cannot be set: a directory is frozen")

        def __delattr__(self, name):
            raise AttributeError(f"{type(self).__qualname__}.{name} cannot be deleted: a directory is frozen")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.items()))

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={safe_repr(handle)}' for name, handle in self.__dict__.items())})"


@dataclass(frozen=True, slots=True)
class DirectoryRequest:
    """A placeholder among the arguments of a role. The pod replaces it with a directory when it makes the actor."""

    kind: type[Directory]

    @property
    def names(self) -> tuple[str, ...] | None:
        """The requested names; None for all roles that the pod can see."""
        return None if self.kind is Directory else tuple(self.kind.__directory_hints__)

    def build(self, handles: Mapping[str, object]) -> Directory:
        """Make the directory from the handles of a pod."""
        names = handles if self.names is None else self.names
        return self.kind(**{name: handles[name] for name in names})

    def __repr__(self) -> str:
        return f"directory({self.kind.__qualname__})"


def directory(kind: type[D]) -> D:
    """Request a directory of this class as an argument of a role. The actor's constructor receives the directory itself.

    Raises:
        InvalidArgumentError: `kind` is not a subclass of `Directory`.
    """
    if Directory not in getattr(kind, "__mro__", ()):
        raise InvalidArgumentError(
            f"directory() of {safe_repr(kind)}: pass a class that derives from Directory"
        )
    # Typed as what the constructor receives, so that type checkers check the arguments of a role.
    return cast("D", DirectoryRequest(kind))


def requests_in(args: tuple[object, ...], kwargs: Mapping[str, object]) -> Iterator[DirectoryRequest]:
    """Yield the directory requests among the arguments of a role."""
    yield from (value for value in (*args, *kwargs.values()) if isinstance(value, DirectoryRequest))


def fill_directories(
    args: tuple[object, ...], kwargs: Mapping[str, object], handles: Mapping[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Return the arguments of a role with directories in place of the requests."""

    def fill(value: object) -> object:
        return value.build(handles) if isinstance(value, DirectoryRequest) else value

    return tuple(map(fill, args)), {name: fill(value) for name, value in kwargs.items()}


def _is_classvar(hint: object) -> bool:
    if isinstance(hint, str):
        return hint.startswith(("ClassVar", "typing.ClassVar"))
    return hint is ClassVar or get_origin(hint) is ClassVar


def _listed(names: Mapping[str, object]) -> str:
    return f"it has {', '.join(names)}" if names else "it has no names"
