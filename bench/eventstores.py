"""eventsourcing as a peer: aggregates whose events are in an SQLite database. It lives in an environment of its own, `.venvs/bench`.

Its database is in WAL mode with SQLite's own default for `synchronous`, which is FULL: a commit costs one fsync, as with ours.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


def refusal() -> str | None:
    """Say why this process cannot measure it; None if it can."""
    try:
        import_module("eventsourcing")
    except ImportError:
        return "eventsourcing is not installed; `make bench` puts it into .venvs/bench where it can"
    return None


def application(database: Path) -> Any:
    """An application whose events are in this file."""
    application: Any = import_module("eventsourcing.application")
    return application.Application(
        env={"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(database)}
    )


@cache
def account() -> Any:
    """A class of accounts, as its documentation writes them."""
    domain: Any = import_module("eventsourcing.domain")

    class Account(domain.Aggregate):  # type: ignore[misc]  # not installed where types are checked
        @domain.event("Opened")  # type: ignore[untyped-decorator]  # likewise
        def __init__(self, owner: str) -> None:
            self.owner = owner
            self.balance = 0

        @domain.event("Deposited")  # type: ignore[untyped-decorator]  # likewise
        def deposit(self, amount: int) -> None:
            self.balance += amount

    return Account
