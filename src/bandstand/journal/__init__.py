"""An append-only log on disk: what was reported as written is there after a crash or a power cut.

    async with Journal("data/journal") as journal:
        page = await journal.append(Record(1, b"a line"))

`Journal` writes, with group commit: what arrives during an fsync shares the next one. `JournalReader` reads and checks every record, in any process and
while the journal is written. `JournalIndex` finds the records that have a key. The data of a record are bytes, and its kind a small number; the journal knows the meaning of neither.

It is one SQLite database in WAL mode with `synchronous=FULL`; `page` describes what is in it, and `storage` why.
"""

from bandstand.journal.index import (
    Extract,
    JournalIndex,
    JournalIndexReader,
    JournalIndexStats,
    RecordPosition,
)
from bandstand.journal.journal import Journal, JournalStats
from bandstand.journal.page import Page, Record, RecordBatch
from bandstand.journal.storage import JournalReader

__all__ = (
    "Extract",
    "Journal",
    "JournalIndex",
    "JournalIndexReader",
    "JournalIndexStats",
    "JournalReader",
    "JournalStats",
    "Page",
    "Record",
    "RecordBatch",
    "RecordPosition",
)
