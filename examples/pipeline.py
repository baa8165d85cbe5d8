"""A pipeline: a thread reads, two channel actors parse and add up, and a scope sees to it that all of it ends together.

    python examples/pipeline.py            everything goes well
    python examples/pipeline.py --bad      one line is no number: the scope ends everybody and tells why
    python examples/pipeline.py --late     nobody closes the channel: a deadline ends it

The way of a line:

    lines ──▶ [channel of 4] ──▶ parse ──▶ [rendezvous] ──▶ add
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from bandstand.core import Loop
from bandstand.errors import TokenCancelledError
from bandstand.scope import CancelToken, Channel, Scope

GOOD = ["3", "1", "4", "1", "5", "9", "2", "6"]
BAD = [*GOOD[:4], "π", *GOOD[5:]]


def read(lines: Sequence[str], into: Channel[str], token: CancelToken, *, is_late: bool) -> None:
    """What a thread does that has no event loop: it waits for room by blocking. Nobody can cancel it, so it has a token."""
    try:
        for line in lines:
            into.send(line, token=token).blocking()
    except TokenCancelledError:
        return
    if not is_late:
        # That was all: whoever receives drains what is left, and then ends.
        into.close()


async def add_up(lines: Sequence[str], *, is_late: bool) -> int:
    total = 0
    texts = Channel[str](4, name="texts")
    numbers = Channel[int](name="numbers")

    async def parse(text: str) -> None:
        print(f"parse   {text}")
        await numbers.send(int(text))

    def add(number: int) -> None:
        nonlocal total
        total += number
        print(f"add     {number}, total {total}")

    async with Scope(token=CancelToken(timeout=0.2 if is_late else None), name="pipeline") as scope:
        reading = asyncio.to_thread(read, lines, texts, scope.token, is_late=is_late)
        _ = scope.launch(reading, name="read")
        parser = scope.consume(texts, parse, name="parse")
        # When there is nothing left to parse there is nothing left to add.
        parser.on_done(lambda _outcome: numbers.close())
        scope.consume(numbers, add, name="add")
    return total


async def main(options: Sequence[str]) -> int:
    async with Loop():
        try:
            total = await add_up(BAD if "--bad" in options else GOOD, is_late="--late" in options)
        except ExceptionGroup as group:
            print(f"failed  {group.exceptions[0]}")
            return 1
        except TokenCancelledError as error:
            print(f"late    {error.reason}")
            return 1
        print(f"done    {total}")
        return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
