"""The `bandstand` command: argument parsing only. What can be typed is in `bandstand.cli`; what a command does, in the rooms."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn, TypeAlias

from bandstand.cli import make_parser
from bandstand.errors import InvalidArgument

__all__ = ("main",)

_Command: TypeAlias = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0 well, 1 something is wrong; a bad command exits with 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    options = _parse(words)
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
