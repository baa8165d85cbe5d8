"""TCP: who may connect, where it listens, and what it says when it cannot."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any

import pytest

from bandstand.bus.adapters.ndjson import NdjsonConnection
from bandstand.bus.adapters.tcp import TcpAdapter
from bandstand.errors import InvalidArgumentError, ListenError
from tests.bus.adapters import Desk, Watched

pytestmark = [pytest.mark.spec("C17"), pytest.mark.usefixtures("lane_loop")]

TOKEN = "a-token-of-24-characters"


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.guarantee("G196")
class TestWhoMayConnect:
    @pytest.mark.parametrize(
        "host", ["0.0.0.0", "::", "192.168.1.1", "example.org", "127.0.0.1.example.org", "2130706433"]
    )
    def test_nobody_from_elsewhere_unless_asked_for(self, host: str) -> None:
        with pytest.raises(InvalidArgumentError, match=r"other machines could connect.*is_public=True"):
            TcpAdapter(host, token=TOKEN)
        with pytest.raises(InvalidArgumentError, match=r"so a token is required. Pass token="):
            TcpAdapter(host, is_public=True)
        TcpAdapter(host, is_public=True, token=TOKEN)

    @pytest.mark.parametrize(
        ("host", "public"),
        [
            ("127.0.0.1", {}),
            ("127.0.0.5", {}),
            ("localhost", {}),
            ("0.0.0.0", {"is_public": True, "token": TOKEN}),
        ],
    )
    async def test_other_machines_only_if_asked_for(self, host: str, public: dict[str, Any]) -> None:
        adapter = TcpAdapter(host, **public)
        await adapter.start(Desk())
        assert adapter.name.startswith(("tcp:0.0.0.0:",) if public else ("tcp:127.0.0.", "tcp:[::1]:"))
        await adapter.close(1)

    @pytest.mark.parametrize("is_public", [False, True])
    async def test_a_localhost_that_is_not_this_machine_is_refused(self, is_public: bool) -> None:
        # Asked for, but without a token it is for this machine alone.
        adapter = TcpAdapter("localhost", is_public=is_public)

        async def elsewhere(*_: object, **__: object) -> list[Any]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("192.0.2.1", 0))]

        running = asyncio.get_running_loop()
        running.getaddrinfo = elsewhere  # type: ignore[method-assign]  # it is to lie
        with pytest.raises(ListenError, match=r"it resolves to 192\.0\.2\.1"):
            await adapter.start(Desk())


class TestWhere:
    async def test_its_name_has_the_port_it_was_given_and_answers_leave_at_once(self) -> None:
        adapter, desk = TcpAdapter(), Watched()
        assert adapter.name == "tcp:127.0.0.1:0"
        await adapter.start(desk)
        port = int(adapter.name.removeprefix("tcp:127.0.0.1:"))
        assert port > 0
        with socket.create_connection(("127.0.0.1", port)):
            await desk.until(lambda: desk.lines)
            (line,) = desk.lines
            assert line.name == f"tcp:127.0.0.1:{port}#1"
            assert isinstance(line, NdjsonConnection)
            assert line.transport is not None
            connection = line.transport.get_extra_info("socket")
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        await adapter.close(1)

    @pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
    async def test_ipv6(self) -> None:
        adapter, desk = TcpAdapter("::1"), Watched()
        await adapter.start(desk)
        with socket.create_connection(("::1", int(adapter.name.removeprefix("tcp:[::1]:")))):
            await desk.until(lambda: desk.lines)
        await adapter.close(1)

    async def test_a_port_that_is_taken_is_refused_in_a_sentence(self) -> None:
        first = TcpAdapter()
        await first.start(Desk())
        port = int(first.name.rpartition(":")[2])
        second = TcpAdapter(port=port)
        with pytest.raises(ListenError) as caught:
            await second.start(Desk())
        assert str(caught.value) == (
            f"cannot listen at tcp:127.0.0.1:{port}: another process listens there already. "
            "Pass another port, or 0 for any free one."
        )
        assert isinstance(caught.value.__cause__, OSError)
        assert caught.value.__cause__.errno == errno.EADDRINUSE
        await first.close(1)
        # It is free as soon as the first one is closed.
        await second.start(Desk())
        await second.close(1)

    @pytest.mark.parametrize(
        ("host", "said"),
        [
            ("192.0.2.1", "this machine does not have that address"),
            ("no.such.host.invalid", "cannot be resolved"),
        ],
    )
    async def test_an_address_that_is_none_is_refused_in_a_sentence(self, host: str, said: str) -> None:
        with pytest.raises(ListenError, match=said):
            await TcpAdapter(host, is_public=True, token=TOKEN).start(Desk())

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ({"host": ""}, "host is ''"),
            ({"host": None}, "host is None"),
            ({"port": -1}, "port is -1"),
            ({"port": 65_536}, "port is 65536"),
            ({"port": "80"}, "port is '80'"),
            ({"limits": 5}, "limits is 5"),
            ({"token": 5}, "token is a int"),
            ({"token": "short"}, "the token has 5 characters, but needs 16 to 1024"),
        ],
    )
    def test_what_has_no_sense_is_refused(self, arguments: dict[str, Any], said: str) -> None:
        with pytest.raises(InvalidArgumentError, match=said):
            TcpAdapter(**arguments)
