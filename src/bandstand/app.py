"""Puts together what `bandstand serve` runs: a node, its capabilities, and the adapters that it listens on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TextIO, TypeAlias

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
from bandstand.bus.client.config import Address, default_address, parse_int
from bandstand.bus.serving import suggest_commands
from bandstand.errors import ContractError, InvalidArgumentError
from bandstand.errors.formatting import safe_repr
from bandstand.isolation import isolated
from bandstand.streams import CannotWrite

__all__ = ("ServeOptions", "run_node")

_Source: TypeAlias = type[Capability] | Provision | Contract


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The options of `bandstand serve`."""

    target: str | None = None
    """The module with the capabilities, such as `examples/orders.py`; None for `Memory` alone."""
    unix: str | None = None
    """The path of a Unix socket to listen on."""
    tcp: str | None = None
    """HOST:PORT to listen on, or only PORT."""
    isolated: tuple[str, ...] = ()
    """The ids of the capabilities that run in separate processes."""
    journal: str | None = None
    """The directory of the node's journal; None for no journal."""
    address: Address | None = None
    """The address to listen on if neither `unix` nor `tcp` is given; None for the default one."""
    config: NodeConfig | None = None
    """The configuration of the node; None for the default one."""
    limits: Limits | None = None
    """The limits of each client; None for the default ones."""
    is_public: bool = False
    """Whether programs on other machines can connect; this requires a token."""
    token_file: str | None = None
    """The file with the token that TCP clients must send; None for no token."""
    is_batch: bool = False
    """Whether to read messages from standard input, and to exit when all are handled."""
    is_json: bool = False
    """Whether to print only JSON, and no text for people."""
    program: str = "bandstand"
    """The name of the command, for the examples that are printed."""


def run_node(options: ServeOptions, out: TextIO, err: TextIO) -> int:
    """Run a node on this thread until it is stopped, and return the exit code.

    Raises:
        InvalidArgumentError: an address in the options is invalid.
        CannotWrite: in batch mode, replies could not be written.
    """
    default = _default_address(options)
    adapters = _adapters(options, default)

    def load() -> list[_Source]:
        if default is not None:
            # Here and not earlier: if this fails, it is reported as a failed boot.
            default.prepare()
        return _isolate(_load(options.target), options.isolated)

    def advice(summary: BootSummary) -> str:
        return suggest_commands(summary, options.program, options.token_file, is_default=default is not None)

    quiet = options.is_json or options.is_batch
    service = Service(
        load=load,
        adapters=adapters,
        config=options.config,
        journal=options.journal,
        is_batch=options.is_batch,
        advice=None if quiet else advice,
        is_quiet=options.is_json,
    )
    # On a terminal, no program reads the JSON lines.
    is_terminal = out.isatty() and not quiet
    code = serve(service, None if is_terminal else out, err)
    for adapter in adapters:
        if isinstance(adapter, PipeAdapter) and adapter.write_error is not None:
            raise CannotWrite.because(adapter.write_error)
    return code


def _default_address(options: ServeOptions) -> Address | None:
    """Return the address to listen on if the options name none; None if they do."""
    is_given = options.unix is not None or options.tcp is not None or options.is_batch
    return None if is_given else options.address or default_address()


def _adapters(options: ServeOptions, default: Address | None) -> Sequence[Adapter]:
    limits = options.limits
    found: list[Adapter] = [PipeAdapter(limits=limits)] if options.is_batch else []
    if options.unix is not None:
        found.append(UnixAdapter(options.unix, limits=limits))
    if options.tcp is not None:
        host, _, port = options.tcp.rpartition(":")
        found.append(_tcp(host.strip("[]") or "127.0.0.1", port, options))
    if default is not None and default.path:
        found.append(UnixAdapter(default.path, limits=limits))
    elif default is not None:
        found.append(_tcp(default.host, str(default.port), options))
    if options.token_file is not None and not any(isinstance(each, TcpAdapter) for each in found):
        raise InvalidArgumentError(
            "--token-file is only for TCP clients: pass --tcp HOST:PORT as well, or leave it out"
        )
    return found


def _tcp(host: str, port: str, options: ServeOptions) -> Adapter:
    number = parse_int(port, 0, 65535)
    if number is None:
        raise InvalidArgumentError(
            f"{safe_repr(port)} is not a port: pass HOST:PORT such as 127.0.0.1:7777, or only a PORT from 0 to 65535"
        )
    token = None if options.token_file is None else Token.read(options.token_file)
    try:
        return TcpAdapter(host, number, limits=options.limits, is_public=options.is_public, token=token)
    except InvalidArgumentError as error:
        # The text names arguments; the user typed options.
        text = str(error).replace("is_public=True and a token", "--public and --token-file FILE")
        raise InvalidArgumentError(
            text.replace("token=..., of 16 characters or more,", "--token-file FILE,")
        ) from None


def _load(target: str | None) -> list[_Source]:
    loaded = [] if target is None else load_capabilities(target)
    has_memory = any(_id_of(each) == Memory.__name__ for each in loaded)
    return loaded if has_memory else [Memory, *loaded]


def _isolate(sources: list[_Source], wanted: Sequence[str]) -> list[_Source]:
    """Return the capabilities, with the wanted ones in separate processes."""
    known = [_id_of(source) for source in sources]
    for name in wanted:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            raise ContractError(f"there is no capability {name!r} to isolate; {hint}")
    return [isolated(source) if _id_of(source) in wanted else source for source in sources]


def _id_of(source: _Source) -> str:
    if isinstance(source, Contract):
        return source.id
    kind = source.kind if isinstance(source, Provision) else source
    return kind.id or kind.__name__
