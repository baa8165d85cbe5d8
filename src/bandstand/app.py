"""The composition root: the only file that knows every room.

For now it knows what `bandstand doctor` reports: what is installed here, how it runs, and whether that is sound.
"""

import platform
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Final

# Entered for their effect: the hot modules announce themselves to bandstand.mode.
import bandstand.core  # pyright: ignore[reportUnusedImport]
import bandstand.service  # pyright: ignore[reportUnusedImport]
from bandstand import mode

__all__ = ("EXTRAS", "Diagnosis", "diagnose", "render")

EXTRAS: Final = {"fast": ("uvloop",)}
"""Each optional extra with the distributions it brings."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What the doctor saw. `problems` is empty when all is well; each one says what to do."""

    version: str
    mode: mode.Mode
    compiled: tuple[str, ...]
    interpreted: tuple[str, ...]
    stale: tuple[str, ...]
    event_loop: str
    python: str
    platform: str
    extras: dict[str, dict[str, str | None]]
    problems: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong. Running interpreted is slow, not wrong."""
        return not self.problems

    def as_dict(self) -> dict[str, object]:
        """Return the diagnosis as plain data for `--json`."""
        return {"ok": self.is_sound, **asdict(self)}


def diagnose() -> Diagnosis:
    """Look at this installation."""
    compiled = mode.compiled_modules()
    stale = tuple(sorted(mode.stale_modules()))
    extras = {extra: {name: _version(name) for name in names} for extra, names in EXTRAS.items()}
    uvloop = extras["fast"]["uvloop"]
    running = mode.mode()
    return Diagnosis(
        version=bandstand.__version__,
        mode=running,
        compiled=tuple(sorted(compiled)),
        interpreted=tuple(sorted(mode.hot_modules() - compiled)),
        stale=stale,
        event_loop=f"uvloop {uvloop}" if uvloop else "asyncio",
        python=f"{platform.python_implementation()} {platform.python_version()} ({sys.executable})",
        platform=platform.platform(),
        extras=extras,
        problems=_problems(running, stale),
    )


def render(seen: Diagnosis) -> str:
    """Write a diagnosis for a terminal."""
    rows = [
        ("bandstand", seen.version),
        ("mode", f"{seen.mode}{_REMARKS.get(seen.mode, '')}"),
        ("compiled", _join(seen.compiled)),
        ("interpreted", _join(seen.interpreted)),
        ("stale", _join(seen.stale)),
        ("event loop", seen.event_loop),
        ("python", seen.python),
        ("platform", seen.platform),
    ]
    for extra, parts in seen.extras.items():
        found = ", ".join(
            f"{name} {number}" if number else f"{name} not installed" for name, number in parts.items()
        )
        rows.append((f"[{extra}]", found))
    lines = [f"{label:<12} {value}" for label, value in rows]
    lines += [f"\nwrong: {problem}" for problem in seen.problems] or ["\nAll is well."]
    return "\n".join(lines)


_REMARKS: Final = {"interpreted": ": same behaviour, several times slower than compiled"}


def _problems(running: mode.Mode, stale: tuple[str, ...]) -> tuple[str, ...]:
    problems: list[str] = []
    if running == "mixed":
        problems.append(
            "some hot modules run compiled and some interpreted. Build them again "
            "(BANDSTAND_BUILD=need pip install --force-reinstall ., or make run in a checkout)."
        )
    if stale:
        problems.append(
            f"{_join(stale)}: compiled from other sources than those that lie beside. Build again "
            "(make run in a checkout), or set BANDSTAND_PURE=1 to run the sources."
        )
    return tuple(problems)


def _join(names: tuple[str, ...]) -> str:
    return ", ".join(name.rpartition(".")[2] for name in names) or "none"


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
