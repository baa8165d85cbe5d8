"""Defines the command line: the commands, their options and their help, and the functions that run them.

Each function imports what its command needs when it runs. The help, a completion and a usage error import nothing of the bus, so
they are fast.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TextIO, TypeAlias, cast

import bandstand
from bandstand.errors import InvalidArgumentError
from bandstand.streams import Output

if TYPE_CHECKING:
    from bandstand.cli.commands.call import CallOptions
    from bandstand.cli.settings import Settings, SettingValue, Target

__all__ = ("make_parser", "program_name")

EXIT_CODES = """exit codes:
  0  success
  1  the node answered with an error other than those below
  2  the command line or a setting is invalid
  3  no capability handles the type
  4  the data does not match the schema of the type
  5  no answer before the timeout
  6  no connection: no node listens at the address, or the connection was lost
  7  the output could not be written; a request that was sent is not undone
  10 the node died while the command was handled: it was carried out or not"""

LOG_EXIT_CODES = """exit codes:
  0  success
  1  nothing was found, or (replay --check) a checkpoint is wrong
  2  the command line or a setting is invalid
  7  the output or the file could not be written
  8  the journal is damaged: the error names the page and the record
  9  the journal cannot be opened: there is none, or (compact) a node has it open"""

DATA = """data:
  key=greeting value=hello           fields; the node knows their types
  delay=5000 message.type=Tea.Brew   a dot leads to a field of a nested object
  types=Tea.* types=Memory.*         a list, one item at a time
  note:=null                         a value as JSON
  '{"key": "greeting"}'              all of the data as JSON
  -                                  all of the data as JSON, from standard input"""

KINDS = ("command", "query", "event", "reply", "error")

# The same as `bandstand.bus.dead_letters.Reason`, which is not imported for the help; a test compares them.
REASONS = (
    "unrouted",
    "overloaded",
    "unhealthy",
    "crashed",
    "fault",
    "timeout",
    "shuttingDown",
    "undelivered",
    "abandoned",
    "inDoubt",
)

# The same as the names in `bandstand.bus.durable.records`, and the kinds of messages.
RECORD_KINDS = (
    "boot",
    "request",
    "began",
    "answer",
    "ended",
    "event",
    "timer",
    "timerEnded",
    "dead",
    "deadEnded",
    "checkpoint",
    "data",
    "entityEvent",
    "eventSchema",
    "entitySnapshot",
    *(kind for kind in KINDS if kind != "event"),
)

# The key of the setting that each option sets.
OPTION_KEYS = {
    "journal": "journal",
    "to": "address",
    "timeout": "timeout",
    "token_file": "token_file",
    "module": "serve.module",
    "unix": "serve.unix",
    "tcp": "serve.tcp",
    "isolate": "serve.isolate",
    "public": "serve.public",
}

_Command: TypeAlias = Callable[[argparse.Namespace], int]


# --- commands ---------------------------------------------------------------------------------------------------------


class _Adder(Protocol):
    def __call__(
        self,
        name: str,
        command: _Command,
        about: str,
        description: str,
        examples: str,
        more: str = EXIT_CODES,
    ) -> argparse.ArgumentParser: ...


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="bandstand",
        description="Supervised actors for Python.",
        epilog="examples:\n  bandstand --version\n  bandstand doctor\n  bandstand serve examples/orders.py\n"
        "  bandstand describe\n  bandstand call Memory.Set key=greeting value=hello\n  bandstand tail",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"bandstand {bandstand.__version__}")
    add = _adder(parser.add_subparsers(metavar="command", required=True).add_parser)
    _add_doctor_and_serve(add)
    _add_sending(add)
    _add_describe(add)
    _add_tail(add)
    _add_status(add)
    _add_trace(add)
    _add_bench(add)
    _add_dead(add)
    _add_log(add)
    _add_config(add)
    _add_completion(add)
    return parser


def _adder(add_parser: Callable[..., argparse.ArgumentParser]) -> _Adder:
    def add(
        name: str,
        command: _Command,
        about: str,
        description: str,
        examples: str,
        more: str = EXIT_CODES,
    ) -> argparse.ArgumentParser:
        lines = "\n".join(f"  bandstand {line}" for line in examples.splitlines())
        parser = add_parser(
            name,
            help=about,
            description=f"{about[0].upper()}{about[1:]}.\n{description}".rstrip(),
            epilog=f"examples:\n{lines}\n\n{more}".rstrip(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.set_defaults(command=command, parser=parser)
        return parser

    return add


def _add_doctor_and_serve(add: _Adder) -> None:
    doctor = add(
        "doctor",
        run_doctor,
        "report what is installed, how it runs, and what is wrong with it",
        "Exit code 0: no problems. 1: there are problems; the report says what to do.",
        "doctor\ndoctor --json | python -m json.tool",
        "",
    )
    doctor.add_argument("--json", action="store_true", help="print the report as JSON")
    serve = add(
        "serve",
        run_serve,
        "run a node until it is stopped",
        "Without --unix, --tcp and --batch, it listens at the default address, which the other commands use too.\n"
        "Standard output is for programs: its first line is Sys.BootComplete or Sys.BootFailed.\n"
        "Exit code 0: the node was stopped, or has finished its batch. 1: it did not start, or it failed.",
        "serve\nserve examples/orders.py --tcp 7777\nserve shop.stock:Stock --unix /run/shop.sock\n"
        "serve shop.py --set node.timeout=5s\nserve --batch < messages.ndjson\n"
        "serve --tcp 0.0.0.0:7777 --public --token-file token",
        "",
    )
    _add_serve_options(serve)
    serve.add_argument(
        "--batch",
        action="store_true",
        help="read messages from standard input, answer on standard output, and exit when all are handled",
    )
    serve.add_argument("--json", action="store_true", help="print no text for people, except errors")
    _add_source_options(serve)


def _add_sending(add: _Adder) -> None:
    call = add(
        "call",
        run_call,
        "send a command or a query to a node and print the reply",
        "It first asks the node whether the type is a command or a query, and for its fields.",
        "call Memory.Set key=greeting value=hello\ncall Memory.Get key=greeting --json\n"
        "call Syscall.Ping --to tcp:127.0.0.1:7777 --timeout 500ms",
        f"{DATA}\n\n{EXIT_CODES}",
    )
    _add_call_options(call, "Memory.Set", has_kind=True)
    query = add(
        "query",
        run_query,
        "send a query to a node and print the reply",
        "The same as `call`, but it does not send commands, so it changes nothing.",
        "query Memory.Get key=greeting\nquery Memory.List --json",
        f"{DATA}\n\n{EXIT_CODES}",
    )
    _add_call_options(query, "Memory.Get")
    emit = add(
        "emit",
        run_emit,
        "send an event to a node",
        "It waits until the node has accepted the event, and reports an error if the node rejects it.",
        'emit Orders.Cancelled item=teapot count=1\nemit Door.Opened \'{"by": "ada"}\' --undeclared',
        f"{DATA}\n\n{EXIT_CODES}",
    )
    _add_call_options(emit, "Orders.Cancelled")
    emit.add_argument(
        "--undeclared", action="store_true", help="send the event even if no capability declares its type"
    )


def _add_describe(add: _Adder) -> None:
    describe = add(
        "describe",
        run_describe,
        "show which messages a node handles and emits",
        "Without a name: an overview. With a name: everything about that type or capability.",
        "describe\ndescribe Memory\ndescribe Memory.Set\ndescribe Memory.Set --json",
    )
    describe.add_argument(
        "name", nargs="?", default="", metavar="TYPE|CAPABILITY", help="what to describe (default: all)"
    )
    _add_node_options(describe)


def _add_tail(add: _Adder) -> None:
    tail = add(
        "tail",
        run_tail,
        "show the messages that pass through a node, as they pass",
        "It shows events, requests and answers, with their destinations, until you press Ctrl-C.\n"
        "Without a pattern, it leaves out messages about the node itself; '*' shows everything.\n"
        "If the connection is lost, it connects again, and reports that messages may be missing.",
        "tail\ntail 'Orders.*'\ntail --kind event --kind error\ntail --json --count 10",
    )
    tail.add_argument(
        "patterns", nargs="*", metavar="PATTERN", help="a type, or the beginning of types, such as Memory.*"
    )
    tail.add_argument("--kind", action="append", choices=KINDS, help="only this kind; can be repeated")
    tail.add_argument("--count", type=_number, metavar="N", help="exit after N messages")
    tail.add_argument(
        "--for",
        dest="duration",
        type=_seconds,
        metavar="TIME",
        help="exit after TIME: seconds, or 500ms, 2min",
    )
    _add_node_options(tail)


def _add_status(add: _Adder) -> None:
    health = add(
        "health",
        run_health,
        "show the health of a node and its capabilities",
        "Exit code 1 if a capability is out of service.",
        "health\nhealth --json",
    )
    _add_node_options(health)
    stats = add("stats", run_stats, "show the counters of a node", "", "stats\nstats --json")
    _add_node_options(stats)


def _add_trace(add: _Adder) -> None:
    trace = add(
        "trace",
        run_trace,
        "show what a message has caused, as a tree with times",
        "The message can be a request, an answer or an event; `bandstand tail` shows the ids.",
        "trace 01K5D3Z0J8Q4M7T2X9W6V1B3NC\ntrace 01K5D3Z0J8Q4M7T2X9W6V1B3NC --json",
    )
    trace.add_argument("id", metavar="ID", help="the id of the message")
    trace.add_argument(
        "--limit", type=_number, default=1000, metavar="N", help="show at most N messages (default: 1000)"
    )
    _add_node_options(trace)


def _add_bench(add: _Adder) -> None:
    bench = add(
        "bench",
        run_bench,
        "measure the throughput and the latency of a running node",
        "Every answer is checked: the exit code is 1 if one is an error or differs from --expect.",
        "bench\nbench Memory.Get key=greeting --for 10s\nbench Memory.Get key=a --expect '{\"value\": 1}' --json",
        f"{DATA}\n\n{EXIT_CODES}",
    )
    bench.add_argument(
        "type",
        nargs="?",
        default="Syscall.Ping",
        metavar="TYPE",
        help="the type to send (default: Syscall.Ping)",
    )
    bench.add_argument("data", nargs="*", metavar="DATA", help="its data (see below)")
    bench.add_argument(
        "--for",
        dest="duration",
        type=_seconds,
        default=3.0,
        metavar="TIME",
        help="send requests for TIME: seconds, or 500ms, 2min (default: 3)",
    )
    bench.add_argument(
        "--count", type=_number, metavar="N", help="send N requests, regardless of the time it takes"
    )
    bench.add_argument(
        "--concurrency",
        type=_number,
        default=64,
        metavar="N",
        help="requests in flight on each connection (default: 64)",
    )
    bench.add_argument(
        "--connections", type=_number, default=1, metavar="N", help="number of connections (default: 1)"
    )
    bench.add_argument("--expect", default="", metavar="JSON", help="the data that every reply must have")
    _add_node_options(bench)


def _add_dead(add: _Adder) -> None:
    dead = add(
        "dead",
        run_dead,
        "list, show, replay and delete dead letters",
        "A dead letter is a message that the node could not deliver or answer.",
        "dead list\ndead list --type 'Orders.*' --reason crashed\ndead show 01K5D3Z0J8Q4M7T2X9W6V1B3NC\n"
        "dead replay 01K5D3Z0J8Q4M7T2X9W6V1B3NC\ndead purge --all",
    )
    add_verb = _adder(dead.add_subparsers(metavar="verb", required=True).add_parser)
    show_list = add_verb(
        "list",
        run_dead,
        "list dead letters, the newest first",
        "",
        "dead list --type 'Orders.*' --limit 10",
    )
    show = add_verb(
        "show",
        run_dead,
        "show a dead letter with its message, its answer and its causes",
        "",
        "dead show 01K5D3Z0J8Q4M7T2X9W6V1B3NC",
    )
    replay = add_verb(
        "replay",
        run_dead,
        "send a dead letter again",
        "Its handler runs again. If it succeeds, the dead letter is deleted.",
        "dead replay 01K5D3Z0J8Q4M7T2X9W6V1B3NC",
    )
    purge = add_verb("purge", run_dead, "delete dead letters", "", "dead purge --reason unrouted")
    for verb in (show, replay):
        verb.add_argument("id", metavar="ID", help="the id of the dead letter")
    for verb in (show_list, purge):
        verb.add_argument("--type", metavar="PATTERN", help="only this type, or types such as Memory.*")
        verb.add_argument("--reason", choices=REASONS, help="only dead letters with this reason")
    show_list.add_argument(
        "--limit", type=_number, default=100, metavar="N", help="list at most N (default: 100)"
    )
    show_list.add_argument("--before", metavar="ID", help="only dead letters older than this one")
    purge.add_argument("id", nargs="?", metavar="ID", help="only this one")
    purge.add_argument("--all", action="store_true", help="delete all dead letters")
    for name, verb in (("list", show_list), ("show", show), ("replay", replay), ("purge", purge)):
        verb.set_defaults(verb=name)
        _add_node_options(verb)


def _add_log(add: _Adder) -> None:
    about = "It works while the node runs and when it does not, and changes nothing, except `compact`; `index` writes files of its own."
    log = add(
        "log",
        run_log,
        "show, check, export and shorten the journal of a node",
        about,
        "log tail --follow\nlog find 'Orders.*' --since 10min\nlog lineage 01K5D3Z0J8Q4M7T2X9W6V1B3NC\nlog index\nlog verify\n"
        "log export old.ndjson.gz --pages 1-500\nlog replay --check\nlog compact --keep-for 30d",
        LOG_EXIT_CODES,
    )
    add_inner = _adder(log.add_subparsers(metavar="verb", required=True).add_parser)

    def add_verb(verb: str, about: str, description: str, examples: str) -> argparse.ArgumentParser:
        parser = add_inner(verb, run_log, about, description, examples, LOG_EXIT_CODES)
        parser.set_defaults(verb=verb)
        return parser

    tail = add_verb(
        "tail",
        "show the last records",
        "",
        "log tail\nlog tail --last 100 'Orders.*'\nlog tail --follow --kind error",
    )
    _add_selection(tail)
    tail.add_argument(
        "--last", type=_number, default=20, metavar="N", help="show the last N records (default: 20)"
    )
    tail.add_argument("--follow", action="store_true", help="go on with what is written, until Ctrl-C")
    find = add_verb(
        "find",
        "show the records that match",
        "With several options, all of them must match. The oldest records come first.",
        "log find 'Orders.*' --since 2026-01-09T12:00 --until 2026-01-09T13:00\nlog find --kind dead --kind error\n"
        "log find --id 01K5D3Z0J8Q4M7T2X9W6V1B3NC --json",
    )
    _add_selection(find)
    find.add_argument("--id", metavar="ID", help="a message and its answer, a timer or a dead letter")
    find.add_argument("--key", metavar="KEY", help="the events of the entities with this key")
    find.add_argument("--correlation", metavar="ID", help="the messages of one task")
    find.add_argument("--cause", metavar="ID", help="the messages that this message has caused directly")
    _add_times(find)
    find.add_argument(
        "--copies", action="store_true", help="also what checkpoints repeat; the kind of a copy has a *"
    )
    find.add_argument("--after", metavar="OFFSET", help="only records behind this one, such as 12-3")
    find.add_argument(
        "--limit", type=_number, default=1000, metavar="N", help="show at most N records (default: 1000)"
    )
    lineage = add_verb(
        "lineage",
        "show what caused a message and what it has caused, as a tree",
        "Behind each message are the records that are about it, and other messages with the same correlation come last.",
        "log lineage 01K5D3Z0J8Q4M7T2X9W6V1B3NC",
    )
    lineage.add_argument("id", metavar="ID", help="the id of the message; `bandstand log tail` shows the ids")
    lineage.add_argument(
        "--limit", type=_number, default=1000, metavar="N", help="show at most N messages (default: 1000)"
    )
    index = add_verb(
        "index",
        "index the messages, which makes `find` and `lineage` fast",
        "It adds what was written since the last time, also while the node runs. `find` and `lineage` read the rest.\n"
        "The index is in files of its own, beside the journal.",
        "log index\nlog index --rebuild --json",
    )
    index.add_argument("--rebuild", action="store_true", help="delete the index first")
    verify = add_verb(
        "verify",
        "read every page and every record, and report the first damage",
        "",
        "log verify\nlog verify --json",
    )
    export = add_verb(
        "export",
        "write records to a compressed file, one line of JSON for each",
        "The file appears when it is complete.",
        "log export all.ndjson.gz\nlog export january.ndjson.gz --since 2026-01-01 --until 2026-02-01",
    )
    export.add_argument("file", metavar="FILE", help="the file, such as old.ndjson.gz")
    export.add_argument(
        "--pages", type=_pages, metavar="RANGE", help="only these pages: 3-120, 3-, -120 or 7"
    )
    _add_times(export)
    # An export is complete.
    export.set_defaults(copies=True)
    export.add_argument("--force", action="store_true", help="replace the file if it exists")
    replay = add_verb(
        "replay",
        "show what a start of the node would find open",
        "It compares every checkpoint with the records before it.",
        "log replay\nlog replay --check --json",
    )
    replay.add_argument("--check", action="store_true", help="exit with 1 if a checkpoint is wrong")
    compact = add_verb(
        "compact",
        "delete old pages",
        "A page is deleted if one of --keep-for and --keep-bytes says so, and never if a start of the node needs it.\n"
        "The node must be stopped; a node that runs deletes old pages itself.",
        "log compact --keep-for 30d --dry-run\nlog compact --keep-bytes 2GB --export old.ndjson.gz",
    )
    compact.add_argument(
        "--keep-for", type=_keep_for, metavar="TIME", help="keep pages for TIME: 30d, 12h, 30min"
    )
    compact.add_argument("--keep-bytes", type=_size, metavar="SIZE", help="keep at most SIZE: 500MB, 2GiB")
    compact.add_argument(
        "--export", dest="file", metavar="FILE", help="first export what is deleted to this file"
    )
    compact.add_argument("--force", action="store_true", help="replace the file if it exists")
    compact.add_argument("--dry-run", action="store_true", help="only say what would be deleted")
    for parser in (tail, find, lineage, index, verify, export, replay, compact):
        parser.add_argument(
            "--journal", metavar="DIR", help="the directory of the journal (default: $BANDSTAND_JOURNAL)"
        )
        parser.add_argument("--json", action="store_true", help="print JSON, and no progress")
        _add_source_options(parser)


def _add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the options that select records by their messages and kinds."""
    parser.add_argument(
        "patterns", nargs="*", metavar="PATTERN", help="a type, or the beginning of types, such as Memory.*"
    )
    parser.add_argument(
        "--kind",
        action="append",
        choices=RECORD_KINDS,
        metavar="KIND",
        help=f"only this kind of record or message; can be repeated: {', '.join(RECORD_KINDS)}",
    )


