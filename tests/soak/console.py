"""What the programs of this package share: their options, their progress on standard error, and how they end."""

# ruff: noqa: T201  # programs that speak to a terminal

from __future__ import annotations

import json
import secrets
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable
from typing import Any, Protocol, TypeVar


class Report(Protocol):
    """The result of a program."""

    failures: list[str]


R = TypeVar("R", bound=Report)


def parser_of(name: str, description: str | None) -> ArgumentParser:
    """Return a parser with the options that all programs have."""
    parser = ArgumentParser(
        prog=f"python -m tests.{name}", description=description, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seed", metavar="N", type=int, help="repeat the decisions of a run (default: a new one)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser


class Progress:
    """One line on standard error that changes on a terminal; elsewhere a line every ten seconds."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._next = 0.0

    def tell(self, seconds: float, line: str) -> None:
        if seconds < self._next:
            return
        self._next = seconds + (0.2 if self._is_terminal else 10)
        sys.stderr.write(f"\r\x1b[K{line[:110]}" if self._is_terminal else f"{line}\n")
        sys.stderr.flush()

    def close(self) -> None:
        if self._is_terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def run_program(
    name: str,
    options: Namespace,
    run: Callable[[int, Progress], R],
    show: Callable[[R], None],
    as_json: Callable[[R], dict[str, Any]],
) -> int:
    """Run, print the result, and return the exit code: 1 with the failures and the seed, 130 if it was interrupted."""
    seed: int = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    print(f"seed {seed}", file=sys.stderr)
    progress = Progress()
    try:
        report = run(seed, progress)
    except KeyboardInterrupt:
        print(f"interrupted; seed {seed}", file=sys.stderr)
        return 130
    finally:
        progress.close()
    if options.json:
        print(json.dumps(as_json(report), indent=2))
    else:
        show(report)
    if report.failures:
        complain(name, seed, report.failures)
        return 1
    return 0


def complain(name: str, seed: int, failures: list[str]) -> None:
    """Print the failures."""
    for failure in failures[:20]:
        print(f"{name}: {failure}", file=sys.stderr)
    print(f"{name}: failed; seed {seed}", file=sys.stderr)
