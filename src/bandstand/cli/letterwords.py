"""The words of `bandstand dead`: a command with verbs of its own."""

from __future__ import annotations

import argparse

from bandstand.cli.options import EXITS, add_node_options, number

__all__ = ("add_letter_verbs",)

# Those of `bus.letters`, which a help need not load; a test holds the two together.
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
)


def add_letter_verbs(dead: argparse.ArgumentParser) -> None:
    """What can be done with dead letters."""
    verbs = dead.add_subparsers(metavar="verb", required=True)
    words = {
        "list": "list them, the newest first",
        "show": "show one, with its message, what was answered, and what it follows from",
        "replay": "send one again: it is really handled, and removed if that works",
        "purge": "throw some away",
    }
    for verb, about in words.items():
        made = verbs.add_parser(
            verb,
            help=about,
            description=f"{about[0].upper()}{about[1:]}.",
            epilog=f"examples:\n  bandstand dead {_EXAMPLES[verb]}\n\n{EXITS}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made.set_defaults(verb=verb, parser=made)
        if verb in {"show", "replay"}:
            made.add_argument("id", metavar="ID", help="which one")
        else:
            made.add_argument("--type", metavar="PATTERN", help="those of a type, or of some, as Memory.*")
            made.add_argument("--reason", choices=REASONS, help="those that have this reason")
        if verb == "list":
            made.add_argument(
                "--limit", type=number, default=100, metavar="N", help="at most so many (default: 100)"
            )
            made.add_argument("--before", metavar="ID", help="those that are older than this one")
        if verb == "purge":
            made.add_argument("id", nargs="?", metavar="ID", help="only this one")
            made.add_argument("--all", action="store_true", help="all of them")
        add_node_options(made)


_EXAMPLES = {
    "list": "list --type 'Orders.*' --limit 10",
    "show": "show 01K5D3Z0J8Q4M7T2X9W6V1B3NC",
    "replay": "replay 01K5D3Z0J8Q4M7T2X9W6V1B3NC",
    "purge": "purge --reason unrouted",
}
