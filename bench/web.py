"""uvicorn with a Starlette endpoint as a peer: the same request and the same answer as JSON over HTTP, at a Unix socket too.

It is set up as fast as it goes: uvloop, httptools, no log of accesses. It lives in the peers' environment, `.venvs/bench`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
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


# Any: neither of the two is installed where types are checked.
def application() -> Any:
    """One endpoint that reads a message and answers with one."""
    starlette: Any = import_module("starlette.applications")
    routing: Any = import_module("starlette.routing")
    responses: Any = import_module("starlette.responses")

    async def messages(request: Any) -> Any:
        message = await request.json()
        asked = message["metadata"]["id"]
        return responses.JSONResponse(
            {
                "kind": "reply",
                "type": message["type"],
                "data": {"value": VALUES[message["data"]["key"]]},
                "metadata": {"id": asked, "timestamp": MOMENT, "causation": asked},
            }
        )

    return starlette.Starlette(routes=[routing.Route("/messages", messages, methods=["POST"])])


@asynccontextmanager
async def serving(path: str) -> AsyncGenerator[None]:
    """The endpoint at a socket."""
    uvicorn: Any = import_module("uvicorn")
    config = uvicorn.Config(
        application(), uds=path, http="httptools", access_log=False, log_level="error", lifespan="off"
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
