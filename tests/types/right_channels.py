"""What a user of channels may write: both type checkers accept it and infer what is asserted here. Read by checkers, never run."""

from __future__ import annotations

import asyncio
from typing import assert_type

from bandstand.scope import (
    CONFLATED,
    UNBOUNDED,
    CancelToken,
    Channel,
    Operation,
    select,
)


class Animal:
    pass


class Dog(Animal):
    pass


async def use_channels(token: CancelToken) -> None:
    numbers = Channel[int]()
    assert_type(numbers, Channel[int])
    words: Channel[str] = Channel(10, name="words")
    maybe = Channel[int | None](UNBOUNDED)
    newest = Channel[Animal](CONFLATED)
    assert_type(await numbers.send(1), None)
    await numbers.send(1, timeout=0.005)
    await numbers.send(1, timeout=0.0005, token=token)
    await newest.send(Dog())
    assert_type(await numbers.receive(), int)
    assert_type(await words.receive(timeout=None, token=None), str)
    assert_type(await maybe.receive(), int | None)
    assert_type(numbers.try_send(1), bool)
    assert_type(numbers.try_receive(), int | None)
    assert_type(numbers.try_receive("none"), int | str)
    assert_type(numbers.try_receive(default=0), int)
    assert_type(numbers.send(1).blocking(), None)
    assert_type(words.receive().blocking(), str)
    async for word in words:
        assert_type(word, str)
    assert_type([number async for number in numbers], list[int])
    assert_type(await anext(words), str)


def keep(numbers: Channel[int]) -> Operation[int]:
    """An operation can be handed on, before it is awaited."""
    return numbers.receive()


async def use_select(numbers: Channel[int], words: Channel[str], token: CancelToken) -> None:
    assert_type(await select(numbers.receive()), tuple[int, int])
    assert_type(await select(numbers.receive(), words.receive()), tuple[int, int | str])
    assert_type(await select(numbers.receive(), words.send("a")), tuple[int, int | None])
    assert_type(
        await select(numbers.receive(), words.receive(), words.send("a"), timeout=0.005, token=token),
        tuple[int, int | str | None],
    )
    index, value = await select(*(channel.receive() for channel in [numbers, numbers]))
    assert_type(index, int)
    assert_type(value, int)
    assert_type(select(numbers.receive(), words.receive()).blocking(), tuple[int, int | str])
    await select(numbers.receive(), words.receive(), numbers.send(1), words.send("a"), numbers.receive())


async def use_with_asyncio(numbers: Channel[int]) -> None:
    async with asyncio.timeout(1):
        assert_type(await numbers.receive(), int)
    assert_type(await asyncio.wait_for(numbers.receive(), 1), int)
    task = asyncio.ensure_future(numbers.receive())
    assert_type(await task, int)