def _add_times(parser: argparse.ArgumentParser) -> None:
    """Add the options that select records by time."""
    form = "2026-01-09T12:30, or 10min for ten minutes ago"
    parser.add_argument(
        "--since", type=_time, metavar="TIME", help=f"only what was written since TIME: {form}"
    )
    parser.add_argument("--until", type=_time, metavar="TIME", help="only what was written before TIME")


def _add_config(add: _Adder) -> None:
    config = add(
        "config",
        run_config,
        "show the settings and where each of them comes from",
        "Precedence: flag, environment variable, file, default.\n"
        "Exit code 2: a setting is unknown or invalid.",
        "config\nconfig --config shop.toml --json",
        "",
    )
    _add_serve_options(config)
    _add_node_options(config, is_serving=True)
    config.add_argument("--json", action="store_true", help="print the settings as JSON")
    _add_source_options(config)


def _add_completion(add: _Adder) -> None:
    completion = add(
        "completion",
        run_completion,
        "print the completion script for a shell",
        "It completes commands, options, and the types of the running node.",
        'completion bash > ~/.local/share/bash-completion/completions/bandstand\ncompletion zsh > "${fpath[1]}/_bandstand"\n'
        "completion fish > ~/.config/fish/completions/bandstand.fish",
        "",
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")


# --- options that several commands have -------------------------------------------------------------------------------


def _seconds(text: str) -> float:
    from bandstand.bus.durations import parse_duration

    with _usage_errors():
        found = parse_duration(text)
    if not 0.001 <= found <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time from 1ms to 24h")
    return found


def _number(text: str) -> int:
    from bandstand.bus.client.config import parse_int

    found = parse_int(text, 1, 1_000_000_000)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 1000000000")
    return found


def _time(text: str) -> int:
    from bandstand.cli.ranges import parse_time

    with _usage_errors():
        return parse_time(text, time.time())


def _size(text: str) -> int:
    from bandstand.cli.ranges import parse_size

    with _usage_errors():
        return parse_size(text)


def _pages(text: str) -> tuple[int, int | None]:
    from bandstand.cli.ranges import parse_pages

    with _usage_errors():
        return parse_pages(text)


def _keep_for(text: str) -> float:
    from bandstand.bus.durations import parse_duration

    with _usage_errors():
        return parse_duration(text)


@contextmanager
def _usage_errors() -> Generator[None]:
    """Raise an invalid argument as the error that argparse reports with the name of the option."""
    try:
        yield
    except InvalidArgumentError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _add_source_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where settings come from."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="the settings file (default: $BANDSTAND_CONFIG, or bandstand.toml in the current directory)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set any key that `bandstand config` lists; can be repeated",
    )


