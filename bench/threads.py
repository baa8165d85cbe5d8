"""Pykka as a peer: an actor is a thread with a queue. It lives in an environment of its own, `.venvs/bench`.

Handlers are reached by `tell` and `ask` on a reference, which is the fastest that Pykka has: its typed proxies cost more.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import Any, Protocol, TypeAlias

PYTHON = Path(__file__).resolve().parent.parent / ".venvs" / "bench" / "bin" / "python"
"""The peers' own Python; `make bench` makes it."""

Handler: TypeAlias = Callable[[Any, Any], object]


class Ref(Protocol):
    """What one holds of an actor of Pykka."""

    actor_stopped: Event

    def tell(self, message: object) -> None: ...
    def ask(self, message: object, *, block: bool = True) -> Any: ...
    def stop(self) -> bool: ...


class Kind(Protocol):
    """A class of actors."""

    def start(self) -> Ref: ...


def refusal() -> str | None:
    """Say why this process cannot measure Pykka; None if it can."""
    try:
        import_module("pykka")
    except ImportError:
        return "Pykka is not installed; `make bench` puts it into .venvs/bench where it can"
    return None


def kind(
    handler: Handler, on_failure: Callable[[Any, type, BaseException, object], None] | None = None
) -> Kind:
    """Make a class of a handler: it is called with the actor and a message, with no frame in between."""
    pykka: Any = import_module("pykka")
    hooks = {} if on_failure is None else {"on_failure": on_failure}
    made: Any = type("Peer", (pykka.ThreadingActor,), {"on_receive": handler, **hooks})
    return made  # type: ignore[no-any-return]  # Pykka is not installed where types are checked


@contextmanager
def living(*handlers: Handler) -> Generator[list[Ref]]:
    """Start an actor for each handler; they are stopped in the end."""
    refs = [kind(handler).start() for handler in handlers]
    try:
        yield refs
    finally:
        for ref in refs:
            ref.stop()
