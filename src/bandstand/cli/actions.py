"""What was typed, done: options become settings, settings a wish, and the wish is handed to whoever fulfils it.

Each command loads what it needs when it is typed: a help, a completion or a typing error would else wait for all that a node is made of.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any, TextIO, cast

from bandstand.errors import InvalidArgument
from bandstand.streams import Output

if TYPE_CHECKING:
    import argparse

    from bandstand.cli.keys import Setting
    from bandstand.cli.settings import Settings
    from bandstand.cli.target import Target

__all__ = (
    "bench",
    "call",
    "completion",
    "config",
    "dead",
    "describe",
    "doctor",
    "emit",
    "health",
    "program_name",
    "query",
    "serve",
    "stats",
    "tail",
    "trace",
)

# Which option sets which key.
DESTINATIONS = {
    "to": "address",
    "timeout": "timeout_ms",
    "token_file": "token_file",
    "module": "serve.module",
    "unix": "serve.unix",
    "tcp": "serve.tcp",
    "isolate": "serve.isolate",
    "public": "serve.public",
}


def settings_of(options: argparse.Namespace) -> Settings:
    """What holds for a command that was typed."""
    from bandstand.cli.keys import KEYS
    from bandstand.cli.settings import read_settings, refuse_unknown

    flags: dict[str, Setting] = {}
    for pair in options.set:
        name, equals, text = str(pair).partition("=")
        if not equals:
            raise InvalidArgument(f"--set {pair}: pass KEY=VALUE, with a KEY that `bandstand config` lists")
        key = KEYS.get(name)
        if key is None:
            refuse_unknown(name, f"--set {pair}", KEYS)
        try:
            flags[name] = key.read(text)
        except InvalidArgument as error:
            raise InvalidArgument(f"--set {pair}: {error}") from None
    for option, name in DESTINATIONS.items():
        given: Any = getattr(options, option, None)
        if given is not None:
            flags[name] = tuple(cast("list[str]", given)) if isinstance(given, list) else given
    return read_settings(flags, options.config)


def _out() -> TextIO:
    """Where answers go."""
    return cast("TextIO", Output(sys.stdout, is_vital=True))


def _err() -> TextIO:
    """Where sentences for people go."""
    return cast("TextIO", Output(sys.stderr, is_vital=False))


def _target(options: argparse.Namespace) -> Target:
    return settings_of(options).target()


def doctor(options: argparse.Namespace) -> int:
    """Say what is installed here."""
    import json

    from bandstand.doctor import diagnose, render

    diagnosis = diagnose()
    text = json.dumps(diagnosis.as_dict(), indent=2) if options.json else render(diagnosis)
    _out().write(f"{text}\n")
    return 0 if diagnosis.is_sound else 1


def serve(options: argparse.Namespace) -> int:
    """Run a node."""
    from bandstand import app

    settings = settings_of(options)
    # Any: each has been read as what it is.
    said: dict[str, Any] = {name: found.value for name, found in settings.values.items()}
    serving = app.ServeOptions(
        target=said["serve.module"],
        unix=said["serve.unix"],
        tcp=said["serve.tcp"],
        isolated=said["serve.isolate"],
        address=settings.address(),
        config=settings.node_config(),
        limits=settings.limits(),
        is_public=said["serve.public"],
        token_file=settings.serving_token_file(),
        is_batch=options.batch,
        is_json=options.json,
        program=program_name(),
    )
    return app.run_node(serving, sys.stdout, sys.stderr)


def call(options: argparse.Namespace) -> int:
    """Send a command or a query."""
    from bandstand.cli import calling

    return calling.call(_wish(options, options.kind), _target(options), _out(), _err())


def query(options: argparse.Namespace) -> int:
    """Send a query."""
    from bandstand.cli import calling

    return calling.call(_wish(options, "query"), _target(options), _out(), _err())


def emit(options: argparse.Namespace) -> int:
    """Emit an event."""
    from bandstand.cli import calling

    return calling.emit(
        _wish(options, None), _target(options), _out(), _err(), allows_undeclared=options.undeclared
    )


# Any: whatever kind of wish the command has.
def _wish(options: argparse.Namespace, kind: Any) -> Any:
    from bandstand.cli.calling import Call

    return Call(type=options.type, arguments=_data(options), kind=kind, is_json=options.json)


def _data(options: argparse.Namespace) -> list[str]:
    """What was typed as data; of a lone dash, what stands in the standard input."""
    arguments: list[str] = options.data
    if arguments != ["-"]:
        return arguments
    try:
        return [sys.stdin.read()]
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"the data cannot be read from standard input: {error}") from None


def describe(options: argparse.Namespace) -> int:
    """Say what a node can be asked."""
    from bandstand.cli.describing import Inquiry, inquire

    to = f" --to {options.to}" if options.to else ""
    inquiry = Inquiry(name=options.name, is_json=options.json, command=f"{program_name()} call{to}")
    return inquire(inquiry, _target(options), _out(), _err())


def tail(options: argparse.Namespace) -> int:
    """Show what passes."""
    from bandstand.cli.tailing import Tail
    from bandstand.cli.tailing import tail as follow

    wish = Tail(
        patterns=options.patterns,
        kinds=options.kind or (),
        count=options.count or 0,
        for_ms=options.duration or 0,
        is_json=options.json,
    )
    return follow(wish, _target(options), _out(), _err())


def dead(options: argparse.Namespace) -> int:
    """See to dead letters."""
    from bandstand.cli.letters import Letters, tend

    said = {name: value for name, value in vars(options).items() if name in LETTERS and value is not None}
    wish = Letters(**said, is_json=options.json)
    if wish.verb == "purge" and not (wish.id or wish.type or wish.reason or options.all):
        raise InvalidArgument("purge which of them? Name one, or say --type, --reason or --all")
    return tend(wish, _target(options), _out(), _err())


LETTERS = frozenset({"verb", "id", "type", "reason", "limit", "before"})


def health(options: argparse.Namespace) -> int:
    """Say how a node is."""
    from bandstand.cli.looking import show_health

    return show_health(_target(options), _out(), _err(), is_json=options.json)


def stats(options: argparse.Namespace) -> int:
    """Say what a node has done."""
    from bandstand.cli.looking import show_stats

    return show_stats(_target(options), _out(), _err(), is_json=options.json)


def trace(options: argparse.Namespace) -> int:
    """Show what a message has caused."""
    from bandstand.cli.tracing import trace as follow

    target = _target(options)
    return follow(options.id, options.limit, target, _out(), _err(), is_json=options.json)


def bench(options: argparse.Namespace) -> int:
    """Measure a node."""
    from bandstand.cli.benching import Bench
    from bandstand.cli.benching import bench as measure

    wish = Bench(
        type=options.type,
        arguments=_data(options),
        count=options.count or 0,
        for_ms=options.duration,
        concurrency=options.concurrency,
        connections=options.connections,
        expect=options.expect,
        is_json=options.json,
    )
    return measure(wish, _target(options), _out(), _err())


def config(options: argparse.Namespace) -> int:
    """Show what holds here."""
    from bandstand.cli.configuring import show_settings

    settings = settings_of(options)
    settings.check()
    return show_settings(settings, _out(), is_json=options.json)


def completion(options: argparse.Namespace) -> int:
    """Print a script for a shell."""
    from bandstand.cli.completing import script_for

    _out().write(script_for(options.shell))
    return 0


def program_name() -> str:
    """What this command is called in a line that can be typed here."""
    name = sys.argv[0]
    if os.path.basename(name) != "bandstand":
        return "python -m bandstand"
    found = shutil.which("bandstand")
    return "bandstand" if found and os.path.realpath(found) == os.path.realpath(name) else name
