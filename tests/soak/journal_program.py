"""The node of a journal run, `python -m tests.soak.journal_program FOLDER BYTES`, which keeps that many bytes of its journal: its commands write every kind of record, and nothing here grows."""

from __future__ import annotations

import sys

from bandstand.bus import Capability, Command, Event, NodeConfig, Service, UnixAdapter, serve
from bandstand.errors import RefusedError
from tests.soak.checks import IntentionalError
from tests.soak.node_program import RESTARTS


class Count(Command[int], type="Counter.Count"):
    """Answers with its number; some refuse, fail, emit an event, or send a command at once or later."""

    number: int


class Note(Command[None], type="Listener.Note"):
    """Is sent by `Count`."""

    number: int


class Counted(Event, type="Counter.Counted"):
    """Is emitted by `Count`."""

    number: int


class Counter(Capability):
    """Counts."""

    restarts = RESTARTS
    outbound = Note | Counted
    mailbox = 8192

    def count(self, msg: Count) -> int:
        number = msg.number
        if number % 10 == 1:
            self.bus.emit(Counted(number))
        if number % 20 == 2:
            self.bus.send(Note(number))
        if number % 50 == 3:
            self.bus.send_later(Note(number), 0.01)
        if number % 100 == 4:
            raise RefusedError("on purpose")
        if number % 5000 == 5:
            raise IntentionalError
        return number


class Listener(Capability):
    """Hears and takes what `Count` sends."""

    mailbox = 8192

    def note(self, _msg: Note) -> None: ...

    def on_counted(self, _msg: Counted) -> None: ...


def main() -> int:
    folder, keep_bytes = sys.argv[1], int(sys.argv[2])
    service = Service(
        load=lambda: [Counter, Listener],
        adapters=[UnixAdapter(f"{folder}/bus.sock")],
        config=NodeConfig(journal_keep_bytes=keep_bytes),
        journal=f"{folder}/journal",
    )
    return serve(service, sys.stdout, sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
