"""Supervised actors for Python.

Common names are re-exported here: `from bandstand import Actor, ActorSystem, ask, tell`. They are loaded when they are first used.
Everything else is imported from the packages.

The packages and modules, from the top layer down. A module may import from lower layers only:

    testing      virtual time, probes, leak checks, pytest plugin; production code never imports it
    __main__     the `bandstand` command
    cli          arguments, settings and output of the command
    app          `bandstand serve`: joins a node with capabilities and adapters
    doctor       `bandstand doctor`: checks the installation
    isolation    runs capabilities of the bus in separate processes
    notebook     a system that runs between the cells of a notebook
    web          actors that start and stop with a web server
    bus          messages between programs: contracts, capabilities, router, adapters, client
    persistence  actors whose state follows from events in a journal
    journal      an append-only log on disk, with group commit
    pod          actors on other threads and in other processes
    shutdown     phased shutdown with a deadline
    pool         a pool of supervised workers behind one handle
    registry     names and groups of actors
    parts        ready-made actors: rate limiter, circuit breaker, debouncer
    topic        publish and subscribe
    actor        typed actors: classes, handles, asks, state machines
    supervision  restart specs and supervisors
    scope        channels, cancel tokens and scopes
    core         the raw loop: ids, mailboxes, scheduling, timers, links, coroutines
    errors       all exceptions
    streams      standard input, output and error
    _build_mode  which modules are compiled, and whether they run compiled or interpreted
"""

import os
from typing import TYPE_CHECKING

if os.environ.get("BANDSTAND_PURE", "") not in {"", "0"}:
    # Before any other module of the package is imported.
    from bandstand._build_mode import install_source_finder as _install_source_finder

    _install_source_finder()

if TYPE_CHECKING:
    from bandstand.actor import Actor as Actor
    from bandstand.actor import ActorSystem as ActorSystem
    from bandstand.actor import ask as ask
    from bandstand.actor import child as child
    from bandstand.actor import tell as tell
    from bandstand.core import Lane as Lane
    from bandstand.scope import CancelToken as CancelToken
    from bandstand.scope import Channel as Channel
    from bandstand.scope import Scope as Scope
    from bandstand.scope import consume as consume
    from bandstand.scope import select as select
    from bandstand.supervision import SupervisorSpec as SupervisorSpec
    from bandstand.supervision import spawn_supervisor as spawn_supervisor

__all__ = (
    "Actor",
    "ActorSystem",
    "CancelToken",
    "Channel",
    "Lane",
    "Scope",
    "SupervisorSpec",
    "__version__",
    "ask",
    "child",
    "consume",
    "select",
    "spawn_supervisor",
    "tell",
)

__version__ = "0.1.0"

# The packages of the names that are not in bandstand.actor.
_PACKAGES = {
    "CancelToken": "scope",
    "Channel": "scope",
    "Lane": "core",
    "Scope": "scope",
    "SupervisorSpec": "supervision",
    "consume": "scope",
    "select": "scope",
    "spawn_supervisor": "supervision",
}


def __getattr__(name: str) -> object:
    # Lazy: a program that uses one package does not load all of them.
    if name not in __all__:
        raise AttributeError(f"module 'bandstand' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"bandstand.{_PACKAGES.get(name, 'actor')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
