"""Write a journal by a plan that follows from a seed. Under the recorder, this is what crash images are made of.

    python -m tests.journal.crash_program FOLDER SEED ENGINE [HOW]

HOW is `no-sync` for a journal that does not sync; `kill=9` to kill the process when it is about to sync the write-ahead log for the ninth time; or `resume` to open the
journal that a process has left, and to die.

The journal is FOLDER/journal. FOLDER/notes has what was promised so far, a line for each promise: `page 7` when page 7 was reported as durable, `deleting 3` before pages
up to 3 are deleted, `deleted 3` afterwards.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from bandstand.journal import Record, storage
from bandstand.journal.engine import apsw_engine, python_engine
from bandstand.journal.page import encode_records
from bandstand.journal.storage import Storage

ACTIONS = 60
LARGEST = 9000

Action: TypeAlias = tuple[str, int]
"""What to do, and with which page."""


def plan(seed: int) -> Iterator[Action]:
    """Yield what is done with the journal."""
    random_, last, first = random.Random(seed), 0, 1
    for _ in range(ACTIONS):
        draw = random_.random()
        if draw < 0.75 or last < 3:
            last += 1
            yield "commit", last
        elif draw < 0.87:
            yield "checkpoint", last
        elif draw < 0.94:
            bound = random_.randint(first, last)
            first = max(first, bound)
            yield "delete", bound
        else:
            yield "reopen", last


def records_of(seed: int, page: int) -> list[Record]:
    """Return what a page consists of."""
    random_ = random.Random(seed * 100_003 + page)
    sizes = [random_.choice([0, 30, 300, random_.randrange(LARGEST)]) for _ in range(random_.randint(1, 3))]
    return [Record(number, random_.randbytes(size)) for number, size in enumerate(sizes)]


def main(folder: Path, seed: int, engine: str, how: str) -> None:
    found = python_engine() if engine == "Python" else apsw_engine()
    assert found is not None
    module: Any = storage
    module.journal_engine = lambda: found
    notes = os.open(folder / "notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(text: str) -> None:
        os.write(notes, f"{text}\n".encode())

    if how == "resume":
        # Without a name it would be closed at once, which writes all of it to the database.
        journal = Storage(folder / "journal")
        note(f"page {journal.last}")
        os._exit(0)
    if how.startswith("kill="):
        from tests.journal.faulty_disk import faulty_disk

        with faulty_disk() as disk:
            number = int(how.removeprefix("kill="))
            disk.set(
                lambda at: os._exit(9) if (at.name, at.file, at.number) == ("sync", "log", number) else None
            )
            follow(folder, seed, note)
    if how == "no-sync":
        module._SETTINGS = [text.replace("FULL", "OFF") for text in module._SETTINGS]
    follow(folder, seed, note)


def follow(folder: Path, seed: int, note: Callable[[str], None]) -> None:
    """Do what the plan says."""
    journal = Storage(folder / "journal")
    for action, page in plan(seed):
        if action == "commit":
            records = records_of(seed, page)
            assert journal.commit(page, len(records), encode_records(records)) == page
            note(f"page {page}")
        elif action == "checkpoint":
            journal.checkpoint()
        elif action == "delete":
            note(f"deleting {page - 1}")
            journal.delete_before(page, 1 << 40)
            note(f"deleted {page - 1}")
        else:
            journal.close()
            journal = Storage(folder / "journal")
    journal.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4] if len(sys.argv) > 4 else "")
