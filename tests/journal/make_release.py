"""Write the journal of this release that the tests of every later release open.

    python -m tests.journal.make_release

It makes a folder in tests/journal/releases, named after the version and the format, and does nothing if that exists: what was released never changes. Run it before a
release whose journals differ from the last one's, which is whenever the format, the records or the settings of the database have changed.

    closed/          a journal that was closed
    killed/          one whose process was killed: its last pages are in the write-ahead log
    pages.ndjson     what both must be read as: number, time, and kind and data (hexadecimal) of each record
"""

# ruff: noqa: T201  # a program that speaks to a terminal

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

import bandstand
from bandstand.journal import Journal, Page, Record
from bandstand.journal.storage import FORMAT
from tests.journal.journals import read_pages, with_journal, write_pages

RELEASES = Path(__file__).with_name("releases")
PAGES = [
    [Record(1, b"the first page is deleted")],
    [Record(1, b"and the second")],
    [Record(0, b"")],
    [Record(255, bytes(range(256))), Record(1, b"a line\n"), Record(2, "äöü €".encode())],
    [Record(number, b"%d" % number) for number in range(40)],
    [Record(7, b"longer than a page of the database " * 200)],
]
NEXT = [[Record(1, b"page 7")], [Record(1, b"page 8"), Record(3, b"the last one")]]
BEGAN = 1_790_000_000.0


def describe(page: Page) -> dict[str, object]:
    """Return a page as a line of `pages.ndjson`."""
    return {
        "number": page.number,
        "at": page.at,
        "chain": page.chain,
        "records": [[record.kind, record.data.hex()] for record in page.records],
    }


def make(folder: Path) -> None:
    """Make the journals and their description."""
    with tempfile.TemporaryDirectory() as name:
        journal = Path(name) / "journal"
        write_pages(journal, PAGES)
        with_journal(journal, lambda opened: opened.delete_before(3))

        async def copy_and_close(opened: Journal) -> None:
            for records in NEXT:
                await opened.append(*records)
            shutil.copytree(journal, folder / "killed", ignore=shutil.ignore_patterns("*-shm", "lock"))

        with_journal(journal, copy_and_close, now=lambda: BEGAN)
        shutil.copytree(journal, folder / "closed", ignore=shutil.ignore_patterns("lock"))
        lines = [json.dumps(describe(page)) for page in read_pages(journal)]
    (folder / "pages.ndjson").write_text("".join(f"{line}\n" for line in lines), "utf-8")


def main() -> int:
    folder = RELEASES / f"{bandstand.__version__}-format-{FORMAT}"
    if folder.exists():
        print(f"{folder} exists: what was released never changes", file=sys.stderr)
        return 1
    folder.mkdir(parents=True)
    make(folder)
    print(f"{folder}: commit it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
