"""uvicorn with a Starlette endpoint as a peer: the same request and the same answer as JSON over HTTP, at a Unix socket too.

It is set up as fast as it goes: uvloop, httptools, no log of accesses, no lifespan, nothing for proxies or web sockets, and none of the headers that can
be left out. JSON is read and written by msgspec, as on the bus, where the peers' environment, `.venvs/bench`, has it, and else by the standard
library, which takes about a tenth more of the server's time; the reading's details say which it was (`msgspec`). What is left is Starlette's
routing, its request and its response.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from bench.caller import MOMENT, VALUES

NEEDED = ("starlette", "uvicorn", "httptools", "uvloop")


def refusal() -> str | None:
    """Say why this process cannot measure it; None if it can."""
    for name in NEEDED:
        try:
            import_module(name)
        except ImportError:
            return f"{name} is not installed; `make bench` puts it into .venvs/bench where it can"
    return None


def has_msgspec() -> bool:
    """Whether it is there beside uvicorn."""
    return find_spec("msgspec") is not None


def codec() -> tuple[Callable[[bytes], Any], Callable[[object], bytes]]:
    """What reads JSON and what writes it: the quickest that is there."""
    if has_msgspec():
        msgspec: Any = import_module("msgspec.json")
        return msgspec.Decoder().decode, msgspec.Encoder().encode
    encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False).encode
    return json.loads, lambda message: encode(message).encode()


# Any: neither of the two is installed where types are checked.
def application() -> Any:
    """One endpoint that reads a message and answers with one."""
    starlette: Any = import_module("starlette.applications")
    routing: Any = import_module("starlette.routing")
    responses: Any = import_module("starlette.responses")

    respond: Any = responses.Response
    decode, encode = codec()

    async def messages(request: Any) -> Any:
        message = decode(await request.body())
        asked = message["metadata"]["id"]
        reply = {
            "kind": "reply",
            "type": message["type"],
            "data": {"value": VALUES[message["data"]["key"]]},
            "metadata": {"id": asked, "timestamp": MOMENT, "causation": asked},
        }
        return respond(encode(reply), media_type="application/json")

    return starlette.Starlette(routes=[routing.Route("/messages", messages, methods=["POST"])])


@asynccontextmanager
async def serving(path: str) -> AsyncGenerator[None]:
    """The endpoint at a socket."""
    uvicorn: Any = import_module("uvicorn")
    config = uvicorn.Config(
        application(),
        uds=path,
        http="httptools",
        ws="none",
        access_log=False,
        log_level="error",
        lifespan="off",
        proxy_headers=False,
        server_header=False,
        date_header=False,
    )
    server = uvicorn.Server(config)
    task = asyncio.ensure_future(server.serve())
    while not server.started and not task.done():  # noqa: ASYNC110  # it has no event for that
        await asyncio.sleep(0.01)
    try:
        yield
    finally:
        server.should_exit = True
        await task
