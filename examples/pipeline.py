"""A pipeline: a thread reads, two channel actors parse and add up, and a scope ends all of them together.

    python examples/pipeline.py            everything goes well
    python examples/pipeline.py --bad      one line is not a number: the scope ends all children and raises the error
    python examples/pipeline.py --late     the channel is not closed: a deadline ends the scope

The path of a line:

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
    """Runs on a thread without an event loop, so it waits by blocking. A thread cannot be cancelled, so it gets a token."""
    try:
        for line in lines:
            into.send(line, token=token).blocking()
    except TokenCancelledError:
        return
    if not is_late:
        # The receiver handles the remaining lines, and then ends.
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
        # When the parser has ended, there is nothing more to add.
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
