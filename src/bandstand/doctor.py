"""What `bandstand doctor` reports: what is installed, how it runs, and what is wrong with it."""

from __future__ import annotations

import platform
import sys
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from bandstand import __version__, _build_mode
from bandstand.errors.formatting import describe_exception
from bandstand.journal.engine import has_wal_reset_bug, journal_engine

__all__ = ("EXTRAS", "Diagnosis", "diagnose", "render")

EXTRAS: Final = {"fast": ("uvloop",), "sqlite": ("apsw",)}
"""Each optional extra with the distributions that it installs."""


_WAL_RESET_BUG: Final = ", which has the WAL-reset bug: it cannot harm a journal, which has one writing connection; [sqlite] installs a newer version"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The state of this installation. `problems` is empty if it is sound; each problem says what to do."""

    version: str
    mode: _build_mode.Mode
    compiled: tuple[str, ...]
    interpreted: tuple[str, ...]
    stale: tuple[str, ...]
    event_loop: str
    journal: str
    """The SQLite that journals use."""
    has_wal_reset_bug: bool
    """Whether that version of SQLite can lose a transaction if two connections write. A journal has one."""
    python: str
    platform: str
    extras: dict[str, dict[str, str | None]]
    problems: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """Whether there are no problems. Running interpreted is slow, but not a problem."""
        return not self.problems

    def as_dict(self) -> dict[str, object]:
        """Return the diagnosis as plain data, for `--json`."""
        return {"ok": self.is_sound, **asdict(self)}


def diagnose() -> Diagnosis:
    """Inspect this installation."""
    compiled = _build_mode.compiled_modules()
    stale = tuple(sorted(_build_mode.stale_modules()))
    extras = {extra: {name: _version(name) for name in names} for extra, names in EXTRAS.items()}
    uvloop = extras["fast"]["uvloop"]
    running = _build_mode.mode()
    engine = journal_engine()
    return Diagnosis(
        version=__version__,
        mode=running,
        compiled=tuple(sorted(compiled)),
        interpreted=tuple(sorted(_build_mode.modules_with_pxd() - compiled)),
        stale=stale,
        event_loop=f"uvloop {uvloop}" if uvloop else "asyncio",
        journal=engine.describe,
        has_wal_reset_bug=has_wal_reset_bug(engine.version),
        python=f"{platform.python_implementation()} {platform.python_version()} ({sys.executable})",
        platform=platform.platform(),
        extras=extras,
        problems=(*_build_problems(running, stale), *_import_problems()),
    )


def render(diagnosis: Diagnosis) -> str:
    """Return a diagnosis as text for a terminal."""
    note = ": same behaviour, several times slower than compiled" if diagnosis.mode == "interpreted" else ""
    rows = [
        ("bandstand", diagnosis.version),
        ("mode", f"{diagnosis.mode}{note}"),
        ("compiled", _compiled(diagnosis)),
        ("event loop", diagnosis.event_loop),
        ("journal", f"{diagnosis.journal}{_WAL_RESET_BUG if diagnosis.has_wal_reset_bug else ''}"),
        ("python", diagnosis.python),
        ("platform", diagnosis.platform),
    ]
    for extra, parts in diagnosis.extras.items():
        found = ", ".join(
            f"{name} {number}" if number else f"{name} not installed" for name, number in parts.items()
        )
        rows.append((f"[{extra}]", found))
    lines = [f"{label:<12} {value}" for label, value in rows]
    lines += [f"\nproblem: {problem}" for problem in diagnosis.problems] or ["\nNo problems found."]
    return "\n".join(lines)


def _build_problems(running: _build_mode.Mode, stale: tuple[str, ...]) -> list[str]:
    problems: list[str] = []
    if running == "mixed":
        problems.append(
            "some modules run compiled and some interpreted. Build again "
            "(BANDSTAND_BUILD=need pip install --force-reinstall ., or make run in a checkout)."
        )
    if stale:
        problems.append(
            f"{_join(stale)}: compiled from other sources than those installed. Build again "
            "(make run in a checkout), or set BANDSTAND_PURE=1 to run the sources."
        )
    return problems


def _import_problems() -> list[str]:
    """Return a sentence for the first module that cannot be imported, such as an extension for another system."""
    for name in sorted(_build_mode.modules_with_pxd()):
        try:
            import_module(name)
        except Exception as error:  # noqa: BLE001  # whatever is wrong with it is what the user wants to know
            return [
                f"{_join((name,))} cannot be imported: {describe_exception(error)}. Install bandstand again."
            ]
    return []


def _compiled(diagnosis: Diagnosis) -> str:
    """Return how many modules run compiled, with the names of the interpreted ones if the modes are mixed."""
    total = len(diagnosis.compiled) + len(diagnosis.interpreted)
    if diagnosis.compiled and diagnosis.interpreted:
        return f"{len(diagnosis.compiled)} of {total} modules; interpreted: {_join(diagnosis.interpreted)}"
    return f"{'all' if diagnosis.compiled else 'none'} of {total} modules"


def _join(names: tuple[str, ...]) -> str:
    return ", ".join(name.removeprefix("bandstand.") for name in names)


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
