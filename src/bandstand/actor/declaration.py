"""Reading an actor class: from its declared methods to its schema and its handle class.

A class is checked completely when it is created: every error names the class and the method, and no mistake is left to be found
by the first message.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import (
    CO_VARARGS,
    CO_VARKEYWORDS,
    Parameter,
    Signature,
    cleandoc,
    getattr_static,
    getdoc,
    iscoroutinefunction,
    signature,
    unwrap,
)
from typing import TYPE_CHECKING, Any, get_args

from bandstand.actor.bound_methods import Ask, End, Tell, kill_actor, stop_actor
from bandstand.actor.decorators import DeclaredMethod
from bandstand.actor.dispatch import Method
from bandstand.actor.enums import KEYWORD_ARGUMENTS, NO_ARGUMENTS, ONE_ARGUMENT, POSITIONAL_ARGUMENTS
from bandstand.actor.handle import Handle, HandleMethod, HiddenAttribute
from bandstand.actor.introspection import POSITIONAL, parameters_of, return_annotation
from bandstand.errors import DeclarationError, InvalidArgumentError
from bandstand.errors.formatting import safe_repr, safe_str

if TYPE_CHECKING:
    from bandstand.actor.actor import BaseActor
    from bandstand.actor.system import ActorSystem

__all__ = (
    "MESSAGE_CLASSES",
    "RESERVED_NAMES",
    "RESERVED_PREFIXES",
    "TOOLS",
    "ActorSchema",
    "check_hook",
    "check_instance",
    "check_is_behavior",
    "check_names",
    "checked_actor_class",
    "checked_actor_loop",
    "close_match",
    "declared_methods",
    "handle_methods_of",
    "make_handle_method",
    "make_schema",
    "methods_of",
    "read_class",
)

HOOKS = frozenset({"describe_state", "on_park", "on_signal", "on_start", "on_stop"})
TOOLS = frozenset(
    {"after", "background", "ended", "every", "every_after", "kill", "me", "options", "spawn", "stop"}
)
RESERVED_NAMES = HOOKS | TOOLS
"""Names that a message cannot have, because every actor or every handle has them."""
RESERVED_PREFIXES = ("__actor_", "__handle_")
"""Actors and handles keep their own state under these prefixes, so that all other names are free for users."""
HANDLE_MEMBERS = ("ended", "kill", "me", "stop")
"""What every handle has besides its messages."""
MESSAGE_CLASSES = "__bandstand_on__"
"""The attribute in which `@on` records the message classes of a function."""


@dataclass(frozen=True, slots=True)
class ActorSchema:
    """The messages of an actor class, and the class of its handles."""

    name: str
    handle_methods: Mapping[str, HandleMethod]
    """The methods of a handle by name."""
    messages: dict[type, HandleMethod]
    """The methods by message class. Filled further at run time with classes derived from these."""
    handle: type[Handle]


# -- reading a class ---------------------------------------------------------------------------------------------------


def read_class(
    cls: type,
    *,
    reserved: Iterable[str] = (),
    members: Mapping[str, Any] | None = None,
    accepts_message_classes: bool = False,
    handlers: Mapping[str, Callable[..., Any]] | None = None,
    raises: tuple[type[BaseException], ...] = (),
) -> ActorSchema:
    """Read a class whose methods carry the decorators.

    Args:
        cls: the class.
        reserved: names that its messages cannot have, besides those reserved for all actors.
        members: what its handles have, besides what all handles have.
        accepts_message_classes: whether methods may be decorated with `@on`.
        handlers: the functions to call for messages by name, where that is not the declared method itself.
        raises: exceptions that every ask may raise as its answer, besides those its decorator declares.

    Raises:
        DeclarationError: the class contradicts itself.
    """
    methods = declared_methods(cls)
    for name, value in vars(cls).items():
        if not accepts_message_classes and hasattr(value, MESSAGE_CLASSES):
            raise DeclarationError(
                f"{cls.__qualname__}.{name} is decorated with @on: derive the class from MessageActor[...]"
            )
    check_names(cls, methods, reserved)
    _check_overrides(cls, methods)
    functions: Mapping[str, Callable[..., Any]] = {} if handlers is None else handlers
    handle_methods = {
        name: make_handle_method(
            cls.__qualname__,
            name,
            functions.get(name, declared.function),
            declared,
            signature_of=declared.function,
            raises=raises if declared.is_ask else (),
        )
        for name, declared in methods.items()
    }
    return make_schema(cls, handle_methods, members)


def declared_methods(cls: type) -> dict[str, DeclaredMethod]:
    """Return the declared methods of a class by name, inherited ones first."""
    methods: dict[str, DeclaredMethod] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, DeclaredMethod):
                methods[name] = value
            elif name in methods:
                # Overridden without a decorator, which `_check_overrides` reports.
                del methods[name]
    return methods


def check_names(cls: type, methods: Mapping[str, DeclaredMethod], reserved: Iterable[str] = ()) -> None:
    """Check the names of messages, and that no declared method is wrapped by another decorator.

    Raises:
        DeclarationError: a name is reserved, or a declared method is inside a property, a class method or the like.
    """
    if taken := sorted(methods.keys() & (RESERVED_NAMES | set(reserved))):
        raise DeclarationError(
            f"{cls.__qualname__}.{taken[0]} is declared as a message, but every actor has its own {taken[0]}: rename the message"
        )
    for name in methods:
        if name.startswith("__") and name.endswith("__"):
            raise DeclarationError(f"{cls.__qualname__}.{name} is a special method and cannot be a message")
    for name, value in vars(cls).items():
        wrapped = (
            getattr(value, "fget", None) if isinstance(value, property) else getattr(value, "__func__", None)
        )
        if isinstance(wrapped, DeclaredMethod):
            raise DeclarationError(
                f"{cls.__qualname__}.{name} has @{wrapped.decorator} below @{type(value).__name__}: a message must be a plain method"
            )


def _check_overrides(cls: type, methods: Mapping[str, DeclaredMethod]) -> None:
    """Check that a message of a base class stays a message of the same kind.

    Otherwise a handle that is typed as the base class would not do what its type says.
    """
    for base in cls.__mro__[1:]:
        for name, value in vars(base).items():
            if not isinstance(value, DeclaredMethod):
                continue
            if name not in methods:
                raise DeclarationError(
                    f"{cls.__qualname__}.{name} overrides {safe_repr(value)} without a decorator: add @{value.decorator}"
                )
            override = methods[name]
            if (override.is_ask, override.batch_limit > 0) != (value.is_ask, value.batch_limit > 0):
                raise DeclarationError(
                    f"{cls.__qualname__}.{name} is {safe_repr(override)}, but overrides {safe_repr(value)}: keep the kind of the base "
                    f"class, whose handles are used for this class too"
                )


def check_hook(cls: type, name: str, count: int) -> None:
    """Check that a hook can be called with this many arguments besides self.

    Raises:
        DeclarationError: it cannot.
    """
    hook = getattr_static(cls, name)
    try:
        signature(hook).bind(None, *(None for _ in range(count)))
    except TypeError as error:
        raise DeclarationError(
            f"{cls.__qualname__}.{name} is {safe_repr(hook)}, which cannot be called with {count} arguments besides self: {safe_str(error)}"
        ) from None


def close_match(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return ` (did you mean ...?)` with the most similar known name, or an empty string; `cutoff` says how similar, up to 1."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f" (did you mean {close[0]}?)" if close else ""


# -- handle classes ----------------------------------------------------------------------------------------------------


def make_schema(
    cls: type, handle_methods: dict[str, HandleMethod], members: Mapping[str, Any] | None = None
) -> ActorSchema:
    """Make the handle class of an actor class, and the schema of both."""
    messages: dict[type, HandleMethod] = {}
    names = sorted({*handle_methods, *HANDLE_MEMBERS})
    namespace: dict[str, Any] = {
        "__slots__": (),
        "__module__": cls.__module__,
        "__qualname__": f"{cls.__qualname__}.Handle",
        "__doc__": f"A handle of {cls.__qualname__}.\n\n{cleandoc(cls.__doc__ or '')}".rstrip(),
        # Only what works on a handle, without the names that raise an explanation.
        "__dir__": _return_list(names),
        "__handle_messages__": messages,
        "__handle_methods__": handle_methods,
        "__handle_class_name__": cls.__name__,
        "__handle_class__": cls,
        **_handle_members(cls),
        **({} if members is None else members),
        **handle_methods,
    }
    handle = type(f"handle of {cls.__qualname__}", (Handle,), namespace)
    return ActorSchema(cls.__qualname__, handle_methods, messages, handle)


def _return_list(names: list[str]) -> Callable[[Handle], list[str]]:
    def list_names(_handle: Handle) -> list[str]:
        return names

    return list_names


def _handle_members(cls: type) -> dict[str, Any]:
    """Return what the handles of a class have besides its messages."""
    members: dict[str, Any] = {
        "stop": stop_actor,
        "kill": kill_actor,
        "ended": property(End),
        "me": property(lambda handle: handle),
    }
    # With a __getattr__ on the handle, Python would create a bound object for every call of a message. So each attribute of the
    # actor that a handle does not have gets a descriptor, whose error says so.
    for name in dir(cls):
        if (
            not name.startswith(("__", *RESERVED_PREFIXES))
            and name not in members
            and not isinstance(getattr_static(cls, name), DeclaredMethod)
        ):
            members[name] = HiddenAttribute(cls.__qualname__, name)
    return members


def make_handle_method(
    owner: str,
    name: str,
    function: Callable[..., Any],
    declared: DeclaredMethod,
    *,
    signature_of: Callable[..., Any] | None = None,
    raises: tuple[type[BaseException], ...] = (),
) -> HandleMethod:
    """Make the handle's side of one method.

    Args:
        owner: the name of the class, for error messages.
        name: the name of the method.
        function: what is called in the actor.
        declared: how it was declared.
        signature_of: the function whose signature callers see, if not that of `function`.
        raises: exceptions that are answers, besides the declared ones.

    Raises:
        DeclarationError: a one-way method is annotated to return something, or has no self.
    """
    returned = return_annotation(function)
    if not declared.is_ask and returned not in (None, "None", "NoReturn", "Never"):
        raise DeclarationError(f"{owner}.{name} is one-way but returns {returned}: use @ask, or return None")
    parameters_of(function)
    source = function if signature_of is None else signature_of
    declared_signature = signature(source)
    parameters = list(declared_signature.parameters.values())
    if declared.batch_limit:
        # The parameter is a list inside the actor and a single item outside, so its name means nothing to callers.
        parameters = [
            each.replace(kind=Parameter.POSITIONAL_ONLY, annotation=_item_annotation(each.annotation))
            for each in parameters
        ]
    shape, arity, binder = _make_binder(name, parameters)
    # What `help` and `inspect.signature` show for the methods of handles.
    binder.__signature__ = declared_signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    binder.__doc__ = getdoc(source) or getdoc(function)
    method = Method(
        owner,
        name,
        function,
        declared.lane.value,
        shape,
        arity,
        declared.is_ask,
        iscoroutinefunction(unwrap(function)),
        (*declared.raises, *raises),
        declared.batch_limit,
        declared.is_reentrant,
    )
    return HandleMethod(method, binder, Ask if declared.is_ask else Tell)


def _item_annotation(annotation: Any) -> Any:
    """Return the annotation of one item, for the annotation of a list of them."""
    if isinstance(annotation, str):
        _, bracket, item = annotation.partition("[")
        return item.removesuffix("]") if bracket else Parameter.empty
    items = get_args(annotation)
    return items[0] if items else Parameter.empty


def _make_binder(name: str, parameters: list[Parameter]) -> tuple[int, int, Callable[..., Any]]:
    """Compile a function that turns the arguments of a call into the data of a message.

    It has the signature of the method, `self` included, so that Python itself checks the arguments, fills in defaults and raises
    the TypeError. It is generated as source, as `dataclasses` and `namedtuple` do.

    Returns:
        How the data carries the arguments, the number of positional arguments that need no binding (-1 if all calls do), and
        the function.
    """
    arguments = parameters[1:]
    names = [parameter.name for parameter in arguments]
    if all(parameter.kind in POSITIONAL for parameter in arguments):
        shape = (NO_ARGUMENTS, ONE_ARGUMENT)[len(names)] if len(names) < 2 else POSITIONAL_ARGUMENTS
        arity = len(names)
        data = "None" if not names else names[0] if len(names) == 1 else f"({', '.join(names)})"
    else:
        shape, arity = KEYWORD_ARGUMENTS, -1
        positional = [f"{p.name}, " for p in arguments if p.kind in POSITIONAL]
        positional += [f"*{p.name}, " for p in arguments if p.kind is Parameter.VAR_POSITIONAL]
        keyword = [f"'{p.name}': {p.name}, " for p in arguments if p.kind is Parameter.KEYWORD_ONLY]
        keyword += [f"**{p.name}, " for p in arguments if p.kind is Parameter.VAR_KEYWORD]
        data = f"(({''.join(positional)}), {{{''.join(keyword)}}})"
    defaults = {f"_default_{p.name}": p.default for p in parameters if p.default is not Parameter.empty}
    bare = [
        p.replace(
            annotation=Parameter.empty,
            default=Parameter.empty if p.default is Parameter.empty else _SourceText(f"_default_{p.name}"),
        )
        for p in parameters
    ]
    source = f"def {name}{Signature(bare)}:\n    return {data}\n"
    namespace: dict[str, Any] = dict(defaults)
    exec(source, namespace)  # noqa: S102  # the names come from a function's own signature
    binder: Callable[..., Any] = namespace[name]
    return shape, arity, binder


class _SourceText:
    """A default value that a `Signature` prints as the given source text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


