"""The web application. Its lifespan starts the actors before the first request, and stops them after the last.

    uvicorn examples.fastapi.app:app --timeout-graceful-shutdown 5
    curl -X POST localhost:8000/tickets
    curl -X POST localhost:8000/tickets/1/pay
    curl -N localhost:8000/changes

An endpoint awaits an ask like any coroutine, on the event loop of the server. Exception handlers turn the errors of
actors into HTTP responses for all endpoints.

A server waits for open responses before the lifespan ends, and clients that listen to changes keep theirs open. So
set a limit, as above.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import cast

from bandstand import ActorSystem
from bandstand.errors import AskTimeoutError, BandstandError
from bandstand.shutdown import GracefulShutdown
from bandstand.topic import Policy, Topic
from examples.fastapi import office
from examples.fastapi.office import Change, NoSuchTicketError, Office, SoldOutError, open_office
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse

SEATS = int(os.environ.get("SEATS", "100"))
HOLD_MS = float(os.environ.get("HOLD_MS", office.HOLD_MS))


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    """Run the actors on the event loop of the server. At the end they handle all accepted messages, and stop."""
    async with ActorSystem() as system:
        app.state.office, app.state.changes = open_office(system, SEATS, HOLD_MS)
        yield
        app.state.changes.close()
        await GracefulShutdown(system, deadline=5.0).run("the server ends")


app = FastAPI(title="tickets", lifespan=lifespan)


def office_of(request: Request) -> Office:
    return cast("Office", request.app.state.office)


@app.post("/tickets", status_code=201)
async def hold(request: Request) -> dict[str, object]:
    return asdict(await office_of(request).hold())


@app.post("/tickets/{number}/pay")
async def pay(request: Request, number: int) -> dict[str, object]:
    return asdict(await office_of(request).pay(number))


@app.get("/free")
async def free(request: Request) -> dict[str, int]:
    return {"free": await office_of(request).free()}


@app.post("/stumble", status_code=202)
async def stumble(request: Request) -> None:
    office_of(request).stumble()


@app.get("/changes")
async def changes(request: Request) -> StreamingResponse:
    """Stream the changes as server-sent events. A slow client misses the oldest, and delays no other client."""
    topic = cast("Topic[Change]", request.app.state.changes)
    return StreamingResponse(_lines(topic), media_type="text/event-stream")


async def _lines(topic: Topic[Change]) -> AsyncIterator[str]:
    async with topic.listen(policy=Policy.DROP_OLDEST, room=100) as stream:
        yield ": listening\n\n"
        async for change in stream:
            yield f"data: {json.dumps(asdict(change))}\n\n"


# --- errors -----------------------------------------------------------------------------------------------------------


@app.exception_handler(SoldOutError)
async def sold_out(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, status_code=409)


@app.exception_handler(NoSuchTicketError)
async def no_such_ticket(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, status_code=404)


@app.exception_handler(AskTimeoutError)
async def too_late(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, status_code=504)


@app.exception_handler(BandstandError)
async def not_now(_request: Request, error: Exception) -> JSONResponse:
    """The mailbox is full, or the office is being restarted."""
    return JSONResponse({"detail": str(error)}, status_code=503, headers={"Retry-After": "1"})
