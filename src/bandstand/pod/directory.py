"""Directories: how an actor of a troupe has its peers.

    class EnginePeers(Directory):
        vsync: Vsync
        config: Config

    class Engine(Actor):
        def __init__(self, peers: EnginePeers) -> None:
            self.peers = peers

    class Studio(Troupe):
        engine = pod().expose(Engine, directory(EnginePeers))

The names are names of roles, the types are the classes of their actors, or the interfaces that these implement. What the
constructor gets is an object of that class, with a handle for each name. A test that needs no troupe makes one by hand,
`EnginePeers(vsync=loop.spawn(Vsync), config=...)`, and both kinds of checkers look at what it passes.
"""

# A directory keeps what it wants under private names, to leave users theirs.
# pyright: reportPrivateUsage=false
# ruff: noqa: SLF001  # likewise

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast, dataclass_transform, get_origin

from bandstand.errors import BadDeclaration, InvalidArgument
from bandstand.errors.formatting import safe_repr

__all__ = ("Directory", "Wanted", "directory", "filled", "wanted_by")

D = TypeVar("D", bound="Directory")


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Directory:
    """Handles of an actor's peers, by the names of their roles. Frozen.

    Derive from it, and annotate the names that are wanted. The base itself, `directory(Directory)`, has everybody that the
    actor's pod can see; there `peers["vsync"]` is what checkers allow.

    Raises:
        BadDeclaration: when a class is made that has something else than annotations of names.
        InvalidArgument: when an object is made with a name too many, or too few.
    """

    _wants: ClassVar[Mapping[str, Any]] = {}
    """What is annotated for each name, as it was written."""
    _owners: ClassVar[Mapping[str, type]] = {}
    """Which class has annotated it: there its words mean something."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = {name: hint for name, hint in get_annotations(cls).items() if not _is_classvar(hint)}
        for name in own:
            if name in vars(cls):
                raise BadDeclaration(
                    f"{cls.__qualname__}.{name} has a value: a directory is filled by its troupe; leave the annotation alone"
                )
            if hasattr(Directory, name):
                raise BadDeclaration(
                    f"{cls.__qualname__}.{name} is a name that every directory has for its own: call the role otherwise"
                )
        # Those of bases first, as their fields come first.
        wants: dict[str, Any] = {}
        owners: dict[str, type] = {}
        for base in reversed(cls.__bases__):
            if issubclass(base, Directory):
                wants |= base._wants
                owners |= base._owners
        cls._wants = wants | own
        cls._owners = owners | dict.fromkeys(own, cls)

    def __init__(self, **handles: object) -> None:
        kind = type(self)
        if kind is not Directory:
            if strange := [name for name in handles if name not in kind._wants]:
                raise InvalidArgument(f"{kind.__qualname__} has no {strange[0]!r}: {_listed(kind._wants)}")
            if missing := [name for name in kind._wants if name not in handles]:
                raise InvalidArgument(f"{kind.__qualname__} needs {missing[0]!r}: pass a handle of that name")
        # Past our own __setattr__.
        self.__dict__.update(handles)

    def __getitem__(self, name: str) -> Any:  # which class of handle, only the name says
        """The handle of a role, by its name.

        Raises:
            KeyError: it is not here.
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

    # Checkers do not hear of these: for them a class has what it annotates, and is frozen.
    if not TYPE_CHECKING:

        def __getattr__(self, name):
            # Only for what is not there.
            raise AttributeError(
                f"{type(self).__qualname__} has no {name!r}: {_listed(self.__dict__)}", name=name, obj=self
            )

        def __setattr__(self, name, value):
            raise AttributeError(f"{type(self).__qualname__}.{name} cannot be changed: a directory is frozen")

        def __delattr__(self, name):
            raise AttributeError(
                f"{type(self).__qualname__}.{name} cannot be taken out: a directory is frozen"
            )

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.items()))

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={safe_repr(handle)}' for name, handle in self.__dict__.items())})"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Stands among the arguments of a role where its directory will be."""

    kind: type[Directory]

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names that are wanted; None for everybody who can be seen."""
        return None if self.kind is Directory else tuple(self.kind._wants)

    def made_of(self, handles: Mapping[str, object]) -> Directory:
        """The directory itself, of the handles that a pod has, by name."""
        names = handles if self.names is None else self.names
        return self.kind(**{name: handles[name] for name in names})

    def __repr__(self) -> str:
        return f"directory({self.kind.__qualname__})"


def directory(kind: type[D]) -> D:
    """Stands for a directory of this class among the arguments of a role: when the actor is made it is one.

    Raises:
        InvalidArgument: it is no class of directories.
    """
    if Directory not in getattr(kind, "__mro__", ()):
        raise InvalidArgument(f"directory() of {safe_repr(kind)}: pass a class that derives from Directory")
    # What it will be when it is used, which is all that its user sees of it.
    return cast("D", Wanted(kind))


def wanted_by(args: tuple[object, ...], kwargs: Mapping[str, object]) -> Iterator[Wanted]:
    """The directories among the arguments of a role."""
    yield from (value for value in (*args, *kwargs.values()) if isinstance(value, Wanted))


def filled(
    args: tuple[object, ...], kwargs: Mapping[str, object], handles: Mapping[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """The arguments of a role with its directories in their places, of the handles that its pod has."""

    def fill(value: object) -> object:
        return value.made_of(handles) if isinstance(value, Wanted) else value

    return tuple(map(fill, args)), {name: fill(value) for name, value in kwargs.items()}


def _is_classvar(hint: object) -> bool:
    if isinstance(hint, str):
        return hint.startswith(("ClassVar", "typing.ClassVar"))
    return hint is ClassVar or get_origin(hint) is ClassVar


def _listed(names: Mapping[str, object]) -> str:
    return f"it has {', '.join(names)}" if names else "it has nobody"
