"""Options that several commands have, and the words of their help."""

from __future__ import annotations

import argparse

__all__ = (
    "DATA",
    "EXITS",
    "add_call_options",
    "add_node_options",
    "add_serve_options",
    "add_source_options",
    "milliseconds",
    "number",
)

EXITS = """exit codes:
  0  there was a reply
  1  any other error was answered
  2  the command line makes no sense
  3  nobody handles that type
  4  the data is not what the type asks for
  5  no answer in time
  6  there is no node: nobody listens there, or it hung up
  7  the output could not be written; a request that was sent is not undone"""

DATA = """data:
  key=greeting value=hello           fields, each of the type that the node asks for
  delay=5000 message.type=Tea.Brew   dots lead inwards
  types=Tea.* types=Memory.*         a list, item by item
  note:=null                         exactly this JSON
  '{"key": "greeting"}'              all of it as JSON
  -                                  all of it as JSON, from standard input"""


def milliseconds(text: str) -> int:
    """A time, as somebody types it."""
    from bandstand.bus.client.address import whole_number

    found = whole_number(text, 1, 86_400_000)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: pass milliseconds, from 1 to 86400000")
    return found


def number(text: str) -> int:
    """A number of things, as somebody types it."""
    from bandstand.bus.client.address import whole_number

    found = whole_number(text, 1, 1_000_000_000)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 1000000000")
    return found


def add_source_options(parser: argparse.ArgumentParser) -> None:
    """Where settings come from."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="what else holds (default: $BANDSTAND_CONFIG, or bandstand.toml if it is here)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set anything that `bandstand config` lists; can be given several times",
    )


def add_node_options(parser: argparse.ArgumentParser, *, is_serving: bool = False) -> None:
    """Which node is asked, and for how long."""
    parser.add_argument(
        "--to",
        metavar="ADDRESS",
        help="where the node is: unix:PATH or tcp:HOST:PORT (default: $BANDSTAND_BUS, or where `serve` listens)",
    )
    parser.add_argument(
        "--timeout", type=milliseconds, metavar="MS", help="how long it may take (default: 30000)"
    )
    if not is_serving:
        parser.add_argument(
            "--token-file",
            metavar="FILE",
            help="where the token lies that the node asks for (default: $BANDSTAND_TOKEN is the token itself)",
        )
        parser.add_argument("--json", action="store_true", help="print what the node answers, for programs")
        add_source_options(parser)


def add_call_options(parser: argparse.ArgumentParser, example: str, *, has_kind: bool = False) -> None:
    """What is sent, with a type as an example that this command does send."""
    parser.add_argument("type", metavar="TYPE", help=f"what to send, as {example}")
    parser.add_argument(
        "data",
        nargs="*",
        default=[],  # or argparse says that it is required
        metavar="DATA",
        help="NAME=TEXT, NAME:=JSON, one JSON, or - (see below)",
    )
    if has_kind:
        parser.add_argument("--kind", choices=("command", "query"), help="which of them, if the type is both")
    add_node_options(parser)


def add_serve_options(parser: argparse.ArgumentParser) -> None:
    """What is served, and where."""
    parser.add_argument(
        "module",
        nargs="?",
        metavar="MODULE[:NAME]",
        help="where the capabilities are: a module or a file, and perhaps a name in it (default: Memory alone)",
    )
    parser.add_argument("--unix", metavar="PATH", help="listen at a Unix socket")
    parser.add_argument(
        "--tcp", metavar="HOST:PORT", help="listen at a TCP port; HOST is 127.0.0.1 if left out"
    )
    parser.add_argument(
        "--isolate",
        action="append",
        metavar="CAPABILITY",
        help="run this one in a process of its own; can be given several times",
    )
    parser.add_argument(
        "--public",
        action="store_true",
        default=None,
        help="allow a HOST by which other machines can do whatever the node can do; needs --token-file",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="have clients over TCP show the token in this file first; only its owner may be able to read it",
    )
