"""Settings: flags before variables, variables before the file, the file before what is usual; and whatever is unknown is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand import app
from bandstand.bus import Address, Limits, NodeConfig
from bandstand.bus.durations import parse_duration
from bandstand.cli.settings import KEYS, Settings, SettingValue, Target, read_settings
from bandstand.errors import InvalidArgumentError
from tests.cli.conftest import Run

pytestmark = [pytest.mark.spec("C18"), pytest.mark.guarantee("G192")]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("BANDSTAND_BUS", "BANDSTAND_CONFIG", "BANDSTAND_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@given(st.lists(st.booleans(), min_size=3, max_size=3))
def test_who_goes_before_whom(tmp_path_factory: pytest.TempPathFactory, there: list[bool]) -> None:
    """Whichever of the three says something, the first in order is what holds."""
    path = tmp_path_factory.mktemp("settings") / "a.toml"
    path.write_text("[node]\ntimeout = 3\n" if there[2] else "")
    flags: dict[str, SettingValue] = {"node.timeout": 1.0} if there[0] else {}
    environment = {"BANDSTAND_NODE_TIMEOUT": "2"} if there[1] else {}
    found = read_settings(flags, str(path), environment).values["node.timeout"]
    order = [(1, "flag"), (2, "variable"), (3, "file")]
    expected = next((each for each, is_there in zip(order, there, strict=True) if is_there), (30, "default"))
    assert (found.value, found.source) == expected


@pytest.mark.parametrize("name", KEYS)
def test_each_setting_has_a_variable_and_a_place_in_the_file(name: str, here: Path) -> None:
    key = KEYS[name]
    samples = {str: "unix:/x", int: 1_000_000, float: 1.5, bool: True, tuple: ("A", "B")}
    value: Any = samples[key.kind]
    text = ",".join(value) if key.kind is tuple else str(value)
    assert read_settings({}, None, {key.variable: text}).values[name].value == value
    section, dot, rest = name.rpartition(".")
    written = json.dumps(value)
    (here / "bandstand.toml").write_text(
        f"[{section}]\n{rest} = {written}\n" if dot else f"{name} = {written}\n"
    )
    found = read_settings({}, None, {}).values[name]
    assert (found.value, str(found)) == (value, "file bandstand.toml")


def test_config_says_where_each_comes_from(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "shop.toml").write_text('timeout = 7\n[serve]\nisolate = ["Stock"]\n[limits]\nwindow = 9\n')
    monkeypatch.setenv("BANDSTAND_LIMITS_LINE_BYTES", "100_000")
    code, out, _ = run(
        "config", "--config", "shop.toml", "--to", "unix:/x", "--tcp", "7777", "--set", "node.drain_timeout=5"
    )
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert code == 0
    assert '"unix:/x"' in rows["address"]
    assert "flag --to" in rows["address"]
    assert "file shop.toml" in rows["timeout"]
    assert "flag --tcp" in rows["serve.tcp"]
    assert rows["serve.isolate"].split()[1] == "Stock"
    assert "flag --set" in rows["node.drain_timeout"]
    assert "variable BANDSTAND_LIMITS_LINE_BYTES" in rows["limits.line_bytes"]
    assert "default" in rows["node.flush_timeout"]
    told = json.loads(run("config", "--config", "shop.toml", "--json")[1])
    assert told["file"] == "shop.toml"
    assert told["settings"]["limits.window"] == {"value": 9, "source": "file", "where": "shop.toml"}


def test_a_node_is_served_by_them(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[app.ServeOptions] = []

    def note(serving: app.ServeOptions, out: object, err: object) -> int:
        seen.append(serving)
        return 0

    monkeypatch.setattr(app, "run_node", note)
    (here / "bandstand.toml").write_text(
        'address = "unix:/a"\n[serve]\nmodule = "shop.py"\nisolate = ["A"]\n[node]\ntimeout = 5\n[limits]\nwindow = 6\n'
    )
    assert run("serve", "--isolate", "B", "--tcp", "7")[0] == 0
    (serving,) = seen
    assert (serving.target, serving.isolated, serving.tcp, str(serving.address)) == (
        "shop.py",
        ("B",),
        "7",
        "unix:/a",
    )
    assert (serving.config, serving.limits) == (NodeConfig(timeout=5), Limits(window=6))


class TestTokens:
    def test_a_token_lies_in_a_file_that_is_ones_own(self, here: Path) -> None:
        file = here / "token"
        file.write_text("sesame-sesame-sesame\n")
        target = Target(address=Address(path="/a"), token_file=str(file))
        file.chmod(0o644)
        with pytest.raises(InvalidArgumentError, match="other users can read"):
            target.config()
        file.chmod(0o600)
        assert target.config().token == "sesame-sesame-sesame"

    def test_a_token_in_the_file_does_not_prevent_a_unix_socket(self, here: Path) -> None:
        (here / "bandstand.toml").write_text('token_file = "token"\n')
        assert read_settings({"serve.unix": "/a"}, None).serving_token_file() is None
        assert read_settings({"serve.tcp": "7"}, None).serving_token_file() == "token"
        assert read_settings({"address": "tcp:127.0.0.1:7"}, None).serving_token_file() == "token"
        assert (
            read_settings({"serve.unix": "/a", "token_file": "other"}, None).serving_token_file() == "other"
        )
        assert read_settings({"serve.tcp": "7"}, None).values["token_file"].source == "file"

    def test_a_token_is_not_sent_where_a_file_says(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (here / "bandstand.toml").write_text('address = "tcp:evil.example:80"\n')
        assert read_settings({}, None).target().address.host == "evil.example"
        monkeypatch.setenv("BANDSTAND_TOKEN", "sesame")
        with pytest.raises(InvalidArgumentError, match="if you trust this address"):
            read_settings({}, None).target()
        for said in (read_settings({}, "bandstand.toml"), read_settings({"address": "tcp:me:1"})):
            assert isinstance(said, Settings)
            assert said.target().address.host


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 5),
        ("0.5", 0.5),
        (".5", 0.5),
        ("500ms", 0.5),
        ("16.1ms", 0.0161),
        ("5s", 5),
        ("2 min", 120),
        ("1h", 3600),
        ("2d", 172_800),
    ],
)
def test_a_duration_has_a_unit_or_is_in_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "-1", "5w", "ms", "1e3", "nan", "5 s s", "\u0665"])
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is not a time: pass seconds, or a number with a unit"):
        parse_duration(text)


def test_durations_in_the_file_may_have_a_unit(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(
        'timeout = "250ms"\n[node]\nhold_timeout = "2s"\ntimeout = 5\n[limits]\nline_timeout = "1min"\n'
    )
    settings = read_settings({}, str(file), {"BANDSTAND_NODE_DRAIN_TIMEOUT": "100ms"})
    config = settings.node_config()
    assert (config.hold_timeout, config.timeout, config.drain_timeout) == (2.0, 5.0, 0.1)
    assert settings.limits().line_timeout == 60.0
    assert settings.target().timeout == 0.25
