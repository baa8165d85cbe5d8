"""The settings of a command. Precedence: flag, environment variable, file, default.

The file is the one that `--config` or `$BANDSTAND_CONFIG` names, or else `bandstand.toml` in the current directory, if it exists.
An unknown key is an error: a misspelt setting would otherwise have no effect, and nothing would say so. A duration is a number of
seconds, or a text with a unit: `0.5`, `"500ms"`.

The keys of the sections `node` and `limits` are the fields of `NodeConfig` and `Limits`, so a new field can be set at once.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NoReturn, TextIO, TypeAlias, TypeVar, cast, final

from bandstand.bus import Limits, NodeConfig
from bandstand.bus.auth import Token
from bandstand.bus.client.blocking import BlockingConnection, connect_blocking
from bandstand.bus.client.config import Address, ClientConfig, default_address
from bandstand.bus.durations import parse_duration
from bandstand.cli.output import format_table, printable
from bandstand.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = (
    "FILE",
    "KEYS",
    "SECTIONS",
    "Setting",
    "SettingKey",
    "SettingValue",
    "Settings",
    "Target",
    "raise_unknown",
    "read_settings",
    "show_settings",
)

T = TypeVar("T")

SettingValue: TypeAlias = str | int | float | bool | tuple[str, ...] | None
"""The value of a setting; None if it is not set."""

FILE: Final = "bandstand.toml"
"""The name of the settings file in the current directory."""

SECTIONS: Final = ("serve", "node", "limits")
"""The tables of the settings file."""

RENAMED: Final[Mapping[str, str]] = {
    "timeout_ms": "timeout",
    "node.timeout_ms": "node.timeout",
    "node.hold_ms": "node.hold_timeout",
    "node.max_tick_ms": "node.max_tick",
    "node.stall_ms": "node.stall_timeout",
    "node.health_ms": "node.health_period",
    "node.remember_ms": "node.remember_for",
    "node.drain_ms": "node.drain_timeout",
    "node.flush_ms": "node.flush_timeout",
    "limits.handshake_ms": "limits.handshake_timeout",
    "limits.half_line_ms": "limits.line_timeout",
}
"""The keys that were in milliseconds until version 1.0, and what they are called now."""

_BOOLEANS: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False, "": False}
_KIND_NAMES: Final[Mapping[type, str]] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    tuple: "a list of strings",
}


# --- keys -------------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class SettingKey:
    """A key that can be set."""

    name: str
    """The name in the file, with its table: `node.timeout`."""
    kind: type
    """`str`, `int`, `float`, `bool`, or `tuple` for a list of strings."""
    default: SettingValue
    flag: str = ""
    variable: str = ""
    is_duration: bool = False
    """Whether it is a time in seconds, which may also be written with a unit."""

    def parse(self, text: str) -> SettingValue:
        """Parse the text of an environment variable or a flag.

        Raises:
            InvalidArgumentError: the text is not of the kind.
        """
        if self.kind is str:
            return text
        if self.is_duration:
            return parse_duration(text)
        if self.kind is tuple:
            return tuple(part.strip() for part in text.split(",") if part.strip())
        if self.kind is bool:
            if text.lower() not in _BOOLEANS:
                raise InvalidArgumentError(f"{text!r} is neither true nor false")
            return _BOOLEANS[text.lower()]
        try:
            return int(text.replace("_", "")) if self.kind is int else float(text)
        except ValueError:
            raise InvalidArgumentError(f"{text!r} is not a number") from None

    def check(self, value: object) -> SettingValue:
        """Return a value from the file.

        Raises:
            InvalidArgumentError: the value is not of the kind.
        """
        if self.is_duration and isinstance(value, str):
            return parse_duration(value)
        if self.kind is tuple and isinstance(value, list):
            items = [each for each in value if isinstance(each, str)]  # pyright: ignore[reportUnknownVariableType]
            if len(items) == len(value):  # pyright: ignore[reportUnknownArgumentType]
                return tuple(items)
        elif type(value) is self.kind or (self.kind is float and type(value) is int):
            return value  # type: ignore[return-value]  # one of those kinds
        raise InvalidArgumentError(f"{value!r} is not {_KIND_NAMES[self.kind]}")


def _field_keys(section: str, kind: type) -> list[SettingKey]:
    """Return a key for each field of a configuration class whose default is a plain value."""
    keys: list[SettingKey] = []
    for field in fields(kind):
        value: object = None if field.default is MISSING else field.default
        if isinstance(value, (bool, int, float, str)):
            variable = f"BANDSTAND_{section}_{field.name}".upper()
            is_duration = field.type == "Seconds"
            keys.append(
                SettingKey(f"{section}.{field.name}", type(value), value, "--set", variable, is_duration)
            )
    return keys


KEYS: Final[Mapping[str, SettingKey]] = {
    key.name: key
    for key in (
        SettingKey("address", str, None, "--to", "BANDSTAND_BUS"),
        SettingKey("timeout", float, 30.0, "--timeout", "BANDSTAND_TIMEOUT", is_duration=True),
        SettingKey("token_file", str, "", "--token-file", "BANDSTAND_TOKEN_FILE"),
        SettingKey("journal", str, None, "--journal", "BANDSTAND_JOURNAL"),
        SettingKey("serve.module", str, None, "MODULE", "BANDSTAND_SERVE_MODULE"),
        SettingKey("serve.unix", str, None, "--unix", "BANDSTAND_SERVE_UNIX"),
        SettingKey("serve.tcp", str, None, "--tcp", "BANDSTAND_SERVE_TCP"),
        SettingKey("serve.isolate", tuple, (), "--isolate", "BANDSTAND_SERVE_ISOLATE"),
        SettingKey("serve.public", bool, default=False, flag="--public", variable="BANDSTAND_SERVE_PUBLIC"),
        *_field_keys("node", NodeConfig),
        *_field_keys("limits", Limits),
    )
}
"""All keys by name."""


# --- values -----------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Setting:
    """The value of a setting, and where it comes from."""

    value: SettingValue
    source: Literal["flag", "variable", "file", "default"]
    where: str = ""
    """The name of the flag, the variable or the file."""

    def __str__(self) -> str:
        return f"{self.source} {self.where}".rstrip()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The node that a command connects to."""

    address: Address
    timeout: float = 30.0
    """The timeout of a request, in seconds."""
    token_file: str = ""
    """The file with the token for the node; empty for `$BANDSTAND_TOKEN`, or no token."""

    def config(self, *, reconnects: bool = False) -> ClientConfig:
        """Return the configuration of a client; `reconnects` to connect again when the connection is lost.

        Raises:
            InvalidArgumentError: the token cannot be read.
        """
        token = Token.read(self.token_file).value if self.token_file else None
        give_up_after = ClientConfig().give_up_after if reconnects else 0
        return ClientConfig(timeout=self.timeout, token=token, give_up_after=give_up_after)

    @contextmanager
    def connected(self, *, reconnects: bool = False) -> Generator[BlockingConnection]:
        """Connect to the node."""
        with connect_blocking(self.address, self.config(reconnects=reconnects)) as bus:
            yield bus


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """The values of all settings."""

    values: Mapping[str, Setting]
    file: str = ""
    """The file that was read; empty if there is none."""
    is_default_file: bool = False
    """Whether the file was found in the current directory, and not named by a flag or a variable."""

    def target(self) -> Target:
        """Return the node to connect to.

        Raises:
            InvalidArgumentError: the address is invalid; or it comes from a file that happens to be in the current directory, and the
                token does not, so the token could go to the wrong server.
        """
        address, token = self.values["address"], self.values["token_file"]
        has_token = bool(token.value) or bool(os.environ.get("BANDSTAND_TOKEN"))
        if self.is_default_file and address.source == "file" and has_token and token.source != "file":
            raise InvalidArgumentError(
                f"the address comes from {self.file} in the current directory, but the token does not, so it is not sent: "
                f"pass --to {address.value} or --config {self.file} if you trust this address"
            )
        timeout = cast("float", self.values["timeout"].value)
        return Target(address=self.address(), timeout=timeout, token_file=str(token.value or ""))

    def address(self) -> Address:
        """Return the address of the node.

        Raises:
            InvalidArgumentError: it is not an address; the text says where it comes from.
        """
        setting = self.values["address"]
        try:
            return Address.parse(str(setting.value))
        except InvalidArgumentError as error:
            if setting.source == "flag":
                raise
            where = setting.where if setting.source == "variable" else f"{setting.where}: address"
            raise InvalidArgumentError(f"{where}: {error}") from None

    def journal(self) -> str:
        """Return the directory of the journal.

        Raises:
            InvalidArgumentError: it is not set.
        """
        directory = self.values["journal"].value
        if not directory:
            raise InvalidArgumentError(
                f"it is not known where the journal is: pass --journal DIR, or set {KEYS['journal'].variable} or `journal` in {FILE}"
            )
        return str(directory)

    def serving_token_file(self) -> str | None:
        """Return the file with the token that clients of a node must send; None for no token.

        A token file from a variable or the file is ignored by a node that does not listen on TCP. One from a flag is not, so that
        the user gets an error.
        """
        setting = self.values["token_file"]
        is_tcp = bool(self.values["serve.tcp"].value) or (
            not self.values["serve.unix"].value and bool(self.address().host)
        )
        return str(setting.value) if setting.value and (is_tcp or setting.source == "flag") else None

    def node_config(self) -> NodeConfig:
        """Return the configuration of a node.

        Raises:
            InvalidArgumentError: a value is invalid.
        """
        # NodeConfig checks the types of its fields.
        return NodeConfig(**self._section("node"))  # type: ignore[arg-type]

    def limits(self) -> Limits:
        """Return the limits of each client.

        Raises:
            InvalidArgumentError: a value is invalid.
        """
        return Limits(**self._section("limits"))  # type: ignore[arg-type]

    def check(self) -> None:
        """Check all values.

        Raises:
            InvalidArgumentError: a value is invalid.
        """
        self.address()
        self.node_config()
        self.limits()

    def _section(self, name: str) -> dict[str, SettingValue]:
        return {
            key.partition(".")[2]: setting.value
            for key, setting in self.values.items()
            if key.startswith(f"{name}.") and setting.source != "default"
        }


