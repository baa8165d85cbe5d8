"""The `bandstand` command: argument parsing only. What a command does is in `bandstand.app`."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence

import bandstand

__all__ = ("main",)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0 well, 1 something is wrong; a bad command exits with 2."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    return command(options)


def _doctor(options: argparse.Namespace) -> int:
    from bandstand import app

    seen = app.diagnose()
    print(json.dumps(seen.as_dict(), indent=2) if options.json else app.render(seen))
    return 0 if seen.is_sound else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bandstand",
        description="Supervised actors for Python.",
        epilog="examples:\n  bandstand --version\n  bandstand doctor\n  bandstand doctor --help",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"bandstand {bandstand.__version__}")
    commands = parser.add_subparsers(metavar="command", required=True)
    doctor = commands.add_parser(
        "doctor",
        help="say what is installed here, how it runs, and whether that is sound",
        description="Say what is installed here, how it runs, and whether that is sound.\n"
        "Exit code 0: all is well. 1: something is wrong; the report says what to do.",
        epilog="examples:\n  bandstand doctor\n  bandstand doctor --json | python -m json.tool\n"
        "  BANDSTAND_PURE=1 bandstand doctor",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    doctor.add_argument("--json", action="store_true", help="print the report as JSON, for programs")
    doctor.set_defaults(command=_doctor)
    return parser


if __name__ == "__main__":
    sys.exit(main())
