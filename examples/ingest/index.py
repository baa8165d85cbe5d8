"""The index: which blocks a series has. It is made from the files, so a new incarnation knows what the last one knew."""

from __future__ import annotations

from pathlib import Path

from bandstand import Actor, ask, data
from examples.ingest.recover import blocks_of, read_whole


class Index(Actor):
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._blocks: dict[str, tuple[int, int]] = {}

    def on_start(self) -> None:
        self.refresh_all()

    def refresh_all(self) -> None:
        self._blocks.clear()
        if self._folder.is_dir():
            for _first, _last, path in blocks_of(self._folder):
                self._note(path)

    def _note(self, path: Path) -> None:
        points = read_whole(path)
        self._blocks[path.name] = (points[0].number, points[-1].number)

    @data
    def note(self, path: Path) -> None:
        """A block was made."""
        if path.exists():
            self._note(path)

    @data
    def forget(self) -> None:
        """Blocks were removed."""
        self.refresh_all()

    @ask
    def holding(self, number: int) -> list[str]:
        """The blocks in which a point is."""
        return [name for name, (first, last) in self._blocks.items() if first <= number <= last]
