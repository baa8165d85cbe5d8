"""Turn any object into text without raising: for log lines, error messages and stored reasons.

A user's object can have a `__repr__` or `__str__` that raises, returns something other than a string, or produces megabytes. The
runtime formats such objects while it handles a failure, where a second failure would end supervision. Every function here therefore
returns a plain `str` of at most `limit` characters (plus a short note about what was left out) that can be encoded as UTF-8.

They catch every exception that the object's own code raises, including KeyboardInterrupt and SystemExit: they run in the middle of
supervision, which must not stop half-way. The cost: a Ctrl-C that arrives while such a `__repr__` runs is lost if the signal handler
raises. The next one works.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from types import TracebackType
from typing import Final, cast

__all__ = (
    "REASON_LIMIT",
    "TRACEBACK_LIMIT",
    "describe_class",
    "describe_exception",
    "safe_repr",
    "safe_str",
    "safe_traceback",
    "set_cause",
    "shorten",
    "shows_runtime_frames",
    "single_line",
    "traceback_of",
    "type_name",
)

REASON_LIMIT: Final = 1_000
"""The maximum length of the text of one object or one reason."""
TRACEBACK_LIMIT: Final = 20_000
"""The maximum length of one traceback; of a longer one, the beginning and the end are kept."""

# Containers nested deeper than this are not shown: they do not help in one line, and may contain themselves.
_DEPTH = 6
# Only this many of the innermost frames of a stack are shown.
_FRAMES = 200
# Python formats every exception of a group and of a chain of causes, which takes too long for more than this.
_EXCEPTIONS = 200
# In that case this many causes are shown, one line each.
_CAUSES = 20
_UNPRINTABLE = "<unprintable>"
# The frames of bandstand's own modules have one of these paths. Those of compiled modules have the path at the time they were compiled.
_OWN_DIRECTORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_COMPILED_FROM = os.path.join("src", "bandstand", "")
# A metaclass can define a `__name__` that raises; the descriptors of `type` itself do not.
_name_of = type.__dict__["__name__"].__get__
_qualname_of = type.__dict__["__qualname__"].__get__
# An exception class can do the same with these attributes.
_traceback_of = BaseException.__dict__["__traceback__"].__get__
_cause_of = BaseException.__dict__["__cause__"].__get__
_set_cause = BaseException.__dict__["__cause__"].__set__
_context_of = BaseException.__dict__["__context__"].__get__
_args_of = BaseException.__dict__["args"].__get__
_members_of = BaseExceptionGroup.__dict__["exceptions"].__get__


def type_name(value: object, *, qualified: bool = False) -> str:
    """Return the name of the class of `value`, even if its metaclass overrides `__name__`."""
    try:
        name = _qualname_of(type(value)) if qualified else _name_of(type(value))
        return _plain(name, REASON_LIMIT)
    except BaseException:  # noqa: BLE001  # out of memory or stack: never the caller's problem
        return "object"


def traceback_of(error: BaseException) -> TracebackType | None:
    """Return `error.__traceback__`, even if the class overrides this attribute."""
    return cast("TracebackType | None", _traceback_of(error))


def set_cause(error: BaseException, cause: BaseException | None) -> None:
    """Set `error.__cause__`, even if the class overrides this attribute."""
    _set_cause(error, cause)


def safe_repr(value: object, limit: int = REASON_LIMIT) -> str:
    """Return `repr(value)`, shortened to `limit` characters; a placeholder if it raises."""
    try:
        return _repr(value, limit, _DEPTH)
    except BaseException as error:  # noqa: BLE001  # see the module docstring
        return _placeholder(value, "repr()", error)


def safe_str(value: object, limit: int = REASON_LIMIT) -> str:
    """Return `str(value)`, shortened to `limit` characters; a placeholder if it raises."""
    try:
        return _str(value, limit)
    except BaseException as error:  # noqa: BLE001  # see the module docstring
        return _placeholder(value, "str()", error)


def describe_exception(error: BaseException, limit: int = REASON_LIMIT) -> str:
    """Return `TypeName: message`, or `TypeName` alone if the message is empty."""
    message = safe_str(error, limit)
    name = type_name(error)
    return f"{name}: {message}" if message else name


def single_line(text: str) -> str:
    """Escape line ends and other characters that cannot be printed, so that a text cannot forge a line of the log."""
    if text.isprintable():
        return text
    return "".join([each if each.isprintable() else repr(each)[1:-1] for each in text])


def shorten(text: str, limit: int) -> str:
    """Cut a text after `limit` characters; the result says how long it was."""
    return _cut(text, limit)


def shows_runtime_frames() -> bool:
    """Return whether tracebacks show the frames of bandstand itself: the environment has `BANDSTAND_DEBUG=1`."""
    return os.environ.get("BANDSTAND_DEBUG", "") not in {"", "0"}


def describe_class(kind: type, message: str | None, limit: int = REASON_LIMIT) -> str:
    """Do what `describe_exception` does for the class and the message of an exception; without a message, return the class's name."""
    try:
        name = _plain(_name_of(kind), limit)
    except BaseException:  # noqa: BLE001  # see the module docstring
        name = "exception"
    return f"{name}: {_plain(message, limit)}" if message else name