# -- checks before a start ---------------------------------------------------------------------------------------------


def checked_actor_class(cls: Any) -> type[BaseActor]:
    """Return an actor class; for a parametrized generic one, the class without its arguments.

    Raises:
        InvalidArgumentError: it is not an actor class.
    """
    cls = getattr(cls, "__origin__", cls)
    if not isinstance(cls, type) or not hasattr(cls, "__actor_schema__"):
        raise InvalidArgumentError(
            f"{safe_repr(cls)} is not an actor class: pass a class derived from Actor, or from Implements[TheInterface]"
        )
    actor_class: type[BaseActor] = cls
    return actor_class


def checked_actor_loop(loop: Any) -> ActorSystem:
    """Return a loop that can run typed actors.

    Raises:
        InvalidArgumentError: it is a `bandstand.core.Loop`, or not a loop at all.
    """
    if not hasattr(loop, "ask_statistics"):
        raise InvalidArgumentError(
            f"{safe_repr(loop)} cannot run typed actors: use bandstand.ActorSystem instead"
        )
    actor_loop: ActorSystem = loop
    return actor_loop


def check_instance(cls: type[BaseActor], instance: object) -> None:
    """Check that the object a class has created can become its actor.

    Raises:
        InvalidArgumentError: it is an instance of another class, or already runs as an actor.
    """
    if not isinstance(instance, cls):
        raise InvalidArgumentError(
            f"{cls.__qualname__}() returned {safe_repr(instance)}, which is not an instance of the class: it cannot run as its actor"
        )
    if hasattr(instance, "__actor_handle__"):
        raise InvalidArgumentError(
            f"{cls.__qualname__}() returned an object that already runs as an actor: create a new object for each actor"
        )


