"""The composition root: the only file that knows every room.

It knows what `bandstand doctor` reports: what is installed here, how it runs, and whether that is sound. And it puts together what
`bandstand serve` runs: a node, what it can do, and where it listens.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version
from typing import Final, TextIO, TypeAlias

from bandstand import __version__, _build_mode
from bandstand.bus import (
    Adapter,
    BootSummary,
    Capability,
    Contract,
    Limits,
    Memory,
    NodeConfig,
    PipeAdapter,
    Provision,
    Service,
    TcpAdapter,
    Token,
    UnixAdapter,
    load_capabilities,
    serve,
)
from bandstand.bus.advice import advise
from bandstand.bus.client.address import Address, default_address, whole_number
from bandstand.errors import BadContract, InvalidArgument
from bandstand.errors.formatting import safe_repr
from bandstand.isolation import isolated
from bandstand.streams import CannotWrite

__all__ = ("EXTRAS", "Diagnosis", "Serving", "diagnose", "render", "run_node")

_Source: TypeAlias = type[Capability] | Provision | Contract

EXTRAS: Final = {"fast": ("uvloop",)}
"""Each optional extra with the distributions it brings."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What the doctor saw. `problems` is empty when all is well; each one says what to do."""

    version: str
    mode: _build_mode.Mode
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
    compiled = _build_mode.compiled_modules()
    stale = tuple(sorted(_build_mode.stale_modules()))
    extras = {extra: {name: _version(name) for name in names} for extra, names in EXTRAS.items()}
    uvloop = extras["fast"]["uvloop"]
    running = _build_mode.mode()
    return Diagnosis(
        version=__version__,
        mode=running,
        compiled=tuple(sorted(compiled)),
        interpreted=tuple(sorted(_build_mode.modules_with_pxd() - compiled)),
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
        ("compiled", _compiled(seen)),
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


def _problems(running: _build_mode.Mode, stale: tuple[str, ...]) -> tuple[str, ...]:
    problems: list[str] = []
    if running == "mixed":
        problems.append(
            "some modules run compiled and some interpreted. Build them again "
            "(BANDSTAND_BUILD=need pip install --force-reinstall ., or make run in a checkout)."
        )
    if stale:
        problems.append(
            f"{_join(stale)}: compiled from other sources than those installed. Build again "
            "(make run in a checkout), or set BANDSTAND_PURE=1 to run the sources."
        )
    return tuple(problems)


def _compiled(seen: Diagnosis) -> str:
    """Return how many modules run compiled, with the names of the interpreted ones if the modes are mixed."""
    total = len(seen.compiled) + len(seen.interpreted)
    if seen.compiled and seen.interpreted:
        return f"{len(seen.compiled)} of {total} modules; interpreted: {_join(seen.interpreted)}"
    return f"{'all' if seen.compiled else 'none'} of {total} modules"


def _join(names: tuple[str, ...]) -> str:
    return ", ".join(name.removeprefix("bandstand.") for name in names)


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


# --- a node -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A node, as a command line asks for it."""

    target: str | None = None
    """Where its capabilities are, as `examples/orders.py`; None for `Memory` alone."""
    unix: str | None = None
    """The path of a Unix socket to listen at."""
    tcp: str | None = None
    """HOST:PORT to listen at, or only PORT."""
    isolated: tuple[str, ...] = ()
    """The capabilities that run in processes of their own, by their ids."""
    address: Address | None = None
    """Where to listen if neither is given; None for the usual place."""
    config: NodeConfig | None = None
    """The limits of the node; None for the usual ones."""
    limits: Limits | None = None
    """The limits of each client; None for the usual ones."""
    is_public: bool = False
    """Whether programs on other machines may connect; needs a token."""
    token_file: str | None = None
    """The file with the token that clients over TCP have to show; None for none."""
    is_batch: bool = False
    """Whether to read messages from standard input, and to end when all is done."""
    is_json: bool = False
    """Whether to say nothing to people."""
    program: str = "bandstand"
    """What the command is called here, for the lines to try."""


def run_node(serving: Serving, out: TextIO, err: TextIO) -> int:
    """Run a node on this thread until it is told to stop; the exit code.

    Raises:
        InvalidArgument: it cannot listen where it was told to, whatever is there.
        CannotWrite: in batch mode, answers could not be written.
    """
    default = _default(serving)
    adapters = _adapters(serving, default)

    def load() -> list[_Source]:
        if default is not None:
            # Here, and not before: if it cannot be made, that is a boot that has failed.
            default.prepare()
        return _isolate(_load(serving.target), serving.isolated)

    def advice(summary: BootSummary) -> str:
        return advise(summary, serving.program, serving.token_file, is_default=default is not None)

    quiet = serving.is_json or serving.is_batch
    service = Service(
        load=load,
        adapters=adapters,
        config=serving.config,
        is_batch=serving.is_batch,
        advice=None if quiet else advice,
        is_quiet=serving.is_json,
    )
    # On a terminal there is no program that would read what is for programs.
    is_seen = out.isatty() and not quiet
    code = serve(service, None if is_seen else out, err)
    for adapter in adapters:
        if isinstance(adapter, PipeAdapter) and adapter.write_error is not None:
            raise CannotWrite.because(adapter.write_error)
    return code


def _default(serving: Serving) -> Address | None:
    """Where to listen if nothing is said."""
    is_told = serving.unix is not None or serving.tcp is not None or serving.is_batch
    return None if is_told else serving.address or default_address()


def _adapters(serving: Serving, default: Address | None) -> Sequence[Adapter]:
    limits = serving.limits
    found: list[Adapter] = [PipeAdapter(limits=limits)] if serving.is_batch else []
    if serving.unix is not None:
        found.append(UnixAdapter(serving.unix, limits=limits))
    if serving.tcp is not None:
        host, _, port = serving.tcp.rpartition(":")
        found.append(_tcp(host.strip("[]") or "127.0.0.1", port, serving))
    if default is not None and default.path:
        found.append(UnixAdapter(default.path, limits=limits))
    elif default is not None:
        found.append(_tcp(default.host, str(default.port), serving))
    if serving.token_file is not None and not any(isinstance(each, TcpAdapter) for each in found):
        raise InvalidArgument("--token-file is for clients over TCP: pass --tcp HOST:PORT, or leave it out")
    return found


def _tcp(host: str, port: str, serving: Serving) -> Adapter:
    number = whole_number(port, 0, 65535)
    if number is None:
        raise InvalidArgument(
            f"{safe_repr(port)} is no port: pass HOST:PORT, as 127.0.0.1:7777, or only a PORT, from 0 to 65535"
        )
    token = None if serving.token_file is None else Token.read(serving.token_file)
    try:
        return TcpAdapter(host, number, limits=serving.limits, is_public=serving.is_public, token=token)
    except InvalidArgument as error:
        # Whoever reads this types options, not arguments.
        said = str(error).replace("is_public=True and a token", "--public and --token-file FILE")
        raise InvalidArgument(
            said.replace("token=..., of 16 characters or more,", "--token-file FILE,")
        ) from None


def _load(target: str | None) -> list[_Source]:
    loaded = [] if target is None else load_capabilities(target)
    is_brought = any(_id_of(each) == Memory.__name__ for each in loaded)
    return loaded if is_brought else [Memory, *loaded]


def _isolate(sources: list[_Source], wanted: Sequence[str]) -> list[_Source]:
    """The same, some of them in processes of their own."""
    there = [_id_of(source) for source in sources]
    for name in wanted:
        if name not in there:
            near = get_close_matches(name, there, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(there)}"
            raise BadContract(f"{name!r} was to run in a process of its own, and is not there; {hint}")
    return [isolated(source) if _id_of(source) in wanted else source for source in sources]


def _id_of(source: _Source) -> str:
    if isinstance(source, Contract):
        return source.id
    kind = source.kind if isinstance(source, Provision) else source
    return kind.id or kind.__name__
