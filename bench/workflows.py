"""DBOS as a peer: durable workflows, on its SQLite backend. It lives in an environment of its own, `.venvs/bench`.

Its databases are in SQLite's default mode, a rollback journal with `synchronous` FULL, and it has no setting for this. A commit calls fdatasync four times: for the journal,
its header, the directory and the database. strace counts 8 calls for a workflow without steps, whose start and result are a commit each, and 20 for one with a transaction of a datasource. What it
confirms is as durable as with ours. On PostgreSQL, its other backend, the server would share commits; no server is part of this benchmark.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any


def refusal() -> str | None:
    """Say why this process cannot measure it; None if it can."""
    try:
        import_module("dbos")
    except ImportError:
        return "DBOS is not installed; `make bench` puts it into .venvs/bench where it can"
    return None


class Counter:
    """A workflow that adds an amount to what is in memory, as the capability of the durable commands does."""

    def __init__(self, dbos: Any) -> None:
        self.count = 0
        self._dbos = dbos

        @dbos.workflow(name="add")  # type: ignore[untyped-decorator]  # not installed where types are checked
        def add(cents: int) -> int:
            self.count += cents
            return self.count

        self.add: Any = add

    def handled(self) -> int:
        """How many workflows have succeeded, as its own database says, if as many were executed."""
        found = self._dbos.list_workflows(status="SUCCESS", load_input=False, load_output=False)
        return min(len(found), self.count)


class Accounts:
    """A workflow with one transaction, which adds to the balance of an account."""

    def __init__(self, dbos: Any, folder: Path, names: list[str]) -> None:
        sql: Any = import_module("sqlalchemy")
        source = import_module("dbos").SQLAlchemyDatasource.create(
            f"sqlite:///{folder / 'accounts.sqlite'}",
            # SQLite has one writer. With more connections the transactions wait in its busy loop, and fail after half a minute.
            engine_kwargs={"pool_size": 1, "max_overflow": 0, "pool_timeout": 600},
        )
        self._engine: Any = source.engine
        self._text: Any = sql.text
        with self._engine.begin() as connection:
            connection.execute(sql.text("CREATE TABLE account (name TEXT PRIMARY KEY, balance INTEGER)"))
            for name in names:
                connection.execute(sql.text("INSERT INTO account VALUES (:name, 0)"), {"name": name})
        statement = sql.text("UPDATE account SET balance = balance + :amount WHERE name = :name")

        @source.transaction(name="change")  # type: ignore[untyped-decorator]  # likewise
        def change(name: str, amount: int) -> None:
            source.sql_session().execute(statement, {"name": name, "amount": amount})

        @dbos.workflow(name="deposit")  # type: ignore[untyped-decorator]  # likewise
        def deposit(name: str, amount: int) -> None:
            change(name, amount)

        self.deposit: Any = deposit

    def total(self) -> int:
        """The sum of all balances."""
        with self._engine.connect() as connection:
            total: int = connection.execute(self._text("SELECT sum(balance) FROM account")).scalar_one()
        return total


@contextmanager
def running(folder: Path, make: Callable[[Any], Any]) -> Generator[tuple[Any, Any]]:
    """Run DBOS with its system database in a folder; yield it and what `make` has registered."""
    dbos: Any = import_module("dbos").DBOS
    dbos(
        config={
            "name": "bench",
            "system_database_url": f"sqlite:///{folder / 'system.sqlite'}",
            "log_level": "ERROR",
            "run_admin_server": False,
        }
    )
    try:
        made = make(dbos)
        dbos.launch()
        yield dbos, made
    finally:
        dbos.destroy(destroy_registry=True)


def run(dbos: Any, workflow: Any, calls: Iterator[tuple[Any, ...]], window: int) -> None:
    """Make these calls of a workflow, so many of them at a time."""
    if window == 1:
        for call in calls:
            workflow(*call)
        return
    handles: deque[Any] = deque()
    for call in calls:
        if len(handles) == window:
            handles.popleft().get_result()
        handles.append(dbos.start_workflow(workflow, *call))
    for handle in handles:
        handle.get_result()
