"""The `bandstand` command: argument parsing only. What a command does is in `bandstand.app`, and in the rooms."""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeAlias

import bandstand
from bandstand.errors import InvalidArgument

__all__ = ("main", "program_name")

_Command: TypeAlias = Callable[[argparse.Namespace], int]

_EXITS = """exit codes:
  0  there was a reply
  1  any other error was answered
  2  the command line makes no sense
  3  nobody handles that type
  4  the data is not what the type asks for
  5  no answer in time
  6  there is no node: nobody listens there, or it hung up"""

_DATA = """data:
  key=greeting value=hello           fields, each of the type that the node asks for
  delay=5000 message.type=Tea.Brew   dots lead inwards
  types=Tea.* types=Memory.*         a list, item by item
  note:=null                         exactly this JSON
  '{"key": "greeting"}'              all of it as JSON
  -                                  all of it as JSON, from standard input"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0 well, 1 something is wrong; a bad command exits with 2."""
    options = _parse(arguments)
    command: _Command = options.command
    try:
        code = command(options)
        sys.stdout.flush()
    except InvalidArgument as error:
        return _refuse(options, error)
    except BrokenPipeError:
        # Whoever read it has seen enough. What is left in the buffer must not be tried again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    return code


def _refuse(options: argparse.Namespace, error: InvalidArgument) -> NoReturn:
    parser: argparse.ArgumentParser = options.parser
    parser.error(str(error))


def _doctor(options: argparse.Namespace) -> int:
    from bandstand import app

    seen = app.diagnose()
    print(json.dumps(seen.as_dict(), indent=2) if options.json else app.render(seen))
    return 0 if seen.is_sound else 1


def _serve(options: argparse.Namespace) -> int:
    from bandstand import app

    serving = app.Serving(
        target=options.module,
        unix=options.unix,
        tcp=options.tcp,
        isolated=tuple(options.isolate),
        is_public=options.public,
        token_file=options.token_file,
        is_batch=options.batch,
        is_json=options.json,
        program=program_name(),
    )
    return app.run_node(serving, sys.stdout, sys.stderr)


def _call(options: argparse.Namespace) -> int:
    from bandstand.bus.client.address import Address, default_address
    from bandstand.bus.client.calling import Call, call

    arguments: list[str] = options.data
    if arguments == ["-"]:
        arguments = [sys.stdin.read()]
    wish = Call(
        type=options.type,
        arguments=arguments,
        kind=options.kind,
        timeout_ms=options.timeout,
        is_json=options.json,
    )
    address = Address.parse(options.to) if options.to else default_address()
    return call(wish, address, sys.stdout, sys.stderr)


def _describe(options: argparse.Namespace) -> int:
    from bandstand.bus.client.address import Address, default_address
    from bandstand.bus.client.calling import Inquiry, inquire

    to = f" --to {options.to}" if options.to else ""
    inquiry = Inquiry(name=options.name, is_json=options.json, command=f"{program_name()} call{to}")
    address = Address.parse(options.to) if options.to else default_address()
    return inquire(inquiry, address, sys.stdout, sys.stderr)


def program_name() -> str:
    """What this command is called in a line that can be typed here."""
    name = sys.argv[0]
    if os.path.basename(name) != "bandstand":
        return "python -m bandstand"
    found = shutil.which("bandstand")
    return "bandstand" if found and os.path.realpath(found) == os.path.realpath(name) else name


def _milliseconds(text: str) -> int:
    from bandstand.bus.client.address import whole_number

    number = whole_number(text, 1, 86_400_000)
    if number is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: pass milliseconds, from 1 to 86400000")
    return number