def safe_traceback(error: BaseException, limit: int = TRACEBACK_LIMIT) -> str:
    """Return the traceback as Python prints it, with causes, notes and groups; shortened in the middle to `limit` characters.

    The frames of bandstand above the first frame of the program are left out, unless `shows_runtime_frames()`.
    If Python cannot format it because an attribute of the exception raises, or if there are hundreds of causes, the text
    has only the stack, the message, and one line for each of the first causes.
    """
    try:
        if _is_short_chain(error):
            trace = traceback.TracebackException(
                type(error), error, error.__traceback__, limit=-_FRAMES, compact=True
            )
            if not shows_runtime_frames():
                _leave_out_runtime_frames(trace)
            return _join_ends(trace.format(), limit)
    except BaseException:  # noqa: BLE001, S110  # see the module docstring; fall back to the plain form
        pass
    return _plain_traceback(error, limit)


def leave_out_runtime_frames(error: BaseException) -> None:
    """Let the traceback of an exception begin with the first frame of the program, unless `shows_runtime_frames()`.

    For an exception that the program gets as the cause of another one: the frames above are those of the loop.
    """
    if not shows_runtime_frames():
        trace = _traceback_of(error)
        first = None if trace is None else _first_user_frame(trace)
        if first is not trace:
            BaseException.with_traceback(error, first)


def _plain_traceback(error: BaseException, limit: int) -> str:
    """Return the stack, the message and the causes, without using attributes that the exception class can override."""
    text: list[str] = []
    try:
        trace = _traceback_of(error)
        if trace is not None and not shows_runtime_frames():
            trace = _first_user_frame(trace)
        if trace is not None:
            text += ["Traceback (most recent call last):\n", *traceback.format_tb(trace, -_FRAMES)]
    except BaseException:  # noqa: BLE001, S110  # see the module docstring; the message follows
        pass
    try:
        text.append(f"{describe_exception(error, limit)}\n")
        cause: BaseException | None = error
        for _ in range(_CAUSES):
            cause = _cause_of(cause) or _context_of(cause)
            if cause is None:
                break
            text.append(f"caused by {describe_exception(cause)}\n")
        return _join_ends(text, limit)
    except BaseException:  # noqa: BLE001  # see the module docstring
        return _UNPRINTABLE


def _is_runtime_file(path: str) -> bool:
    return path.startswith((_OWN_DIRECTORY, _COMPILED_FROM))


def _leave_out_runtime_frames(outer: traceback.TracebackException) -> None:
    """Remove the runtime's frames at the top of a traceback and of its causes. A traceback without other frames stays as it is."""
    seen: set[int] = set()
    rest = [outer]
    while rest:
        trace = rest.pop()
        if id(trace) in seen:
            continue
        seen.add(id(trace))
        stack = trace.stack
        own = next((place for place, frame in enumerate(stack) if not _is_runtime_file(frame.filename)), 0)
        del stack[:own]
        rest += [each for each in (trace.__cause__, trace.__context__, *(trace.exceptions or ())) if each]


def _first_user_frame(first: TracebackType) -> TracebackType:
    """Return the part of a traceback from the first frame outside of bandstand on; all of it if there is none."""
    trace: TracebackType | None = first
    while trace is not None:
        if not _is_runtime_file(trace.tb_frame.f_code.co_filename):
            return trace
        trace = trace.tb_next
    return first


