"""Write a journal by a plan that follows from a seed. Under the recorder, this is what crash images are made of.

    python -m tests.journal.crash_program FOLDER SEED ENGINE [NO_SYNC]

The journal is FOLDER/journal. FOLDER/notes has what was promised so far, a line for each promise: `page 7` when page 7 was reported as durable, `deleting 3` before pages
up to 3 are deleted, `deleted 3` afterwards.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
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


def main(folder: Path, seed: int, engine: str, is_synced: bool) -> None:
    found = python_engine() if engine == "Python" else apsw_engine()
    assert found is not None
    module: Any = storage
    module.journal_engine = lambda: found
    if not is_synced:
        module._SETTINGS = [text.replace("FULL", "OFF") for text in module._SETTINGS]
    notes = os.open(folder / "notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(text: str) -> None:
        os.write(notes, f"{text}\n".encode())

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
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], "NO_SYNC" not in sys.argv)
