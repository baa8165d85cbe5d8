"""The words of the command line: which commands there are, what each of them takes, and what its help says."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Protocol, TypeAlias

import bandstand
from bandstand.cli import actions
from bandstand.cli.letterwords import add_letter_verbs
from bandstand.cli.options import (
    DATA,
    EXITS,
    add_call_options,
    add_node_options,
    add_serve_options,
    add_source_options,
    milliseconds,
    number,
)

__all__ = ("make_parser",)

Command: TypeAlias = Callable[[argparse.Namespace], int]

KINDS = ("command", "query", "event", "reply", "error")


class _Adder(Protocol):
    def __call__(
        self, name: str, command: Command, about: str, description: str, examples: str, more: str = EXITS
    ) -> argparse.ArgumentParser: ...


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="bandstand",
        description="Supervised actors for Python.",
        epilog="examples:\n  bandstand --version\n  bandstand doctor\n  bandstand serve examples/orders.py\n"
        "  bandstand describe\n  bandstand call Memory.Set key=greeting value=hello\n  bandstand tail",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"bandstand {bandstand.__version__}")
    add = _adder(parser.add_subparsers(metavar="command", required=True).add_parser)
    _add_node_commands(add)
    _add_saying(add)
    _add_watching(add)
    _add_own(add)
    return parser


def _adder(add_parser: Callable[..., argparse.ArgumentParser]) -> _Adder:
    def add(
        name: str, command: Command, about: str, description: str, examples: str, more: str = EXITS
    ) -> argparse.ArgumentParser:
        shown = "\n".join(f"  bandstand {line}" for line in examples.splitlines())
        made = add_parser(
            name,
            help=about,
            description=f"{about[0].upper()}{about[1:]}.\n{description}".rstrip(),
            epilog=f"examples:\n{shown}\n\n{more}".rstrip(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made.set_defaults(command=command, parser=made)
        return made

    return add


def _add_node_commands(add: _Adder) -> None:
    doctor = add(
        "doctor",
        actions.doctor,
        "say what is installed here, how it runs, and whether that is sound",
        "Exit code 0: all is well. 1: something is wrong; the report says what to do.",
        "doctor\ndoctor --json | python -m json.tool",
        "",
    )
    doctor.add_argument("--json", action="store_true", help="print the report as JSON, for programs")
    serve = add(
        "serve",
        actions.serve,
        "run a node until it is told to stop",
        "It listens at the socket where the other commands look for it, unless it is told otherwise. Standard\n"
        "output is for programs: its first line is Sys.BootComplete, or Sys.BootFailed.\n"
        "Exit code 0: it was stopped, or has done all there was to do. 1: it did not start, or has failed.",
        "serve\nserve examples/orders.py --tcp 7777\nserve shop.stock:Stock --unix /run/shop.sock\n"
        "serve shop.py --set node.timeout_ms=5000\nserve --batch < messages.ndjson\n"
        "serve --tcp 0.0.0.0:7777 --public --token-file token",
        "",
    )
    add_serve_options(serve)
    serve.add_argument(
        "--batch",
        action="store_true",
        help="read messages from standard input, answer on standard output, end when all is done",
    )
    serve.add_argument("--json", action="store_true", help="tell people nothing but warnings")
    add_source_options(serve)


def _add_saying(add: _Adder) -> None:
    call = add(
        "call",
        actions.call,
        "send a command or query to a node, and print the answer",
        "The node is asked first what the type is, and what its fields are.",
        "call Memory.Set key=greeting value=hello\ncall Memory.Get key=greeting --json\n"
        "call Syscall.Ping --to tcp:127.0.0.1:7777 --timeout 500",
        f"{DATA}\n\n{EXITS}",
    )
    add_call_options(call, "Memory.Set", has_kind=True)
    query = add(
        "query",
        actions.query,
        "send a query to a node, and print the answer",
        "As `call`, and sure to change nothing: what is no query is not sent.",
        "query Memory.Get key=greeting\nquery Memory.List --json",
        f"{DATA}\n\n{EXITS}",
    )
    add_call_options(query, "Memory.Get")
    emit = add(
        "emit",
        actions.emit,
        "tell a node that something has happened",
        "It waits until the node has taken the event in, and says so if it is refused.",
        'emit Orders.Cancelled item=teapot count=1\nemit Door.Opened \'{"by": "ada"}\' --undeclared',
        f"{DATA}\n\n{EXITS}",
    )
    add_call_options(emit, "Orders.Cancelled")
    emit.add_argument(
        "--undeclared", action="store_true", help="emit it even if no capability declares the type"
    )
    describe = add(
        "describe",
        actions.describe,
        "say what a node can be asked",
        "Without a name: everything there is. With one: all about that type, or that capability.",
        "describe\ndescribe Memory\ndescribe Memory.Set\ndescribe Memory.Set --json",
    )
    describe.add_argument("name", nargs="?", default="", metavar="TYPE|CAPABILITY", help="what to describe")
    add_node_options(describe)


def _add_watching(add: _Adder) -> None:
    tail = add(
        "tail",
        actions.tail,
        "show what passes a node, as it passes",
        "Events, and all the traffic beside them: requests, answers, and who they go to. Ctrl-C ends it.\n"
        "Without a pattern, what the node says about itself is left out; '*' is for everything.\n"
        "A node that goes is waited for, and what was missed meanwhile is told.",
        "tail\ntail 'Orders.*'\ntail --kind event --kind error\ntail --json --count 10",
    )
    tail.add_argument(
        "patterns", nargs="*", metavar="PATTERN", help="a type, or the beginning of some, as Memory.*"
    )
    tail.add_argument("--kind", action="append", choices=KINDS, help="only these; can be given several times")
    tail.add_argument("--count", type=number, metavar="N", help="end after so many")
    tail.add_argument("--for", dest="duration", type=milliseconds, metavar="MS", help="end after so long")
    add_node_options(tail)
    health = add(
        "health",
        actions.health,
        "say how a node and its capabilities are",
        "Exit code 1 if one of them is out of service.",
        "health\nhealth --json",
    )
    add_node_options(health)
    stats = add("stats", actions.stats, "say what a node has done so far", "", "stats\nstats --json")
    add_node_options(stats)
    trace = add(
        "trace",
        actions.trace,
        "show what a message has caused, as a tree with times",
        "Any id will do: of a request, an answer, an event. `bandstand tail` shows them.",
        "trace 01K5D3Z0J8Q4M7T2X9W6V1B3NC\ntrace 01K5D3Z0J8Q4M7T2X9W6V1B3NC --json",
    )
    trace.add_argument("id", metavar="ID", help="the message's id")
    trace.add_argument(
        "--limit", type=number, default=1000, metavar="N", help="show at most so many (default: 1000)"
    )
    add_node_options(trace)
    bench = add(
        "bench",
        actions.bench,
        "measure how many requests a second a running node answers, and how soon",
        "Every answer is looked at: an error, or another one than was expected, is exit code 1.",
        "bench\nbench Memory.Get key=greeting --for 10000\nbench Memory.Get key=a --expect '{\"value\": 1}' --json",
        f"{DATA}\n\n{EXITS}",
    )
    bench.add_argument(
        "type", nargs="?", default="Syscall.Ping", metavar="TYPE", help="what to send (default: Syscall.Ping)"
    )
    bench.add_argument("data", nargs="*", metavar="DATA", help="its data (see below)")
    bench.add_argument(
        "--for",
        dest="duration",
        type=milliseconds,
        default=3000,
        metavar="MS",
        help="how long (default: 3000)",
    )
    bench.add_argument("--count", type=number, metavar="N", help="so many requests, however long it takes")
    bench.add_argument(
        "--concurrency",
        type=number,
        default=64,
        metavar="N",
        help="so many at once on each connection (default: 64)",
    )
    bench.add_argument(
        "--connections", type=number, default=1, metavar="N", help="over so many connections (default: 1)"
    )
    bench.add_argument("--expect", default="", metavar="JSON", help="the data that every answer must have")
    add_node_options(bench)


def _add_own(add: _Adder) -> None:
    dead = add(
        "dead",
        actions.dead,
        "look at what a node could not deliver or answer, and see to it",
        "",
        "dead list\ndead list --type 'Orders.*' --reason crashed\ndead show 01K5D3Z0J8Q4M7T2X9W6V1B3NC\n"
        "dead replay 01K5D3Z0J8Q4M7T2X9W6V1B3NC\ndead purge --all",
    )
    add_letter_verbs(dead)
    config = add(
        "config",
        actions.config,
        "show what holds here, and where each setting comes from",
        "A flag goes before a variable, a variable before the file, the file before what is usual.\n"
        "Exit code 2: something of it is unknown, or makes no sense.",
        "config\nconfig --config shop.toml --json",
        "",
    )
    add_serve_options(config)
    add_node_options(config, is_serving=True)
    config.add_argument("--json", action="store_true", help="print it as JSON, for programs")
    add_source_options(config)
    completion = add(
        "completion",
        actions.completion,
        "print a script that completes commands, options and types in a shell",
        "Types are those of the running node, if there is one.",
        'completion bash > ~/.local/share/bash-completion/completions/bandstand\ncompletion zsh > "${fpath[1]}/_bandstand"\n'
        "completion fish > ~/.config/fish/completions/bandstand.fish",
        "",
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="which shell")
