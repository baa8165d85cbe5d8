"""Numbers that look random and are the same in every system: x becomes 16807 x modulo 2^31 - 1, after Park and Miller.

The products fit into a machine word, for Erlang too. A program draws before the clock starts: what numbers cost is not what is
measured. `work` is the exception: it stands for what an actor does besides sending.
"""

from __future__ import annotations

from collections.abc import Iterator

FACTOR = 16_807
MODULUS = 2**31 - 1


def draws(seed: int) -> Iterator[int]:
    """Numbers from 1 to 2^31 - 2, for ever; their remainders are the throws."""
    x = seed
    while True:
        x = x * FACTOR % MODULUS
        yield x


def work(steps: int) -> int:
    """Be busy for so many steps; the number they lead to."""
    x = 1
    for _ in range(steps):
        x = x * FACTOR % MODULUS
    return x
