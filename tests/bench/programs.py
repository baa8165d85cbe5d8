"""Small programs for the stages, right ones and wrong ones: `python -m tests.bench.programs STAGE PROGRAM`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module

from bench.case import Outcome, Setting, WrongResultError
from bench.cases import pingpong
from bench.stage import Play, Program, Stage

SIZE = 100
MAYFLIES = 20


def lossy(stage: Stage, setting: Setting) -> Play:
    """Count one message less than arrives."""
    play = pingpong.program(stage, setting)
    return Play(
        begin=play.begin,
        operations=play.operations,
        sent=play.sent,
        handled=lambda: play.handled() - 1,
    )


def mayflies(stage: Stage, _setting: Setting, ends: int = MAYFLIES) -> Play:
    """Have one actor make others, each of which handles one message and ends."""
    send, lived = stage.send, list[int]()

    def create(_me: object, count: int) -> None:
        for number in range(count):
            send(stage.spawn(live), number)

    def live(_me: object, number: int) -> object:
        lived.append(number)
        if len(lived) == MAYFLIES:
            stage.finish()
        return stage.end

    maker = stage.spawn(create)
    return Play(
        begin=lambda: send(maker, MAYFLIES),
        operations=MAYFLIES,
        sent=MAYFLIES,
        handled=lambda: len(set(lived)),
        ends=ends,
    )


def immortal(stage: Stage, setting: Setting) -> Play:
    """Promise the end of one more."""
    return mayflies(stage, setting, MAYFLIES + 1)


def failing(stage: Stage, setting: Setting) -> Play:
    """Fail in the middle, and so never finish."""
    send = stage.send

    def hit(_me: object, left: int) -> None:
        if left == SIZE // 2:
            raise ZeroDivisionError("in the middle")
        send(only, left - 1)

    only = stage.spawn(hit)
    return Play(begin=lambda: send(only, setting.size), operations=SIZE, sent=SIZE, handled=lambda: SIZE)


PROGRAMS: dict[str, Program] = {
    "ping_pong": pingpong.program,
    "lossy": lossy,
    "mayflies": mayflies,
    "immortal": immortal,
    "failing": failing,
}


def main(stage: str, program: str) -> int:
    play: Callable[[Program, Setting], Outcome] = import_module(f"bench.stages.{stage}").play
    try:
        outcome = play(PROGRAMS[program], Setting(SIZE))
        outcome.check()
    except WrongResultError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    figures = {"sent": outcome.sent, "handled": outcome.handled, "operations": outcome.operations}
    sys.stdout.write(json.dumps(figures) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
