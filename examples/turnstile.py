"""A turnstile: an actor with states, a timeout, messages that wait for another state, and a state that returns to the
one before.

    python examples/turnstile.py

After a coin, a visitor may pass within 200 ms. While the turnstile warms up, coins wait. A service key takes it out
of service from any state, and returns it to that state.
"""

from __future__ import annotations

import asyncio
import logging

from bandstand import ActorSystem, ask, tell
from bandstand.actor import Machine, State
from bandstand.core import Clock
from bandstand.core.events import RuntimeEvent
from bandstand.errors import NotInThisStateError


class Turnstile(Machine):
    def __init__(self) -> None:
        self.coins = 0
        self.passed: list[str] = []

    @tell
    def insert_coin(self) -> None: ...

    @ask
    def walk_through(self, who: str) -> int:
        """Return how many visitors have passed. In a state without a handler, it raises `NotInThisStateError`."""
        raise NotImplementedError  # no default: a state without a handler does not answer

    @tell
    def turn_key(self) -> None:
        """Take the turnstile out of service, in every state without another handler."""
        self.become(Turnstile.in_service, push=True)

    @ask
    def look(self) -> str:
        return f"{self.state.name}, {self.coins} coins, {len(self.passed)} passed"

    @tell
    def warm(self) -> None: ...

    warming = State(postpones=(insert_coin,))
    locked = State(ignores=(warm,))
    unlocked = State(timeout=0.2, ignores=(warm,))
    in_service = State(postpones=(insert_coin,), ignores=(warm,))

    @warming.on(warm)
    def start(self) -> None:
        self.become(Turnstile.locked)

    @locked.on(insert_coin)
    def unlock(self) -> None:
        self.coins += 1
        self.become(Turnstile.unlocked)

    @unlocked.on(insert_coin)
    def thank(self) -> None:
        self.coins += 1

    @unlocked.on(walk_through)
    def let_through(self, who: str) -> int:
        self.passed.append(who)
        self.become(Turnstile.locked)
        return len(self.passed)

    @unlocked.timeout
    def lock_again(self) -> None:
        print("  too late: locked again")
        self.become(Turnstile.locked)

    @unlocked.enter
    def show_green(self) -> None:
        print("  green")

    @unlocked.leave
    def show_red(self) -> None:
        print("  red")

    @in_service.on(turn_key)
    def end_service(self) -> None:
        self.unbecome()


def print_event(event: RuntimeEvent) -> None:
    print(f"  event: {type(event).__name__}: {getattr(event, 'what', '')}")


async def main(clock: Clock | None = None) -> None:
    """Run the example, in a test in virtual time."""
    async with ActorSystem(clock=clock) as system:
        system.events.listen(print_event)
        turnstile = system.spawn(Turnstile)

        print("a coin while it warms up waits")
        turnstile.insert_coin()
        print(f"  {await turnstile.look()}")
        turnstile.warm()
        print(f"  {await turnstile.look()}")

        print("Ann walks through, and Bob, who has not paid, does not")
        print(f"  {await turnstile.walk_through('Ann')} passed")
        try:
            await turnstile.walk_through("Bob")
        except NotInThisStateError as error:
            print(f"  refused: {str(error).partition('> ')[2]}")

        print("the key, from locked and back; the coin that came meanwhile is not lost")
        turnstile.turn_key()
        turnstile.insert_coin()
        print(f"  {await turnstile.look()}")
        turnstile.turn_key()
        print(f"  {await turnstile.look()}")

        print("the time to pass runs out")
        await asyncio.sleep(0.3)
        print(f"  {await turnstile.look()}")


if __name__ == "__main__":
    # The log has unhandled messages, too; the example prints them itself.
    logging.getLogger("bandstand").setLevel(logging.CRITICAL)
    asyncio.run(main())