def _is_short_chain(error: BaseException) -> bool:
    """Return whether Python can format all exceptions of the chain, and of its groups, quickly."""
    seen = {id(error)}
    rest = [error]
    while rest:
        one = rest.pop()
        group: tuple[BaseException, ...] = _members_of(one) if isinstance(one, BaseExceptionGroup) else ()
        for each in (_cause_of(one), _context_of(one), *group[: _EXCEPTIONS + 1]):
            if each is not None and id(each) not in seen:
                seen.add(id(each))
                rest.append(each)
        if len(seen) > _EXCEPTIONS:
            return False
    return True


def _repr(value: object, limit: int, depth: int) -> str:
    """Return the text of `value`. Of Python's own containers and exceptions, only as much as fits is formatted."""
    kind = type(value)
    if kind is str or kind is bytes or kind is bytearray:
        return _repr_of_text(value, limit)  # type: ignore[arg-type]  # one of the three
    if kind is list or kind is tuple or kind is dict or kind is set or kind is frozenset:
        return _repr_of_items(cast("Collection[object]", value), limit, depth)
    if kind.__repr__ is BaseException.__repr__:
        args: tuple[object, ...] = _args_of(value)
        inner = _joined((_part(each, limit, depth) for each in args), limit)
        return _cut(f"{type_name(value)}({inner})", limit)
    return _plain(repr(value), limit)


def _repr_of_text(value: str | bytes | bytearray, limit: int) -> str:
    length = len(value)
    if length <= limit:
        return _cut(repr(value), limit)
    return f"{repr(value[:limit])[:limit]}... ({length:,} in all)"


_BRACKETS: Final[dict[type, tuple[str, str]]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    dict: ("{", "}"),
}


def _repr_of_items(value: Collection[object], limit: int, depth: int) -> str:
    opening, closing = _BRACKETS[type(value)]
    if not value:
        return repr(value)
    if depth == 0:
        return f"{opening}...{closing}"
    parts = (_part(each, limit, depth) for each in value)
    if opening == "{" and hasattr(value, "items"):
        pairs = cast("dict[object, object]", value).items()
        parts = (f"{_part(key, limit, depth)}: {_part(each, limit, depth)}" for key, each in pairs)
    comma = "," if opening == "(" and len(value) == 1 else ""
    return _cut(f"{opening}{_joined(parts, limit)}{comma}{closing}", limit)


def _part(value: object, limit: int, depth: int) -> str:
    """Return the text of one item of a container; if it raises, the other items are still shown."""
    try:
        return _repr(value, limit, depth - 1)
    except BaseException as error:  # noqa: BLE001  # see the module docstring
        return _placeholder(value, "repr()", error)


def _joined(parts: Iterator[str], limit: int) -> str:
    shown: list[str] = []
    size = 0
    for part in parts:
        if size > limit:
            shown.append("...")
            break
        shown.append(part)
        size += len(part) + 2
    return ", ".join(shown)


def _str(value: object, limit: int) -> str:
    kind = type(value)
    if kind is str:
        return _plain(value, limit)  # type: ignore[arg-type]  # a str
    if kind.__str__ is BaseException.__str__:
        # Like BaseException.__str__, but without building a text that is cut afterwards.
        args: tuple[object, ...] = _args_of(value)
        if not args:
            return ""
        return _str(args[0], limit) if len(args) == 1 else _repr(args, limit, _DEPTH)
    if kind.__str__ is object.__str__:
        return _repr(value, limit, _DEPTH)
    return _plain(str(value), limit)


def _placeholder(value: object, what: str, error: BaseException) -> str:
    try:
        return f"<{type_name(value)}: its {what} raised {type_name(error)}>"
    except BaseException:  # noqa: BLE001  # see the module docstring
        return _UNPRINTABLE


def _plain(text: str, limit: int) -> str:
    """Return an exact `str` (a subclass may override anything) of limited length, without lone surrogates."""
    return _encodable(_cut(text, limit))


def _cut(text: str, limit: int) -> str:
    length = str.__len__(text)
    if length <= limit:
        return str.__getitem__(text, slice(None))
    return f"{str.__getitem__(text, slice(limit))}... ({length:,} characters in all)"


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def _join_ends(lines: Iterable[str], limit: int) -> str:
    """Join the lines; of a text that is too long, keep the beginning and the end."""
    half = limit // 2
    # Cut each line too: a single message can have megabytes.
    text = "".join(_cut(line, limit) for line in islice(lines, limit))
    if len(text) > limit:
        left_out = len(text) - 2 * half
        text = f"{text[:half]}\n... ({left_out:,} characters are left out) ...\n{text[-half:]}"
    return _encodable(text)