# --- the command line -------------------------------------------------------------------------------------------------


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    options, rest = _parser().parse_known_args(arguments)
    if "data" in options and all(each == "-" or not each.startswith("-") for each in rest):
        # Fields may stand after an option as well, where argparse does not look for them.
        options.data += rest
    elif rest:
        parser: argparse.ArgumentParser = options.parser
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bandstand",
        description="Supervised actors for Python.",
        epilog="examples:\n  bandstand --version\n  bandstand doctor\n  bandstand serve examples/orders.py\n"
        "  bandstand describe\n  bandstand call Memory.Set key=greeting value=hello",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"bandstand {bandstand.__version__}")
    commands = parser.add_subparsers(metavar="command", required=True)

    def add(
        name: str, command: _Command, about: str, description: str, epilog: str
    ) -> argparse.ArgumentParser:
        made = commands.add_parser(
            name,
            help=about,
            description=f"{about[0].upper()}{about[1:]}.\n{description}",
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made.set_defaults(command=command, parser=made)
        return made

    doctor = add(
        "doctor",
        _doctor,
        "say what is installed here, how it runs, and whether that is sound",
        "Exit code 0: all is well. 1: something is wrong; the report says what to do.",
        "examples:\n  bandstand doctor\n  bandstand doctor --json | python -m json.tool\n"
        "  BANDSTAND_PURE=1 bandstand doctor",
    )
    doctor.add_argument("--json", action="store_true", help="print the report as JSON, for programs")
    _add_serve_options(
        add(
            "serve",
            _serve,
            "run a node until it is told to stop",
            "It listens at the socket where the other commands look for it, unless it is told otherwise. Standard\n"
            "output is for programs: its first line is Sys.BootComplete, or Sys.BootFailed.\n"
            "Exit code 0: it was stopped, or has done all there was to do. 1: it did not start, or has failed.",
            "examples:\n  bandstand serve\n  bandstand serve examples/orders.py --tcp 7777\n"
            "  bandstand serve shop.stock:Stock --unix /run/shop.sock\n  bandstand serve --batch < messages.ndjson\n"
            "  bandstand serve --tcp 0.0.0.0:7777 --public --token-file token",
        )
    )
    _add_call_options(
        add(
            "call",
            _call,
            "send a command or query to a node, and print the answer",
            "The node is asked first what the type is, and what its fields are.",
            "examples:\n  bandstand call Memory.Set key=greeting value=hello\n"
            "  bandstand call Memory.Get key=greeting --json\n"
            f"  bandstand call Syscall.Ping --to tcp:127.0.0.1:7777 --timeout 500\n\n{_DATA}\n\n{_EXITS}",
        )
    )
    describe = add(
        "describe",
        _describe,
        "say what a node can be asked",
        "Without a name: everything there is. With one: all about that type, or that capability.",
        "examples:\n  bandstand describe\n  bandstand describe Memory\n  bandstand describe Memory.Set\n"
        f"  bandstand describe Memory.Set --json\n\n{_EXITS}",
    )
    describe.add_argument("name", nargs="?", default="", metavar="TYPE|CAPABILITY", help="what to describe")
    _add_address(describe)
    describe.add_argument(
        "--json", action="store_true", help="print what the node answers, with JSON Schemas"
    )
    return parser


def _add_serve_options(parser: argparse.ArgumentParser) -> None:
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
        default=[],
        metavar="CAPABILITY",
        help="run this one in a process of its own; can be given several times",
    )
    parser.add_argument(
        "--public",
        action="store_true",
        help="allow a HOST by which other machines can do whatever the node can do; needs --token-file",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="have clients over TCP show the token in this file first; only its owner may be able to read it",
    )
    parser.add_argument(
        "--batch",
        action="store_true",
        help="read messages from standard input, answer on standard output, end when all is done",
    )
    parser.add_argument("--json", action="store_true", help="tell people nothing but warnings")


def _add_call_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("type", metavar="TYPE", help="what to send, as Memory.Set")
    parser.add_argument(
        "data", nargs="*", metavar="DATA", help="NAME=TEXT, NAME:=JSON, one JSON, or - (see below)"
    )
    parser.add_argument("--kind", choices=("command", "query"), help="which of them, if the type is both")
    parser.add_argument(
        "--timeout", type=_milliseconds, metavar="MS", help="how long it may take (default: 30000)"
    )
    _add_address(parser)
    parser.add_argument("--json", action="store_true", help="print the whole answer as one line")


def _add_address(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--to",
        metavar="ADDRESS",
        help="where the node is: unix:PATH or tcp:HOST:PORT (default: $BANDSTAND_BUS, or where `serve` listens)",
    )


if __name__ == "__main__":
    sys.exit(main())
