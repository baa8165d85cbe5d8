"""The application that tests serve with uvicorn: a shop whose stock is an actor."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from starlette.routing import Route

from bandstand import Actor, SupervisorSpec, ask, child, tell
from bandstand.core import ExitReason
from bandstand.supervision import AutoShutdown, RestartPolicy
from bandstand.web import WebActors

logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")


class Stock(Actor):
    def __init__(self) -> None:
        self.count = 0

    async def on_start(self) -> None:
        await asyncio.sleep(0)
        if os.environ.get("SHOP_FAILS_TO_START"):
            raise ValueError("no stock today")

    @tell
    async def deliver(self) -> None:
        """Take a while, so that messages wait when the server stops."""
        await asyncio.sleep(0.001)
        self.count += 1

    @ask
    def counted(self) -> int:
        return self.count

    @tell
    def crash(self) -> None:
        raise RuntimeError("the stock is broken")

    @tell
    def close(self) -> None:
        self.stop()

    def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
        logging.getLogger("shop").info("stopped with %d", self.count)


shop = WebActors(
    SupervisorSpec(
        children=[child("stock", restart=RestartPolicy.ON_FAILURE, significant=True).of(Stock)],
        auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
        max_restarts=1,
    ),
    name="shop",
    stop_timeout=float(os.environ.get("SHOP_STOP_TIMEOUT", "10")),
)
app = FastAPI(lifespan=shop.lifespan, routes=[Route("/health", shop.health_app)])


def stock() -> Stock:
    return shop.handle(Stock, "stock")


@app.get("/count")
async def count() -> dict[str, int]:
    return {"count": await stock().counted(), "pid": os.getpid()}


@app.post("/deliver/{number}")
async def deliver(number: int) -> None:
    for _ in range(number):
        stock().deliver()


@app.post("/crash")
async def crash() -> None:
    stock().crash()


@app.post("/close")
async def close() -> None:
    stock().close()


@app.get("/forever")
async def forever() -> StreamingResponse:
    async def lines() -> AsyncIterator[str]:
        yield "first\n"
        await asyncio.Event().wait()

    return StreamingResponse(lines())
