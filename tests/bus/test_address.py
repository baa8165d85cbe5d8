"""Addresses: read and written alike, found by default, and never in somebody else's directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.bus.client import config as module
from bandstand.bus.client.config import Address, default_address, parse_int
from bandstand.errors import InvalidArgumentError

pytestmark = [pytest.mark.spec("C17")]


class TestAnAddress:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("unix:/run/x.sock", Address(path="/run/x.sock")),
            ("unix:relative.sock", Address(path="relative.sock")),
            ("unix:/with:colon", Address(path="/with:colon")),
            ("tcp:127.0.0.1:7777", Address(host="127.0.0.1", port=7777)),
            ("tcp:localhost:1", Address(host="localhost", port=1)),
            ("tcp:[::1]:65535", Address(host="::1", port=65535)),
        ],
    )
    def test_is_written_as_it_is_read(self, text: str, expected: Address) -> None:
        assert Address.parse(text) == expected
        assert str(expected) == text

    @pytest.mark.parametrize(
        "text",
        [
            *("", "unix", "unix:", "unix:\0x", "/run/x.sock", "tcp", "tcp:", "tcp:7777", "tcp:localhost"),
            *("tcp:localhost:", "tcp:localhost:0", "tcp:localhost:65536", "tcp:localhost:-1"),
            *("tcp:localhost:x", "tcp:localhost:٣", "tcp::7777", "tcp:::1:7777", "tcp:[]:7777"),
            "udp:localhost:1",
        ],
    )
    def test_that_is_none_is_refused_with_the_right_forms(self, text: str) -> None:
        with pytest.raises(InvalidArgumentError) as caught:
            Address.parse(text)
        assert repr(text) in str(caught.value)
        assert "HOST:PORT" in str(caught.value)

    @given(text=st.text())
    def test_any_text_is_one_or_is_refused(self, text: str) -> None:
        try:
            found = Address.parse(text)
        except InvalidArgumentError:
            return
        assert Address.parse(str(found)) == found


class TestAPort:
    @pytest.mark.parametrize(
        ("text", "number"),
        [
            ("1", 1),
            ("0007", 7),
            ("65535", 65535),
            ("65536", None),
            ("0000199999", None),
            ("", None),
            ("-1", None),
            ("١", None),
        ],
    )
    def test_is_a_number_in_ascii_digits_and_in_range(self, text: str, number: int | None) -> None:
        assert parse_int(text, 1, 65535) == number


class TestTheDefault:
    def test_else_in_the_runtime_directory(self) -> None:
        assert default_address({"XDG_RUNTIME_DIR": "/run/user/7"}) == Address(
            path="/run/user/7/bandstand.sock"
        )
        assert not default_address({"XDG_RUNTIME_DIR": "/run/user/7"}).is_shared

    def test_else_in_a_directory_of_the_users_own(self) -> None:
        found = default_address({"BANDSTAND_BUS": "", "XDG_RUNTIME_DIR": ""})
        assert found == Address(path=f"/tmp/bandstand-{os.getuid()}/bus.sock")
        assert found.is_shared

    def test_a_wrong_one_is_told_by_where_it_comes_from(self) -> None:
        with pytest.raises(InvalidArgumentError, match="BANDSTAND_BUS: 'nonsense' is not an address"):
            default_address({"BANDSTAND_BUS": "nonsense"})

    def test_is_read_from_the_process_if_nothing_else_is_given(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("BANDSTAND_BUS", "unix:/run/x.sock")
        assert default_address() == Address(path="/run/x.sock")


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Address:
    """An address in a directory of last resort that is not the machine's own."""
    folder = tmp_path / "bandstand-7"
    monkeypatch.setattr(module, "_fallback_directory", lambda: folder)
    return default_address({})


class TestTheDirectoryOfLastResort:
    def test_is_made_for_nobody_but_the_user(self, shared: Address) -> None:
        shared.check()
        shared.prepare()
        shared.prepare()
        shared.check()
        folder = Path(shared.path).parent
        assert folder.stat().st_mode & 0o777 == 0o700

    @pytest.mark.parametrize("mode", [0o777, 0o755, 0o701, 0o710])
    def test_that_others_may_enter_is_not_used(self, shared: Address, mode: int) -> None:
        folder = Path(shared.path).parent
        folder.mkdir()
        folder.chmod(mode)
        for use in (shared.check, shared.prepare):
            with pytest.raises(PermissionError, match="only you may enter"):
                use()

    def test_that_is_a_link_is_not_used(self, shared: Address, tmp_path: Path) -> None:
        """Who has put it there decides where it leads."""
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir(mode=0o700)
        Path(shared.path).parent.symlink_to(elsewhere)
        for use in (shared.check, shared.prepare):
            with pytest.raises(PermissionError, match="BANDSTAND_BUS"):
                use()

    def test_that_is_somebody_elses_is_not_used(
        self, shared: Address, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shared.prepare()
        monkeypatch.setattr(os, "getuid", lambda: 12345)
        with pytest.raises(PermissionError):
            shared.check()

    def test_other_addresses_are_nobody_elses_business(self, shared: Address, tmp_path: Path) -> None:
        other = Address(path=str(tmp_path / "missing" / "x.sock"))
        other.check()
        other.prepare()
        assert not (tmp_path / "missing").exists()
        Address(host="localhost", port=1).prepare()
