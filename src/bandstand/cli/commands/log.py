"""`bandstand log`: reads the journal of a node, while the node runs or not, indexes its messages, and deletes its old pages.

All of it except `compact` only reads the journal; `index` writes files of its own beside it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TextIO, final

import msgspec
from msgspec import Raw

from bandstand.bus.durable.check import Content, ReplayReport, check_replay, count_content
from bandstand.bus.durable.export import Exported, entry_line, export
from bandstand.bus.durable.lineage import Lineage, LoggedMessage, find_lineage
from bandstand.bus.durable.message_index import MessageIndex, PageWalk, keys_of_selection, message_index
from bandstand.bus.durable.reader import (
    START,
    Batch,
    Entry,
    Offset,
    Selection,
    entries_of,
    pages_backward,
    read_batch,
)
from bandstand.bus.durable.records import (
    CHECKPOINT,
    IS_BEGUN,
    IS_DOUBTFUL,
    REQUEST,
    Boot,
    Checkpoint,
    DataEntry,
    DeadEntry,
    TimerEntry,
    read_json,
)
from bandstand.bus.durable.retention import (
    PageSummary,
    Retention,
    has_owned_records,
    needed_from,
    slices,
    summary_of,
)
from bandstand.bus.reminders.book import OWNER as REMINDERS
from bandstand.bus.reminders.book import describe_record
from bandstand.cli.output import (
    KIND_COLOURS,
    Colours,
    ExitCode,
    ProgressBar,
    date_time,
    format_table,
    print_line,
    printable,
    printable_json,
    terminal_width,
    truncate,
)
from bandstand.core.asyncio_host import new_event_loop
from bandstand.errors import (
    InvalidArgumentError,
    JournalCorruptError,
    JournalError,
    JournalFullError,
    JournalLockedError,
)
from bandstand.errors.formatting import safe_str
from bandstand.journal import Journal, JournalReader
from bandstand.persistence.records import EventHead

if TYPE_CHECKING:
    from bandstand.bus.frame import Frame
    from bandstand.journal import JournalIndex, JournalIndexStats, Page

__all__ = ("LogOptions", "Verb", "log")

Verb = Literal["tail", "find", "lineage", "index", "verify", "export", "replay", "compact"]

# How long `tail --follow` waits before it looks for new pages, in seconds.
_FOLLOW_S: Final = 0.2
# How many ids of each kind `replay` lists.
_LISTED: Final = 10


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """What to do, with which journal and which records."""

    verb: Verb
    journal: str
    """The directory of the journal."""
    where: Selection = field(default_factory=Selection)
    """Which records, for `tail`, `find` and `export`."""
    last: int = 20
    """How many records `tail` shows."""
    is_following: bool = False
    """Whether `tail` goes on with what is written later."""
    limit: int = 1000
    """How many records `find` shows, and how many messages `lineage` shows."""
    after: str = ""
    """The offset behind which `find` begins; empty for all."""
    id: str = ""
    pages: tuple[int, int | None] | None = None
    """The first and the last page to export; None for all."""
    file: str = ""
    """The file to export to; empty for none."""
    is_replacing: bool = False
    """Whether the file may exist."""
    is_rebuilding: bool = False
    """Whether `index` begins again."""
    is_checking: bool = False
    """Whether a checkpoint that differs makes `replay` fail."""
    retention: Retention = field(default_factory=Retention)
    """What `compact` keeps."""
    is_trial: bool = False
    """Whether `compact` only says what it would delete."""
    is_json: bool = False


def log(
    options: LogOptions,
    out: TextIO,
    err: TextIO,
    *,
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], object] = time.sleep,
) -> ExitCode:
    """Do what the options say, and print the result.

    Args:
        options: what to do.
        out: standard output.
        err: standard error.
        now: the time, in seconds since 1970.
        sleep: waits for a number of seconds.
    """
    with _ErrorReporter(err) as reporter:
        if options.verb == "compact":
            return _compact(options, out, err, now)
        with JournalReader(options.journal) as reader:
            if options.verb == "tail":
                return _tail(options, reader, out, err, sleep)
            return _READING[options.verb](options, reader, out, err)
    return reporter.exit_code


@final
class _ErrorReporter:
    """A context manager that prints errors of the journal and of files, and sets `exit_code`. It suppresses only the errors that it prints."""

    def __init__(self, err: TextIO) -> None:
        self._err = err
        self.exit_code = ExitCode.SUCCESS

    def __enter__(self) -> _ErrorReporter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        match error:
            case JournalCorruptError():
                self.exit_code = ExitCode.DAMAGED
            case JournalError():
                self.exit_code = ExitCode.NO_JOURNAL
            case OSError() if not isinstance(error, BrokenPipeError):
                self.exit_code = ExitCode.OUTPUT
            case _:
                return False
        self._err.write(f"bandstand: {printable(str(error))}\n")
        return True


@final
class _Progress:
    """Shows how many pages of a journal were read, if standard error is a terminal; nothing with --json."""

    def __init__(self, options: LogOptions, reader: JournalReader, err: TextIO) -> None:
        self._bar = ProgressBar(err, is_on=not options.is_json)
        self._first = self._last = 0
        self._reader = reader

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._bar.clear()

    def draw(self, page: Page) -> None:
        """Draw the bar, unless the last update was a moment ago."""
        self.draw_number(page.number)

    def draw_number(self, number: int) -> None:
        """Draw the bar for the number of a page."""
        if not self._bar.is_due():
            return
        if not self._first:
            self._first, self._last = self._reader.first, self._reader.last
        pages = max(1, self._last - self._first + 1)
        self._bar.draw((number - self._first + 1) / pages, f"page {number:,} of {self._last:,}")


# --- tail and find ----------------------------------------------------------------------------------------------------


def _tail(
    options: LogOptions,
    reader: JournalReader,
    out: TextIO,
    err: TextIO,
    sleep: Callable[[float], object],
) -> ExitCode:
    last = reader.last
    shown: list[Entry] = []
    for page in pages_backward(reader, last):
        if len(shown) >= options.last:
            break
        shown[:0] = entries_of(page, options.where)
    _print_entries(options, shown[-options.last :], out)
    position = Offset(last + 1, 0)
    try:
        while options.is_following:
            batch = read_batch(reader, position, where=options.where)
            _print_gap(batch, err)
            _print_entries(options, batch.entries, out)
            position = batch.next
            if batch.is_end:
                sleep(_FOLLOW_S)
    except KeyboardInterrupt:
        # The normal end of following.
        return ExitCode.SUCCESS
    return ExitCode.SUCCESS


def _find(options: LogOptions, reader: JournalReader, out: TextIO, err: TextIO) -> ExitCode:
    position = Offset.parse(options.after) if options.after else START
    keys = keys_of_selection(options.where)
    if keys is None:
        return _print_found(options, reader, position, reader.pages, out, err)
    with _opened_index(reader, err) as index:

        def pages(since: int) -> Iterator[Page]:
            return iter(PageWalk(reader, index, since).want_all(keys))

        return _print_found(options, reader, position, pages, out, err)


def _print_found(
    options: LogOptions,
    reader: JournalReader,
    position: Offset,
    pages: Callable[[int], Iterator[Page]],
    out: TextIO,
    err: TextIO,
) -> ExitCode:
    count = 0
    while True:
        batch = read_batch(reader, position, where=options.where, limit=options.limit - count, pages=pages)
        _print_gap(batch, err)
        _print_entries(options, batch.entries, out)
        position = batch.next
        count += len(batch.entries)
        if batch.is_end:
            return ExitCode.SUCCESS if count else ExitCode.FAILED
        if count >= options.limit:
            err.write(f"bandstand: there may be more: pass --after {position}, or a greater --limit\n")
            return ExitCode.SUCCESS


def _print_gap(batch: Batch, err: TextIO) -> None:
    if batch.has_gap:
        print_line(err, "bandstand: records are missing here: their pages were deleted")


def _print_entries(options: LogOptions, entries: Iterable[Entry], out: TextIO) -> None:
    colours, width = Colours(out), terminal_width(out)
    for entry in entries:
        text = (
            printable_json(entry_line(entry).decode())
            if options.is_json
            else _entry_text(entry, colours, width)
        )
        print_line(out, text)


def _entry_text(entry: Entry, colours: Colours, width: int) -> str:
    """Return a record as one line, cut to a width; 0 for no limit."""
    name = f"{entry.kind_name}*" if entry.is_copy else entry.kind_name
    head = f"{date_time(entry.at)}  {entry.offset!s:<8} {name:<10}"
    rest = truncate(printable(_details(entry)), max(width - len(head) - 2, 10) if width else 0)
    kind = "" if entry.message is None else entry.message.kind
    return f"{colours(head, KIND_COLOURS.get(kind, 'dim'))}  {rest}".rstrip()


def _details(entry: Entry) -> str:
    """Return what a record says, on one line."""
    message = "" if entry.message is None else _message_text(entry.message)
    match entry.content:
        case Boot(version=version, pid=pid):
            return f"bandstand {version}, pid {pid}"
        case Checkpoint(next_number=number, read_from=page):
            return f"next request {number}, needs pages from {page or entry.offset.page}"
        case TimerEntry(due=due):
            return f"due {date_time(due)}  {message}"
        case DeadEntry(reason=reason):
            return f"{reason}  {message}"
        case EventHead(entity=name, key=key, version=version):
            return f"{name} {key} version {version}  {message}"
        case DataEntry(owner=owner, data=data):
            return f"{owner}  {_data_text(owner, data)}"
        case None:
            pass
    if message:
        marks = [text for flag, text in _marks(entry).items() if entry.flags & flag]
        return f"{'  '.join(marks)}  {message}" if marks else message
    if entry.numbers:
        return f"request{'' if len(entry.numbers) == 1 else 's'} {', '.join(map(str, entry.numbers))}"
    return entry.ended or f"{len(entry.data)} bytes of a later version"


def _data_text(owner: str, data: Raw) -> str:
    """Return what a record of a part of the node says; its data, if this version does not know it."""
    with suppress(JournalCorruptError):
        if owner == REMINDERS:
            return describe_record(data, date_time)
    return bytes(data).decode(errors="replace")


def _marks(entry: Entry) -> dict[int, str]:
    return {IS_BEGUN: "begun"} if entry.kind == REQUEST else {IS_DOUBTFUL: "in doubt"}


def _message_text(message: Frame) -> str:
    data = bytes(message.data).decode(errors="replace")
    return f"{message.kind} {message.type}  {message.metadata.id}  {data}"


# --- lineage ----------------------------------------------------------------------------------------------------------


def _lineage(options: LogOptions, reader: JournalReader, out: TextIO, err: TextIO) -> ExitCode:
    with _opened_index(reader, err) as index, _Progress(options, reader, err) as progress:
        found = find_lineage(reader, options.id, options.limit, progress.draw, index)
    if found is None:
        err.write(f"bandstand: {printable(options.id)} is not in the journal\n")
        return ExitCode.FAILED
    if options.is_json:
        out.write(printable_json(msgspec.json.encode(found).decode()) + "\n")
    else:
        _print_lineage(found, out, err)
    return ExitCode.SUCCESS


def _print_lineage(found: Lineage, out: TextIO, err: TextIO) -> None:
    colours = Colours(out)
    start = found.ancestors[0].at if found.ancestors else found.message.at
    dim = colours("caused by", "dim")
    if found.missing:
        out.write(f"{dim} {printable(found.missing)}, which the journal does not have\n")
    out.writelines(f"{dim} {_logged_text(each, colours, start)}\n" for each in found.ancestors)
    out.write(f"{_logged_text(found.message, colours, start)}\n")
    children: dict[str, list[LoggedMessage]] = {}
    for each in found.effects:
        children.setdefault(each.causation or "", []).append(each)
    # Not recursive: a tree can be deeper than Python's stack.
    pending = _branches(children, found.message.id, "")
    while pending:
        message, prefix, is_last = pending.pop()
        out.write(f"{prefix}{'└── ' if is_last else '├── '}{_logged_text(message, colours, start)}\n")
        pending += _branches(children, message.id, prefix + ("    " if is_last else "│   "))
    if found.related:
        out.write(f"with the same correlation {printable(found.message.correlation or '')}\n")
        out.writelines(f"    {_logged_text(each, colours, start)}\n" for each in found.related)
    if not found.complete:
        err.write("bandstand: there are more messages: pass a greater --limit\n")


def _branches(
    children: dict[str, list[LoggedMessage]], name: str, prefix: str
) -> list[tuple[LoggedMessage, str, bool]]:
    """Return the children of a message in reverse order: the caller takes them from the end of a list."""
    found = children.pop(name, [])
    return [(each, prefix, place == 0) for place, each in enumerate(reversed(found))]


def _logged_text(message: LoggedMessage, colours: Colours, start: int) -> str:
    name = colours(printable(f"{message.kind} {message.type}"), KIND_COLOURS[message.kind])
    after = date_time(message.at) if message.at == start else f"+{max(0, message.at - start):,} ms"
    records = ", ".join(f"{each.kind} {each.offset}" for each in message.records)
    return f"{name}  {colours(printable(message.id), 'dim')}  {after}  {colours(records, 'dim')}"


# --- the index of messages --------------------------------------------------------------------------------------------


@contextmanager
def _opened_index(reader: JournalReader, err: TextIO) -> Generator[MessageIndex | None]:
    """Yield the index of the messages; None if there is none, or if it cannot be used, which is reported."""

    def report(error: JournalError) -> None:
        print_line(
            err,
            f"bandstand: the index is not used: {printable(str(error))}: run `bandstand log index --rebuild`",
        )

    index = None
    try:
        if MessageIndex.exists(reader.directory):
            index = MessageIndex(reader, report)
    except JournalError as error:
        report(error)
    if index is None:
        yield None
        return
    with index:
        if index.lag:
            text = "1 page is" if index.lag == 1 else f"{index.lag:,} pages are"
            print_line(
                err, f"bandstand: {text} not in the index, and read in full: run `bandstand log index`"
            )
        yield index


def _index(options: LogOptions, reader: JournalReader, out: TextIO, err: TextIO) -> ExitCode:
    index = message_index(reader.directory)
    with asyncio.Runner(loop_factory=new_event_loop) as runner, _Progress(options, reader, err) as progress:
        try:
            if options.is_rebuilding:
                index.remove()
            stats = runner.run(_build(index, reader, progress))
        except JournalLockedError:
            raise JournalLockedError(
                f"another process writes the index of the journal {reader.directory}: wait until it has ended"
            ) from None
        except JournalFullError as error:
            print_line(err, f"bandstand: {printable(str(error))}")
            return ExitCode.OUTPUT
        except JournalError as error:
            # The index names the record that it cannot read, and has the reason as the cause.
            if isinstance(error.__cause__, JournalCorruptError):
                raise JournalCorruptError(str(error)) from error
            raise
    if options.is_json:
        out.write(json.dumps({"page": stats.page, "lag": stats.lag, "added": stats.added}) + "\n")
    else:
        lag = f", {stats.lag:,} pages behind the journal" if stats.lag else ""
        out.write(f"indexed up to page {stats.page:,}{lag}; {stats.added:,} entries were added\n")
    return ExitCode.SUCCESS


async def _build(index: JournalIndex, reader: JournalReader, progress: _Progress) -> JournalIndexStats:
    """Bring an index up to date with what is durable now."""
    async with index:
        last = reader.last
        # Without pages there is nothing to wait for.
        while reader.first <= last and (page := index.stats().page) < last:
            progress.draw_number(page)
            await index.reached(page + 1)
        progress.draw_number(index.stats().page)
        return index.stats()


# --- verify and replay ------------------------------------------------------------------------------------------------


def _verify(options: LogOptions, reader: JournalReader, out: TextIO, err: TextIO) -> ExitCode:
    content, damage = Content(), None
    with _Progress(options, reader, err) as progress:
        try:
            for page in count_content(reader.pages(), content):
                progress.draw(page)
        except JournalCorruptError as error:
            damage = error
    if options.is_json:
        where = damage and {"page": damage.page, "record": damage.record, "message": str(damage)}
        report = {"sound": damage is None, "damage": where, **msgspec.to_builtins(content)}
        out.write(printable_json(json.dumps(report)) + "\n")
    else:
        _print_content(content, out)
    if damage is not None:
        err.write(f"bandstand: {printable(str(damage))}\n")
        return ExitCode.DAMAGED
    if not options.is_json:
        out.write(f"{Colours(out)('sound', 'green')}: every page and every record can be read\n")
    return ExitCode.SUCCESS


def _print_content(content: Content, out: TextIO) -> None:
    if content.first is None or content.since is None or content.until is None:
        out.write("no pages\n")
        return
    out.write(
        f"pages {content.first:,} to {content.last:,}, {date_time(content.since)} to {date_time(content.until)}\n"
        f"{content.records:,} records, {_size(content.bytes)}\n"
    )
    rows = [
        (f"  {name}", f"{count:,}")
        for name, count in sorted(content.kinds.items(), key=lambda pair: -pair[1])
    ]
    if content.copies:
        rows.append(("  copies in checkpoints", f"{content.copies:,}"))
    out.write(format_table(rows) + "\n")
    if content.unknown:
        out.write(f"records of a later version: {content.unknown:,}\n")


def _replay(options: LogOptions, reader: JournalReader, out: TextIO, err: TextIO) -> ExitCode:
    with _Progress(options, reader, err) as progress:

        def pages() -> Iterator[Page]:
            for page in reader.pages():
                yield page
                progress.draw(page)

        found = check_replay(pages())
    if options.is_json:
        out.write(printable_json(msgspec.json.encode(found).decode()) + "\n")
    else:
        _print_replayed(found, out)
    for each in found.disagreements:
        err.write(f"bandstand: the checkpoint in page {each.page} is wrong: {printable(each.differences[0])}")
        err.write(f"; and {len(each.differences) - 1} more\n" if len(each.differences) > 1 else "\n")
    return ExitCode.FAILED if found.disagreements and options.is_checking else ExitCode.SUCCESS


def _print_replayed(found: ReplayReport, out: TextIO) -> None:
    newest = "" if found.newest_checkpoint is None else f", the newest in page {found.newest_checkpoint:,}"
    out.write(
        f"pages: {found.pages:,}; records: {found.records:,}; starts: {found.starts:,}\n"
        f"checkpoints: {found.checkpoints:,}{newest}; compared: {found.compared:,}; wrong: {len(found.disagreements):,}\n"
        f"a start of the node finds\n"
    )
    rows = [
        ("  requests", found.open),
        ("    that may have begun", found.begun),
        ("  in doubt", found.doubtful),
        ("  timers", found.timers),
        ("  dead letters", found.dead),
    ]
    out.write(format_table([(name, f"{len(ids):,}", _listed(ids)) for name, ids in rows]) + "\n")


def _listed(ids: list[str]) -> str:
    more = f" and {len(ids) - _LISTED:,} more" if len(ids) > _LISTED else ""
    return printable(" ".join(ids[:_LISTED])) + more


# --- export and compact -----------------------------------------------------------------------------------------------


def _export(options: LogOptions, reader: JournalReader, out: TextIO, err: TextIO) -> ExitCode:
    path = _free_file(options)
    first, last = _range(options, reader)
    with _Progress(options, reader, err) as progress:
        pages = takewhile(lambda page: last is None or page.number <= last, reader.pages(first))
        done = export(path, pages, options.where, progress.draw)
    if options.is_json:
        report = {"file": str(path), "pages": done.pages, "records": done.records}
        out.write(printable_json(json.dumps(report)) + "\n")
    else:
        out.write(f"{done.records:,} records of {done.pages:,} pages are in {printable(str(path))}\n")
    return ExitCode.SUCCESS


def _free_file(options: LogOptions) -> Path:
    path = Path(options.file)
    if path.exists() and not options.is_replacing:
        raise InvalidArgumentError(f"{path} exists: choose another file, or pass --force")
    if not path.parent.is_dir():
        raise InvalidArgumentError(f"there is no directory {path.parent} for {path.name}")
    return path


def _range(options: LogOptions, reader: JournalReader) -> tuple[int, int | None]:
    """Return the first and the last page to export."""
    if options.pages is None:
        return 0, None
    first, last = options.pages
    begin, end = reader.first, reader.last
    if first < begin or first > end or (last is not None and last > end):
        raise InvalidArgumentError(f"--pages: the journal has the pages {begin} to {end}")
    return first, last


@final
@dataclass(frozen=True, slots=True)
class _Plan:
    """What `compact` deletes."""

    pages: list[PageSummary]
    needed: int
    """The first page that the node needs; 0 if there is no checkpoint."""
    owned: int
    """The first page that only a part of the node can give up; 0 if there is none."""
    first_kept: int

    @property
    def deleted(self) -> list[PageSummary]:
        return [page for page in self.pages if page.number < self.first_kept]


def _compact(options: LogOptions, out: TextIO, err: TextIO, now: Callable[[], float]) -> ExitCode:
    path = _free_file(options) if options.file else None
    # Opened for reading first: opened for writing, a journal that does not exist is created.
    with JournalReader(options.journal) as reader:
        if options.is_trial:
            return _report_compact(options, _plan(options, reader, err, now), None, out)
        return _delete(options, path, reader, out, err, now)


def _delete(
    options: LogOptions,
    path: Path | None,
    reader: JournalReader,
    out: TextIO,
    err: TextIO,
    now: Callable[[], float],
) -> ExitCode:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        journal = Journal(options.journal)
        try:
            runner.run(journal.open())
        except JournalLockedError as error:
            raise JournalLockedError(
                f"{safe_str(error)}. A node that runs deletes old pages itself; `compact` needs the journal of a node that is stopped"
            ) from None
        # The journal is locked from here on, so that no node starts. What follows is not on the event loop: Ctrl-C ends it at once.
        try:
            plan = _plan(options, reader, err, now)
            exported = None
            with _Progress(options, reader, err) as progress:
                if path is not None:
                    pages = takewhile(lambda page: page.number < plan.first_kept, reader.pages())
                    exported = export(path, pages, on_page=progress.draw)
            for before in slices(plan.pages, plan.first_kept):
                runner.run(journal.delete_before(before))
        finally:
            runner.run(journal.close())
    return _report_compact(options, plan, exported, out)


def _plan(options: LogOptions, reader: JournalReader, err: TextIO, now: Callable[[], float]) -> _Plan:
    """Read the whole journal, which checks it too, and decide what to delete."""
    pages: list[PageSummary] = []
    needed = owned = 0
    with _Progress(options, reader, err) as progress:
        for page in reader.pages():
            pages.append(summary_of(page))
            if not owned and has_owned_records(page):
                owned = page.number
            for record in page.records:
                if record.kind == CHECKPOINT:
                    needed = needed_from(page.number, read_json(CHECKPOINT, record.data, Checkpoint))
            progress.draw(page)
    first_needed = min(needed, owned) if owned else needed
    first_kept = options.retention.first_kept(pages, first_needed, int(now() * 1000))
    return _Plan(pages, needed, owned, first_kept)


def _report_compact(options: LogOptions, plan: _Plan, exported: Exported | None, out: TextIO) -> ExitCode:
    deleted = plan.deleted
    kept = plan.pages[len(deleted) :]
    freed, left = (sum(page.size for page in pages) for pages in (deleted, kept))
    if options.is_json:
        report = {
            "deleted": len(deleted),
            "deletedBytes": freed,
            "first": kept[0].number if kept else None,
            "kept": len(kept),
            "keptBytes": left,
            "needed": plan.needed or None,
            "owned": plan.owned or None,
            "exported": None if exported is None else exported.records,
            "trial": options.is_trial,
        }
        out.write(json.dumps(report) + "\n")
        return ExitCode.SUCCESS
    if not plan.needed:
        out.write("there is no checkpoint, so every page is needed to start the node\n")
    elif plan.owned and plan.owned == plan.first_kept < plan.needed:
        out.write(
            f"page {plan.owned:,} has events of entities or records of a later version, which only the node deletes\n"
        )
    if exported is not None:
        out.write(f"{exported.records:,} records are in {printable(options.file)}\n")
    if deleted:
        verb = "would delete" if options.is_trial else "deleted"
        pages = f"pages {deleted[0].number:,} to {deleted[-1].number:,}"
        out.write(f"{verb} {pages}, {_size(freed)}; the space is used again\n")
    else:
        out.write("nothing to delete\n")
    if kept:
        out.write(f"kept pages {kept[0].number:,} to {kept[-1].number:,}, {_size(left)}\n")
    return ExitCode.SUCCESS


def _size(count: float) -> str:
    """Return a number of bytes as text with a suitable unit."""
    units = ["bytes", "kB", "MB", "GB"]
    while count >= 10_000 and len(units) > 1:
        count /= 1000
        del units[0]
    return f"{count:,.0f} {units[0]}"


_READING: Final[dict[str, Callable[[LogOptions, JournalReader, TextIO, TextIO], ExitCode]]] = {
    "find": _find,
    "lineage": _lineage,
    "index": _index,
    "verify": _verify,
    "replay": _replay,
    "export": _export,
}