def _add_node_options(parser: argparse.ArgumentParser, *, is_serving: bool = False) -> None:
    """Add the options of commands that connect to a node."""
    parser.add_argument(
        "--to",
        metavar="ADDRESS",
        help="the address of the node: unix:PATH or tcp:HOST:PORT (default: $BANDSTAND_BUS, or where `serve` listens)",
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        metavar="TIME",
        help="the timeout of a request: seconds, or 500ms, 2min (default: 30)",
    )
    if not is_serving:
        parser.add_argument(
            "--token-file",
            metavar="FILE",
            help="the file with the token that the node requires (default: the token itself in $BANDSTAND_TOKEN)",
        )
        parser.add_argument("--json", action="store_true", help="print the answer of the node as JSON")
        _add_source_options(parser)


def _add_call_options(parser: argparse.ArgumentParser, example: str, *, has_kind: bool = False) -> None:
    """Add the options of commands that send a message; `example` is a type that the command can send."""
    parser.add_argument("type", metavar="TYPE", help=f"the type to send, such as {example}")
    parser.add_argument(
        "data",
        nargs="*",
        default=[],  # without a default, argparse reports it as required
        metavar="DATA",
        help="NAME=TEXT, NAME:=JSON, all of it as JSON, or - (see below)",
    )
    if has_kind:
        parser.add_argument(
            "--kind", choices=("command", "query"), help="which one to send, if the type is both"
        )
    _add_node_options(parser)