# --- reading ----------------------------------------------------------------------------------------------------------


def read_settings(
    flags: Mapping[str, SettingValue],
    config: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """Combine flags, environment variables and the file.

    Args:
        flags: the values from the command line, by the names of their keys.
        config: the file that the command line names.
        environment: the environment variables; None for those of the process.

    Raises:
        InvalidArgumentError: a key is unknown, a value is of the wrong kind, or the file cannot be read. The text says where.
    """
    variables = os.environ if environment is None else environment
    named = config or variables.get("BANDSTAND_CONFIG") or ""
    path = named or (FILE if Path(FILE).is_file() else "")
    from_file = _read_file(path) if path else {}
    _check_variables(variables)
    values = {name: _setting(key, flags, variables, from_file, path) for name, key in KEYS.items()}
    return Settings(values, path, is_default_file=bool(path) and not named)


def _setting(
    key: SettingKey,
    flags: Mapping[str, SettingValue],
    variables: Mapping[str, str],
    from_file: Mapping[str, object],
    path: str,
) -> Setting:
    if (given := flags.get(key.name)) is not None:
        return Setting(given, "flag", key.flag)
    if text := variables.get(key.variable):
        return Setting(_converted(key.variable, key.parse, text), "variable", key.variable)
    if key.name in from_file:
        value = _converted(f"{path}: {key.name}", key.check, from_file[key.name])
        return Setting(value, "file", path)
    if key.name == "address":
        others = {name: value for name, value in variables.items() if name != key.variable}
        return Setting(str(default_address(others)), "default")
    return Setting(key.default, "default")


def _converted(where: str, convert: Callable[[T], SettingValue], value: T) -> SettingValue:
    try:
        return convert(value)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{where}: {error}") from None


def _read_file(path: str) -> dict[str, object]:
    try:
        with Path(path).open("rb") as file:
            tree = tomllib.load(file)
    except OSError as error:
        raise InvalidArgumentError(
            f"cannot read the settings file {path}: {error.strerror or error}"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"the settings file {path} is not valid TOML: {error}") from None
    values: dict[str, object] = {}
    for name, value in tree.items():
        if name in SECTIONS and isinstance(value, dict):
            values.update({f"{name}.{key}": each for key, each in cast("dict[str, object]", value).items()})
        else:
            values[name] = value
    for name, value in values.items():
        if name not in KEYS:
            raise_unknown(name, path, SECTIONS if isinstance(value, dict) else KEYS)
    return values


def _check_variables(variables: Mapping[str, str]) -> None:
    known = {key.variable for key in KEYS.values()}
    prefixes = tuple(f"BANDSTAND_{section.upper()}_" for section in SECTIONS)
    renamed = {_variable(name) for name in RENAMED}
    for name in variables:
        if name in renamed:
            raise_unknown(name, "environment", known)
        # Other variables can belong to other programs.
        if name.startswith(prefixes) and name not in known:
            raise_unknown(name, "environment", known)


def _variable(key: str) -> str:
    return f"BANDSTAND_{key.replace('.', '_')}".upper()


def raise_unknown(name: str, where: str, known: Iterable[str]) -> NoReturn:
    """Raise an error that says that there is no such setting, and names its new name or the most similar one."""
    for old, new in RENAMED.items():
        if name in {old, _variable(old)}:
            is_variable = name != old
            now = KEYS[new].variable if is_variable else new
            raise InvalidArgumentError(
                f"{where}: there is no setting {name}; it is {now} now, in seconds or with a unit, such as 500ms"
            )
    near = get_close_matches(name, list(known), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else "`bandstand config` lists all settings"
    raise InvalidArgumentError(f"{where}: there is no setting {name}; {hint}")


# --- `bandstand config` -----------------------------------------------------------------------------------------------


def show_settings(settings: Settings, out: TextIO, *, is_json: bool = False) -> int:
    """Print all settings with their values and where they come from, and return the exit code."""
    if is_json:
        values = {
            name: {"value": setting.value, "source": setting.source, "where": setting.where}
            for name, setting in settings.values.items()
        }
        out.write(json.dumps({"file": settings.file or None, "settings": values}, indent=2) + "\n")
        return 0
    rows = [
        (name, printable(_value_text(setting.value)), printable(str(setting)), KEYS[name].variable)
        for name, setting in settings.values.items()
    ]
    out.write(format_table(rows, ("key", "value", "comes from", "variable")) + "\n")
    return 0


def _value_text(value: SettingValue) -> str:
    if value is None or value in {"", ()}:
        return "-"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return ",".join(value) if isinstance(value, tuple) else json.dumps(value)
