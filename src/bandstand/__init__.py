"""Supervised actors for Python.

What one writes every day can be imported from here: `from bandstand import Actor, Loop, ask, data`. It is loaded when it is
first asked for. The rest is behind the front doors of the rooms.

A map of the house. An upper floor may import any lower one; everyone enters a room by its front door:

    testing    the rehearsal room: virtual time; no production module imports it
    __main__   argument parsing only
    cli        the command line: what can be typed, what it goes by, what is shown
    app        the only file that knows every room, and joins them
    isolation  capabilities of the bus in processes of their own: where bus and pods meet
    bus        what may be said: commands, queries, events; capabilities, router, adapters
    pod        where it runs: troupes of pods on threads and in processes, handles that outlive them
    shutdown   how it ends: intake, drain, stop, kill, within one time
    pool       several supervised workers behind one handle
    registry   finding actors: names, and groups that are told something together
    topic      typed events for whoever has subscribed, each at their own speed
    actor        actors as classes: typed handles, asks, what an actor does beside its messages
    supervision who restarts whom: specs, the arithmetic of restarts, supervisors
    scope      lifetimes: channels, cancel tokens, scopes, actors that consume a channel
    core       the loop: ids, mailboxes, lanes, run queue, timing wheel, scheduler, clock, observer
    errors     one exception tree, drawn at its door
    _build_mode  which modules are compiled, and whether they run compiled or interpreted
    streams    descriptors 0, 1 and 2, opened where they are closed
"""

import os
from typing import TYPE_CHECKING

if os.environ.get("BANDSTAND_PURE", "") not in {"", "0"}:
    # Before any other module of the package is imported.
    from bandstand._build_mode import install_source_finder as _install_source_finder

    _install_source_finder()

if TYPE_CHECKING:
    from bandstand.actor import Actor as Actor
    from bandstand.actor import Loop as Loop
    from bandstand.actor import ask as ask
    from bandstand.actor import child as child
    from bandstand.actor import control as control
    from bandstand.actor import data as data
    from bandstand.actor import management as management
    from bandstand.actor import supervised as supervised
    from bandstand.scope import CancelToken as CancelToken
    from bandstand.scope import Channel as Channel
    from bandstand.scope import Scope as Scope
    from bandstand.scope import consume as consume
    from bandstand.scope import select as select
    from bandstand.supervision import SupervisorSpec as SupervisorSpec
    from bandstand.supervision import spawn_supervisor as spawn_supervisor

__all__ = (
    "Actor",
    "CancelToken",
    "Channel",
    "Loop",
    "Scope",
    "SupervisorSpec",
    "__version__",
    "ask",
    "child",
    "consume",
    "control",
    "data",
    "management",
    "select",
    "spawn_supervisor",
    "supervised",
)

__version__ = "0.1.0"

# Where those live that are not at home in bandstand.actor.
_HOMES = {
    "CancelToken": "scope",
    "Channel": "scope",
    "Scope": "scope",
    "SupervisorSpec": "supervision",
    "consume": "scope",
    "select": "scope",
    "spawn_supervisor": "supervision",
}


def __getattr__(name: str) -> object:
    # Lazy: whoever wants one room need not load all of them.
    if name not in __all__:
        raise AttributeError(f"module 'bandstand' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"bandstand.{_HOMES.get(name, 'actor')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