def _add_serve_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what a node serves, and where it listens."""
    parser.add_argument(
        "module",
        nargs="?",
        metavar="MODULE[:NAME]",
        help="the module or file with the capabilities, optionally with a name in it (default: only Memory)",
    )
    parser.add_argument("--unix", metavar="PATH", help="listen on a Unix socket")
    parser.add_argument(
        "--tcp", metavar="HOST:PORT", help="listen on a TCP port; HOST is 127.0.0.1 if omitted"
    )
    parser.add_argument(
        "--journal",
        metavar="DIR",
        help="keep a journal in this directory: the node continues where it was after a crash (default: $BANDSTAND_JOURNAL, or no journal)",
    )
    parser.add_argument(
        "--isolate",
        action="append",
        metavar="CAPABILITY",
        help="run this capability in a separate process; can be repeated",
    )
    parser.add_argument(
        "--public",
        action="store_true",
        default=None,
        help="allow a HOST that other machines can connect to; requires --token-file",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="the file with the token that TCP clients must send; only its owner may have access to it",
    )


# --- running commands -------------------------------------------------------------------------------------------------


def run_doctor(options: argparse.Namespace) -> int:
    """Report on the installation."""
    import json

    from bandstand.doctor import diagnose, render

    diagnosis = diagnose()
    text = json.dumps(diagnosis.as_dict(), indent=2) if options.json else render(diagnosis)
    _stdout().write(f"{text}\n")
    return 0 if diagnosis.is_sound else 1


def run_serve(options: argparse.Namespace) -> int:
    """Run a node."""
    from bandstand import app

    settings = _settings(options)
    # Any: `SettingKey` has checked the type of each value.
    values: dict[str, Any] = {name: setting.value for name, setting in settings.values.items()}
    serving = app.ServeOptions(
        target=values["serve.module"],
        unix=values["serve.unix"],
        tcp=values["serve.tcp"],
        isolated=values["serve.isolate"],
        journal=values["journal"] or None,
        address=settings.address(),
        config=settings.node_config(),
        limits=settings.limits(),
        is_public=values["serve.public"],
        token_file=settings.serving_token_file(),
        is_batch=options.batch,
        is_json=options.json,
        program=program_name(),
    )
    return app.run_node(serving, sys.stdout, sys.stderr)


def run_call(options: argparse.Namespace) -> int:
    """Send a command or a query."""
    from bandstand.cli.commands.call import call

    return call(_call_options(options, options.kind), _target(options), _stdout(), _stderr())


def run_query(options: argparse.Namespace) -> int:
    """Send a query."""
    from bandstand.cli.commands.call import call

    return call(_call_options(options, "query"), _target(options), _stdout(), _stderr())


def run_emit(options: argparse.Namespace) -> int:
    """Send an event."""
    from bandstand.cli.commands.call import emit

    message = _call_options(options, None)
    return emit(message, _target(options), _stdout(), _stderr(), allows_undeclared=options.undeclared)


def _call_options(options: argparse.Namespace, kind: Literal["command", "query"] | None) -> CallOptions:
    from bandstand.cli.commands.call import CallOptions

    return CallOptions(type=options.type, arguments=_data(options), kind=kind, is_json=options.json)


def run_describe(options: argparse.Namespace) -> int:
    """Show which messages a node handles and emits."""
    from bandstand.cli.commands.describe import DescribeOptions, describe

    to = f" --to {options.to}" if options.to else ""
    wanted = DescribeOptions(name=options.name, is_json=options.json, command=f"{program_name()} call{to}")
    return describe(wanted, _target(options), _stdout(), _stderr())


def run_tail(options: argparse.Namespace) -> int:
    """Show messages as they pass."""
    from bandstand.cli.commands.tail import TailOptions, tail

    wanted = TailOptions(
        patterns=options.patterns,
        kinds=options.kind or (),
        count=options.count or 0,
        duration=options.duration or 0.0,
        is_json=options.json,
    )
    return tail(wanted, _target(options), _stdout(), _stderr())


def run_dead(options: argparse.Namespace) -> int:
    """List, show, replay or delete dead letters."""
    from bandstand.cli.commands.dead import DeadOptions, dead

    names = ("verb", "id", "type", "reason", "limit", "before")
    given = {name: value for name in names if (value := getattr(options, name, None)) is not None}
    wanted = DeadOptions(**given, is_json=options.json)
    if wanted.verb == "purge" and not (wanted.id or wanted.type or wanted.reason or options.all):
        raise InvalidArgumentError("nothing is selected: pass an ID, --type, --reason or --all")
    return dead(wanted, _target(options), _stdout(), _stderr())


def run_log(options: argparse.Namespace) -> int:
    """Read a journal, or delete its old pages."""
    from bandstand.bus.durable.reader import Selection
    from bandstand.bus.durable.retention import Retention
    from bandstand.cli.commands.log import LogOptions, log

    if options.verb == "compact" and options.keep_for is None and options.keep_bytes is None:
        raise InvalidArgumentError("it is not said what to keep: pass --keep-for, --keep-bytes, or both")
    where = Selection(
        **_given(
            options,
            types="patterns",
            kinds="kind",
            id="id",
            key="key",
            correlation="correlation",
            cause="cause",
            since="since",
            until="until",
            has_copies="copies",
        )
    )
    wanted = LogOptions(
        verb=options.verb,
        journal=_settings(options).journal(),
        where=where,
        retention=Retention(**_given(options, keep_for="keep_for", keep_bytes="keep_bytes")),
        is_json=options.json,
        **_given(
            options,
            last="last",
            is_following="follow",
            limit="limit",
            after="after",
            id="id",
            pages="pages",
            file="file",
            is_replacing="force",
            is_rebuilding="rebuild",
            is_checking="check",
            is_trial="dry_run",
        ),
    )
    return log(wanted, _stdout(), _stderr())


def _given(options: argparse.Namespace, **names: str) -> dict[str, Any]:
    """Return the options that the command has and the user has set, under the names of fields."""
    return {
        name: value for name, option in names.items() if (value := getattr(options, option, None)) is not None
    }


def run_health(options: argparse.Namespace) -> int:
    """Show the health of a node."""
    from bandstand.cli.commands.status import show_health

    return show_health(_target(options), _stdout(), _stderr(), is_json=options.json)


def run_stats(options: argparse.Namespace) -> int:
    """Show the counters of a node."""
    from bandstand.cli.commands.status import show_stats

    return show_stats(_target(options), _stdout(), _stderr(), is_json=options.json)


def run_trace(options: argparse.Namespace) -> int:
    """Show what a message has caused."""
    from bandstand.cli.commands.trace import trace

    target = _target(options)
    return trace(options.id, options.limit, target, _stdout(), _stderr(), is_json=options.json)


def run_bench(options: argparse.Namespace) -> int:
    """Measure a node."""
    from bandstand.cli.commands.bench import BenchOptions, bench

    wanted = BenchOptions(
        type=options.type,
        arguments=_data(options),
        count=options.count or 0,
        duration=options.duration,
        concurrency=options.concurrency,
        connections=options.connections,
        expect=options.expect,
        is_json=options.json,
    )
    return bench(wanted, _target(options), _stdout(), _stderr())


def run_config(options: argparse.Namespace) -> int:
    """Show the settings."""
    from bandstand.cli.settings import show_settings

    settings = _settings(options)
    settings.check()
    return show_settings(settings, _stdout(), is_json=options.json)


def run_completion(options: argparse.Namespace) -> int:
    """Print the completion script for a shell."""
    from bandstand.cli.commands.completion import script_for

    _stdout().write(script_for(options.shell))
    return 0


def program_name() -> str:
    """Return the name by which a user of this shell can call this command."""
    name = sys.argv[0]
    if os.path.basename(name) != "bandstand":
        return "python -m bandstand"
    found = shutil.which("bandstand")
    return "bandstand" if found and os.path.realpath(found) == os.path.realpath(name) else name


def _settings(options: argparse.Namespace) -> Settings:
    from bandstand.cli.settings import KEYS, raise_unknown, read_settings

    flags: dict[str, SettingValue] = {}
    for pair in options.set:
        name, equals, text = str(pair).partition("=")
        if not equals:
            raise InvalidArgumentError(
                f"--set {pair}: pass KEY=VALUE, with a KEY that `bandstand config` lists"
            )
        key = KEYS.get(name)
        if key is None:
            raise_unknown(name, f"--set {pair}", KEYS)
        try:
            flags[name] = key.parse(text)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"--set {pair}: {error}") from None
    for option, name in OPTION_KEYS.items():
        given: Any = getattr(options, option, None)
        if given is not None:
            flags[name] = tuple(cast("list[str]", given)) if isinstance(given, list) else given
    return read_settings(flags, options.config)


def _target(options: argparse.Namespace) -> Target:
    return _settings(options).target()


def _data(options: argparse.Namespace) -> list[str]:
    """Return the words of the data; for a single dash, the content of standard input."""
    words: list[str] = options.data
    if words != ["-"]:
        return words
    try:
        return [sys.stdin.read()]
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"cannot read the data from standard input: {error}") from None


def _stdout() -> TextIO:
    return cast("TextIO", Output(sys.stdout, is_vital=True))


def _stderr() -> TextIO:
    return cast("TextIO", Output(sys.stderr, is_vital=False))