def check_is_behavior(behavior: Any) -> None:
    """Check that a behavior function was not mixed up with a typed actor, which type checkers do not notice.

    Raises:
        InvalidArgumentError: it is an actor class or an instance of one, or does not take a context and a message.
    """
    wrapped: object = getattr(behavior, "func", None)
    code = getattr(behavior, "__code__", None)
    count = 2 if code is None or code.co_flags & (CO_VARARGS | CO_VARKEYWORDS) else code.co_argcount
    if hasattr(behavior, "__actor_schema__") or hasattr(wrapped, "__actor_schema__") or count < 2:
        raise InvalidArgumentError(
            f"{safe_repr(behavior)} is not a behavior of (ctx, data): for a typed actor pass the class and the arguments of its "
            f"constructor, loop.spawn(Counter, 10)"
        )


def handle_methods_of(kind: type[Any]) -> Mapping[str, HandleMethod]:
    """Return the methods of a class's handles, by name."""
    return checked_actor_class(kind).__actor_schema__.handle_methods


def methods_of(what: type[Any] | Handle) -> list[Method]:
    """Return every method that an actor class or a handle takes messages for, in an order that is the same in every process."""
    # In the order of declaration. Subclasses of message classes, which are found later, share the same methods.
    if isinstance(what, Handle):
        known: Any = type(what)
        methods, messages = known.__handle_methods__, known.__handle_messages__
    else:
        schema = checked_actor_class(what).__actor_schema__
        methods, messages = schema.handle_methods, schema.messages
    return list({each.method: None for each in (*methods.values(), *messages.values())})
