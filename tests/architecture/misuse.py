"""Call everything that compiled classes offer with wrong arguments, in a process that may crash.

Run as a module with a file and the full names of classes: `python -m tests.architecture.misuse /tmp/last
bandstand.core.timer_wheel.Timer`. Each call is written to the file before it is made, so the file of a process that crashed names the call that
did it. The file is mapped into memory: hundreds of thousands of calls are not written to a pipe, and what is in memory survives a crash.
"""

# Functions are called with arguments of any type.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import asyncio
import copy
import faulthandler
import gc
import inspect
import mmap
import os
import pickle
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, cast

from tests.architecture import package_layout

# The packages with public classes that derive from compiled ones.
PACKAGES = (
    "bandstand.core",
    "bandstand.scope",
    "bandstand.supervision",
    "bandstand.actor",
    "bandstand.registry",
    "bandstand.topic",
    "bandstand.pool",
    "bandstand.bus",
    "bandstand.pod",
    "bandstand.testing",
)
# Attributes that every class inherits from `object`.
INHERITED = frozenset(dir(object)) - {
    "__eq__",
    "__ge__",
    "__gt__",
    "__hash__",
    "__init__",
    "__le__",
    "__lt__",
    "__ne__",
    "__reduce__",
    "__reduce_ex__",
    "__repr__",
    "__str__",
}
# Methods that block if they are called correctly, and why: they are only called with wrong arguments.
BLOCKING = {
    "run": "runs the event loop until it is stopped",
    "run_until_idle": "runs the event loop until it is idle",
}
TIMEOUT_S = 100
# The number of plain values among the wrong values; they come first.
PLAIN_VALUES = 9
# Instead of a class name: all public functions of the compiled modules.
FUNCTIONS = "functions"
# Instead of a class name: a crash, to see that it is noticed.
CRASH = "crash"


def classes() -> list[type]:
    """Return every class of the compiled modules, and every public class of bandstand that derives from one."""
    found: dict[type, None] = {}
    for name in package_layout.compiled_modules():
        module = import_module(name)
        for value in vars(module).values():
            if is_class(value) and value.__module__ == name:
                found[value] = None
    for name in PACKAGES:
        package = import_module(name)
        for entry in getattr(package, "__all__", ()):
            value = getattr(package, entry)
            if is_class(value) and any(base in found for base in value.__mro__[1:]):
                found[value] = None
    return list(found)


def is_class(value: object) -> bool:
    return isinstance(value, type) and not getattr(value, "_is_protocol", False)


def functions() -> list[tuple[str, Callable[..., Any]]]:
    """Return every public function of the compiled modules with its full name."""
    return [
        (f"{name}.{entry}", value)
        for name in package_layout.compiled_modules()
        for entry, value in vars(import_module(name)).items()
        if not entry.startswith("_")
        and isinstance(value, (types.FunctionType, types.BuiltinFunctionType))
        and value.__module__ == name
    ]


def full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def public_names(cls: type) -> list[str]:
    """Return the names of a class that a program may use: plain ones, and those of Python's protocols."""
    return [
        name
        for name in dir(cls)
        if (not name.startswith("_") or (name.startswith("__") and name.endswith("__")))
        and name not in INHERITED
    ]


def bare(cls: Any) -> Any:
    """Return an instance whose __init__ has not run."""
    return cls.__new__(cls)


def skipping(cls: type) -> Any:
    """Return an instance of a subclass that does not call super().__init__()."""
    return type("Skipping", (cls,), {"__init__": lambda *_: None})()


def built(cls: type, *arguments: object) -> Any:
    return cls(*arguments)


