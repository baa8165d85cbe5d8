"""The `bandstand` command: argument parsing only. What can be typed is in `bandstand.cli`; what a command does, in the rooms."""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn, TypeAlias

from bandstand.cli import make_parser
from bandstand.cli.terminal import CANNOT_WRITE
from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_str
from bandstand.streams import CannotWrite, Output, discard, open_standard_streams

__all__ = ("main",)

_Command: TypeAlias = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0 well, 1 something is wrong; a bad command exits with 2."""
    open_standard_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        try:
            return _run(words)
        finally:
            # Here, where a failure can be reported, and not when Python ends.
            Output(sys.stdout, is_vital=True).flush()
    except BrokenPipeError:
        # The reader has seen enough.
        discard(sys.stdout)
        return 1
    except CannotWrite as error:
        discard(sys.stdout)
        Output(sys.stderr, is_vital=False).write(
            f"bandstand: {safe_str(error)}. A request that was sent is not undone.\n"
        )
        return CANNOT_WRITE
    except KeyboardInterrupt:
        return 130
    finally:
        try:
            sys.stderr.flush()
        except (OSError, ValueError):
            discard(sys.stderr)


def _run(words: Sequence[str]) -> int:
    options = _parse(words)
    command: _Command = options.command
    try:
        return command(options)
    except InvalidArgument as error:
        return _refuse(options, error)


def _refuse(options: argparse.Namespace, error: InvalidArgument) -> NoReturn:
    parser: argparse.ArgumentParser = options.parser
    parser.error(str(error))


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = make_parser()
    if words[:1] == ["__complete"]:
        # What is being typed is not to be parsed: it is not there yet.
        from bandstand.cli.completing import complete

        return argparse.Namespace(command=partial(complete, words[1:], parser), parser=parser)
    if not words:
        # Somebody new: all that can be typed says more than that something is missing. It is a mistake all the same.
        parser.print_help(sys.stderr)
        sys.exit(2)
    options, rest = parser.parse_known_args(words)
    if "data" in options and all(each == "-" or not each.startswith("-") for each in rest):
        # Fields may stand after an option as well, where argparse does not look for them.
        options.data += rest
    elif rest:
        inner: argparse.ArgumentParser = options.parser
        inner.error(f"unrecognized arguments: {' '.join(rest)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
