"""What a command goes by: flags before variables, variables before the file, the file before what is usual.

The file is the one that `--config` or `$BANDSTAND_CONFIG` names, else `bandstand.toml` in the working directory, if there is one. A key that
nobody knows is an error: a setting that is misspelt would else be one that does nothing.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, NoReturn, TypeVar, cast, final

from bandstand.bus import Limits, NodeConfig
from bandstand.bus.client.address import Address, default_address
from bandstand.cli.keys import KEYS, SECTIONS, Key, Setting
from bandstand.cli.target import Target
from bandstand.errors import InvalidArgument

__all__ = ("FILE", "Settings", "Value", "read_settings")

T = TypeVar("T")

FILE = "bandstand.toml"
"""What is looked for in the working directory."""


@final
@dataclass(frozen=True, slots=True)
class Value:
    """A setting, and where it comes from."""

    value: Setting
    source: Literal["flag", "variable", "file", "default"]
    where: str = ""
    """The flag, the variable or the file."""

    def __str__(self) -> str:
        return f"{self.source} {self.where}".rstrip()


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set, as it is."""

    values: Mapping[str, Value]
    file: str = ""
    """The file that was read; empty if there is none."""
    is_found: bool = False
    """Whether nobody has named the file, and it lay there."""

    def target(self) -> Target:
        """Which node a command asks.

        Raises:
            InvalidArgument: the address is none, or a token would go where nobody has said that it should.
        """
        address, token = self.values["address"], self.values["token_file"]
        has_token = bool(token.value) or bool(os.environ.get("BANDSTAND_TOKEN"))
        if self.is_found and address.source == "file" and has_token and token.source != "file":
            raise InvalidArgument(
                f"the address comes from {self.file}, which lies here, and the token does not: it might go to anybody. Say --to {address.value}, "
                f"or --config {self.file}, if it is to go there"
            )
        timeout = cast("int", self.values["timeout_ms"].value)
        return Target(address=self.address(), timeout_ms=timeout, token_file=str(token.value or ""))

    def address(self) -> Address:
        """Where the node is, or is to listen.

        Raises:
            InvalidArgument: it is no address; says who has said so.
        """
        found = self.values["address"]
        try:
            return Address.parse(str(found.value))
        except InvalidArgument as error:
            if found.source == "flag":
                raise
            at = found.where if found.source == "variable" else f"{found.where}: address"
            raise InvalidArgument(f"{at}: {error}") from None

    def serving_token_file(self) -> str | None:
        """The file with the token that clients of a node have to show; None for none.

        One that is set for good is for whoever is asked over TCP: it does not keep a node from serving a Unix socket. One that
        is given with this very command is told so, if it cannot have meant anything.
        """
        found = self.values["token_file"]
        is_tcp = bool(self.values["serve.tcp"].value) or (
            not self.values["serve.unix"].value and bool(self.address().host)
        )
        return str(found.value) if found.value and (is_tcp or found.source == "flag") else None

    def node_config(self) -> NodeConfig:
        """The limits of a node.

        Raises:
            InvalidArgument: one of them makes no sense.
        """
        # Any of its fields: what a field may be, its class checks.
        return NodeConfig(**self._section("node"))  # type: ignore[arg-type]

    def limits(self) -> Limits:
        """The limits of each client.

        Raises:
            InvalidArgument: one of them makes no sense.
        """
        return Limits(**self._section("limits"))  # type: ignore[arg-type]

    def check(self) -> None:
        """See that all of it makes sense.

        Raises:
            InvalidArgument: something of it does not.
        """
        self.address()
        self.node_config()
        self.limits()

    def _section(self, name: str) -> dict[str, Setting]:
        return {
            key.partition(".")[2]: found.value
            for key, found in self.values.items()
            if key.startswith(f"{name}.") and found.source != "default"
        }


def read_settings(
    flags: Mapping[str, Setting], config: str | None = None, environment: Mapping[str, str] | None = None
) -> Settings:
    """Put together what was said.

    Args:
        flags: what was said on the command line, by the names of keys.
        config: the file that was named there.
        environment: the process's own if None.

    Raises:
        InvalidArgument: a key is unknown, or a value not of its kind, or the file cannot be read; says where.
    """
    known = os.environ if environment is None else environment
    named = config or known.get("BANDSTAND_CONFIG") or ""
    path = named or (FILE if Path(FILE).is_file() else "")
    said = _read_file(path) if path else {}
    _refuse_unknown_variables(known)
    values = {name: _value(key, flags, known, said, path) for name, key in KEYS.items()}
    return Settings(values, path, is_found=bool(path) and not named)


def _value(
    key: Key,
    flags: Mapping[str, Setting],
    environment: Mapping[str, str],
    said: Mapping[str, object],
    path: str,
) -> Value:
    if (given := flags.get(key.name)) is not None:
        return Value(given, "flag", key.flag)
    if text := environment.get(key.variable):
        return Value(_tried(key.variable, key.read, text), "variable", key.variable)
    if key.name in said:
        return Value(_tried(f"{path}: {key.name}", key.check, said[key.name]), "file", path)
    if key.name == "address":
        usual = {name: value for name, value in environment.items() if name != key.variable}
        return Value(str(default_address(usual)), "default")
    return Value(key.default, "default")


def _tried(where: str, read: Callable[[T], Setting], value: T) -> Setting:
    try:
        return read(value)
    except InvalidArgument as error:
        raise InvalidArgument(f"{where}: {error}") from None


def _read_file(path: str) -> dict[str, object]:
    try:
        with Path(path).open("rb") as file:
            tree = tomllib.load(file)
    except OSError as error:
        raise InvalidArgument(f"the configuration {path} cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"the configuration {path} is no TOML: {error}") from None
    said: dict[str, object] = {}
    for name, value in tree.items():
        if name in SECTIONS and isinstance(value, dict):
            said.update({f"{name}.{inner}": each for inner, each in cast("dict[str, object]", value).items()})
        else:
            said[name] = value
    for name in said:
        if name not in KEYS:
            refuse_unknown(name, path, KEYS)
    return said


def _refuse_unknown_variables(environment: Mapping[str, str]) -> None:
    variables = {key.variable for key in KEYS.values()}
    prefixes = tuple(f"BANDSTAND_{section.upper()}_" for section in SECTIONS)
    for name in environment:
        # Others that begin so are not ours to judge.
        if name.startswith(prefixes) and name not in variables:
            refuse_unknown(name, "the environment", variables)


def refuse_unknown(name: str, where: str, known: Iterable[str]) -> NoReturn:
    """Say that there is no such setting, and which is the nearest."""
    near = get_close_matches(name, list(known), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else "`bandstand config` lists all there are"
    raise InvalidArgument(f"{where}: there is no setting {name}; {hint}")
