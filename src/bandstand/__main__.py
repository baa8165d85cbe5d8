"""The `bandstand` command: parses arguments, runs the command, and turns errors into exit codes. `bandstand.cli` has the commands."""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from bandstand.cli import make_parser
from bandstand.errors import InvalidArgumentError
from bandstand.errors.formatting import safe_str
from bandstand.streams import CannotWrite, Output, discard, open_standard_streams

__all__ = ("main",)

_Command: TypeAlias = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0 success, 1 failure; invalid arguments exit with 2."""
    open_standard_streams()
    args = list(sys.argv[1:] if arguments is None else arguments)
    try:
        try:
            return _run(args)
        finally:
            # Flush here: a failure at interpreter exit could not be reported.
            Output(sys.stdout, is_vital=True).flush()
    except BrokenPipeError:
        # The reader closed the pipe.
        discard(sys.stdout)
        return 1
    except CannotWrite as error:
        discard(sys.stdout)
        Output(sys.stderr, is_vital=False).write(
            f"bandstand: {safe_str(error)}. A request that was sent is not undone.\n"
        )
        return CannotWrite.exit_code
    except KeyboardInterrupt:
        return 130
    finally:
        try:
            sys.stderr.flush()
        except (OSError, ValueError):
            discard(sys.stderr)


def _run(args: Sequence[str]) -> int:
    options = _parse(args)
    command: _Command = options.command
    try:
        return command(options)
    except InvalidArgumentError as error:
        parser: argparse.ArgumentParser = options.parser
        parser.error(str(error))


def _parse(args: Sequence[str]) -> argparse.Namespace:
    parser = make_parser()
    if args[:1] == ["__complete"]:
        # The line is incomplete, so it cannot be parsed.
        from bandstand.cli.commands.completion import complete

        return argparse.Namespace(command=partial(complete, args[1:], parser), parser=parser)
    if not args:
        # For a new user the help is more useful than "the following arguments are required". It is still an error.
        parser.print_help(sys.stderr)
        sys.exit(2)
    options, rest = parser.parse_known_args(args)
    if "data" in options and all(each == "-" or not each.startswith("-") for each in rest):
        # argparse does not collect fields that follow an option.
        options.data += rest
    elif rest:
        inner: argparse.ArgumentParser = options.parser
        inner.error(f"unrecognized arguments: {' '.join(rest)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