def makers(cls: type) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Give the ways to come by an instance, good or bad, that do give one."""
    ways: list[tuple[str, Any]] = [
        ("bare", lambda: bare(cls)),
        ("skipping", lambda: skipping(cls)),
        ("built()", lambda: built(cls)),
    ]
    try:
        count = len(inspect.signature(cls).parameters)
    except (TypeError, ValueError):
        count = 8
    for value in (None, 1):
        for size in range(1, min(count, 9) + 1):
            given = (value,) * size
            ways.append((f"built{given!r}", lambda given=given: built(cls, *given)))
    for words, make in ways:
        say(f"{full_name(cls)}: {words}")
        try:
            make()
        except BaseException:  # noqa: BLE001  # any exception is fine: it must only not crash
            continue
        yield words, make


class LastCall:
    """The call that is made now, in a file that is mapped into memory."""

    SIZE = 4096

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None

    def open(self, path: str) -> None:
        with open(path, "w+b") as file:
            file.truncate(self.SIZE)
            self._memory = mmap.mmap(file.fileno(), self.SIZE)

    def write(self, text: str) -> None:
        assert self._memory is not None
        line = text.encode()[: self.SIZE - 1] + b"\n"
        self._memory[: len(line)] = line


last_call = LastCall()
say = last_call.write


def attempt(words: str, call: Any) -> None:
    """Make one call and use its result. Any exception is fine."""
    say(words)
    try:
        result = call()
        use(result)
    except BaseException:  # noqa: BLE001  # any exception is fine: it must only not crash
        return


def use(result: Any) -> None:
    """Use the result of a call: take a few steps of a coroutine or an iterator."""
    if isinstance(result, types.CoroutineType):
        try:
            cast("Any", result).send(None)
        finally:
            cast("Any", result).close()
        return
    if hasattr(type(result), "__next__"):
        for _ in range(3):
            next(result)
        return
    repr(result)


def wrong_values(everything: list[type]) -> list[tuple[str, Any]]:
    """Return values to pass as self or as arguments, including an uninitialised instance of each class."""
    found: list[tuple[str, Any]] = [
        ("None", None),
        ("1", 1),
        ("-1", -1),
        ("2**70", 1 << 70),
        ("'x'", "x"),
        ("[]", []),
        ("()", ()),
        ("object()", object()),
        ("print", print),
    ]
    for other in everything:
        try:
            found.append((f"bare {other.__qualname__}", bare(other)))
        except TypeError:
            continue
    return found


def argument_lists(
    function: Any, values: list[tuple[str, Any]]
) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Yield arguments for a bound function: the wrong number, and the wrong types."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
        sizes = [1, 2, 3]
    else:
        places = [
            each for each in parameters if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}
        ]
        needed = [each for each in places if each.default is each.empty]
        sizes = sorted({len(needed), len(places)} - {0})
        if any(each.kind is each.VAR_POSITIONAL for each in parameters):
            sizes = sorted({*sizes, 1, 3})
    yield "", (), {}
    yield "7 times None", (None,) * 7, {}
    yield "no_such=1", (), {"no_such": 1}
    words_only = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    for size in sizes:
        for words, value in values:
            yield f"{size} times {words}", (value,) * size, {}
            if size > 1:
                yield f"{words} and {size - 1} times None", (value,) + (None,) * (size - 1), {}
                yield f"None and {size - 1} times {words}", (None,) + (value,) * (size - 1), {}
            for name in words_only:
                yield f"{size} times {words}, {name}={words}", (value,) * size, {name: value}


def misuse(cls: type, everything: list[type]) -> None:
    values = wrong_values(everything)
    misuse_unbound(cls, values)
    for words, make in makers(cls):
        where = f"{words} of {full_name(cls)}"
        plain_operations(where, make)
        for entry in public_names(cls):
            misuse_attribute(where, make, entry, values)
            if not (entry in BLOCKING and words.startswith("built")):
                misuse_method(where, make, entry, values)
        # Initialise twice, then use it.
        for given, arguments, keywords in argument_lists(make().__init__, values[:PLAIN_VALUES]):
            attempt(
                f"{where}: __init__ again ({given})", lambda m=make, a=arguments, k=keywords: again(m, a, k)
            )


def misuse_unbound(cls: type, values: list[tuple[str, Any]]) -> None:
    """Call all methods of a class on objects that are not its instances."""
    name = full_name(cls)
    for entry in public_names(cls):
        held = inspect.getattr_static(cls, entry)
        unbound = getattr(cls, entry, None)
        for words, value in values:
            if isinstance(value, cls):
                continue
            if hasattr(held, "__get__") and not isinstance(held, (staticmethod, classmethod)):
                attempt(f"{name}.{entry} of {words}", lambda held=held, s=value: held.__get__(s, type(s)))
            if callable(unbound):
                attempt(f"{name}.{entry}({words})", lambda u=unbound, s=value: u(s))
                attempt(f"{name}.{entry}({words}, None)", lambda u=unbound, s=value: u(s, None))
                attempt(f"{name}.{entry}({words}, 1, 2, 3)", lambda u=unbound, s=value: u(s, 1, 2, 3))


def misuse_attribute(where: str, make: Callable[[], Any], entry: str, values: list[tuple[str, Any]]) -> None:
    """Get, set and delete one attribute."""
    attempt(f"{where}: get {entry}", lambda: getattr(make(), entry))
    for what, value in values[:PLAIN_VALUES]:
        attempt(f"{where}: set {entry} to {what}", lambda value=value: setattr(make(), entry, value))
    attempt(f"{where}: delete {entry}", lambda: delattr(make(), entry))


def misuse_method(where: str, make: Callable[[], Any], entry: str, values: list[tuple[str, Any]]) -> None:
    """Call one method with wrong arguments, each time on a new instance."""
    try:
        function = getattr(make(), entry)
    except BaseException:  # noqa: BLE001  # an error is fine
        return
    if not callable(function):
        return
    for given, arguments, keywords in argument_lists(function, values):
        attempt(f"{where}: {entry}({given})", lambda a=arguments, k=keywords: getattr(make(), entry)(*a, **k))


def misuse_functions(everything: list[type]) -> None:
    values = wrong_values(everything)
    for name, function in functions():
        for given, arguments, keywords in argument_lists(function, values):
            attempt(f"{name}({given})", lambda f=function, a=arguments, k=keywords: f(*a, **k))


def again(make: Callable[[], Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    instance = make()
    for _ in range(2):
        instance.__init__(*arguments, **keywords)
    repr(instance)


def plain_operations(where: str, make: Callable[[], Any]) -> None:
    operations: dict[str, Any] = {
        "repr": repr,
        "str": str,
        "hash": hash,
        "bool": bool,
        "int": int,
        "len": len,
        "iter": iter,
        "dir": dir,
        "equal": lambda it: it == make(),
        "equal to itself": lambda it: it == it,  # noqa: PLR0124
        "less": lambda it: it < make(),
        "greater or equal to 1": lambda it: it >= 1,
        "equal to None": lambda it: it == None,  # noqa: E711
        "in": lambda it: 1 in it,
        "item": lambda it: it[0],
        "call": lambda it: it(),
        "await": lambda it: next(it.__await__()),
        "copy": lambda it: use_all(copy.copy(it)),
        "deepcopy": lambda it: use_all(copy.deepcopy(it)),
        "collect": gc.get_referents,
    }
    for protocol in (0, 2, 5):
        operations[f"pickle {protocol}"] = lambda it, p=protocol: use_all(pickle.loads(pickle.dumps(it, p)))
    for words, operation in operations.items():
        attempt(f"{where}: {words}", lambda operation=operation: operation(make()))


def use_all(copied: Any) -> None:
    """Use a copy: read all properties, and call every method without arguments."""
    repr(copied)
    for entry in public_names(type(copied)):
        if entry in BLOCKING:
            continue
        try:
            value = getattr(copied, entry)
            if callable(value) and not isinstance(value, type):
                use(value())
        except Exception:  # noqa: BLE001  # an error is fine
            continue


def main(last: str, names: list[str]) -> None:
    last_call.open(last)
    faulthandler.enable()
    faulthandler.dump_traceback_later(TIMEOUT_S, exit=True)
    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda _: None
    everything = classes()

    async def inside() -> None:
        for name in names:
            if name == FUNCTIONS:
                misuse_functions(everything)
                continue
            if name == CRASH:
                say(CRASH)
                os.abort()
            misuse(next(cls for cls in everything if full_name(cls) == name), everything)
        gc.collect()

    # Inside an event loop: many functions need a running one, and raise at once without it.
    asyncio.run(inside())
    gc.collect()
    say("all done")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
