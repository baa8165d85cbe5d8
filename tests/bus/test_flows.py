"""The four flows of the specification, end to end over a real socket, with clients that are not ours: a bare socket, and `socat` and
`nc` where they are installed. What they get is compared byte by byte, as the specification prints it."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from tests.bus.socket_clients import Guest, Hall, HallMaker, frame, ping

pytestmark = [
    pytest.mark.spec("C17", "C21"),
    pytest.mark.guarantee("G85"),
    pytest.mark.real_time(reason="a node that stops looks every few milliseconds whether all is done"),
]

MADE = rb'"id":"[0-9A-HJKMNP-TV-Z]{26}","timestamp":\d{13}'
"""What a node adds to a message that it makes."""


@pytest.fixture(params=["unix", "tcp"])
def hall(request: pytest.FixtureRequest, halls: HallMaker) -> Hall:
    return halls(request.param)


@pytest.fixture(params=["socket", "socat", "nc"])
def stranger(request: pytest.FixtureRequest, hall: Hall) -> Guest:
    """A client that knows nothing of us but bytes."""
    name: str = request.param
    if name == "socket":
        return hall.guest()
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    return hall.tool(name)


def heard(pattern: bytes, guest: Guest) -> None:
    """The next line is this, to the byte; `MADE` stands for what the node adds."""
    line = guest.text()
    assert re.fullmatch(pattern.replace(b"MADE", MADE) + rb"\n", line), line


def test_a_command_is_answered_and_its_events_are_told(hall: Hall, stranger: Guest) -> None:
    listener = hall.guest()
    listener.exchange(frame("sub", "Syscall.Subscribe", "command", types=["Memory.Changed"]), "sub")
    stranger.send(
        b'{"kind":"command","type":"Memory.Set","data":{"key":"greeting","value":"hello"},'
        b'"metadata":{"id":"cmd-123","timestamp":1767910000000,"correlation":"flow-1"}}\n'
    )
    heard(
        rb'\{"kind":"reply","type":"Memory.Set","data":\{\},"metadata":\{MADE,"causation":"cmd-123","correlation":"flow-1"\}\}',
        stranger,
    )
    heard(
        rb'\{"kind":"event","type":"Memory.Changed","data":\{"key":"greeting","value":"hello"\},'
        rb'"metadata":\{MADE,"causation":"cmd-123","correlation":"flow-1"\}\}',
        listener,
    )


def test_one_that_asks_and_listens_hears_the_event_before_the_reply(stranger: Guest) -> None:
    stranger.send(frame("sub", "Syscall.Subscribe", "command", types=["Memory.*"]))
    stranger.text()
    stranger.send(frame("set", "Memory.Set", "command", key="a", value=1))
    assert [json.loads(stranger.text())["kind"] for _ in range(2)] == ["event", "reply"]


def test_a_query_is_answered(stranger: Guest) -> None:
    stranger.send(frame("set", "Memory.Set", "command", key="greeting", value={"text": "grüß dich"}))
    stranger.text()
    stranger.send(
        b'{"kind":"query","type":"Memory.Get","data":{"key":"greeting"},"metadata":{"id":"get-1","timestamp":1767910000000}}\n'
    )
    heard(
        rb'\{"kind":"reply","type":"Memory.Get","data":\{"value":\{"text":"gr\xc3\xbc\xc3\x9f dich"\}\},'
        rb'"metadata":\{MADE,"causation":"get-1"\}\}',
        stranger,
    )


def test_a_scheduled_command_is_done_later(stranger: Guest) -> None:
    stranger.send(
        b'{"kind":"command","type":"Timer.Schedule","data":{"delay":20,"message":{"kind":"command","type":"Memory.Set",'
        b'"data":{"key":"later","value":1},"metadata":{"id":"scheduled-001","timestamp":0}}},'
        b'"metadata":{"id":"timer-cmd-001","timestamp":1767910000000}}\n'
    )
    heard(
        rb'\{"kind":"reply","type":"Timer.Schedule","data":\{"timerId":"[^"]+"\},'
        rb'"metadata":\{MADE,"causation":"timer-cmd-001"\}\}',
        stranger,
    )
    heard(
        rb'\{"kind":"reply","type":"Memory.Set","data":\{\},"metadata":\{MADE,"causation":"scheduled-001"\}\}',
        stranger,
    )
    stranger.send(frame("get", "Memory.Get", key="later"))
    assert json.loads(stranger.text())["data"] == {"value": 1}


def test_a_scheduled_command_that_is_cancelled_is_not_done(stranger: Guest) -> None:
    inner = {"kind": "command", "type": "Memory.Set", "data": {"key": "never", "value": 1}}
    message = inner | {"metadata": {"id": "scheduled-002", "timestamp": 0}}
    stranger.send(frame("schedule", "Timer.Schedule", "command", delay=60_000, message=message))
    timer = json.loads(stranger.text())["data"]["timerId"]
    stranger.send(frame("cancel", "Timer.Cancel", "command", timerId=timer))
    heard(
        rb'\{"kind":"reply","type":"Timer.Cancel","data":\{"cancelled":true\},"metadata":\{MADE,"causation":"cancel"\}\}',
        stranger,
    )


def test_a_request_that_takes_too_long_is_given_up(hall: Hall, stranger: Guest) -> None:
    stranger.send(
        b'{"kind":"query","type":"Sleeper.Sleep","data":{"name":"a"},'
        b'"metadata":{"id":"slow-1","timestamp":1767910000000,"timeout":20}}\n'
    )
    line = stranger.text()
    error = json.loads(line)
    assert re.fullmatch(
        rb'\{"kind":"error","type":"Sys.Timeout","data":\{.*\},"metadata":\{MADE,"causation":"slow-1"\}\}\n'.replace(
            b"MADE", MADE
        ),
        line,
    )
    assert error["data"]["originalId"] == "slow-1"
    assert "was not answered within 20 ms" in error["data"]["message"]
    # The sleeper answers in the end: nobody hears of it, and it is counted.
    hall.wake()
    stranger.send(ping("after"))
    assert json.loads(stranger.text())["metadata"]["causation"] == "after"
    while not (stats := hall.books()).late:
        pass
    assert (stats.late, stats.failed) == (1, {"Sys.Timeout": 1})
