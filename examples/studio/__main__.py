"""Run the studio, with a saboteur that kills its pods.

python -m examples.studio              three times
python -m examples.studio --kills 10
"""

from __future__ import annotations

import argparse
import logging
import sys
from concurrent.futures import ThreadPoolExecutor

from examples.studio.saboteur import Story, sabotage
from examples.studio.troupe import Studio


def play(kills: int, frames: int) -> Story:
    studio = Studio()
    with ThreadPoolExecutor(1) as threads:
        beside = threads.submit(begin, studio, kills, frames)
        # Blocks until the display is closed, because the display runs on the main thread.
        studio.play()
        return beside.result()


def begin(studio: Studio, kills: int, frames: int) -> Story:
    try:
        return sabotage(studio, kills, frames, say)
    finally:
        studio.stop()


def say(words: str) -> None:
    # On a terminal the picture is in the current line.
    print(f"\n{words}" if sys.stdout.isatty() else words, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m examples.studio", description="A moving picture, and pods that are killed."
    )
    parser.add_argument("--kills", type=int, default=3, help="how often (default: 3)")
    parser.add_argument("--frames", type=int, default=60, help="how many frames in between (default: 60)")
    options = parser.parse_args()
    logging.basicConfig(level=logging.CRITICAL)
    story = play(options.kills, options.frames)
    for line in story.engines:
        print(line)
    print(", ".join(f"{what} {n}" for what, n in sorted(story.counts.items())))
    print("restarts: " + ", ".join(f"{pod} {n}" for pod, n in story.restarts.items()))


if __name__ == "__main__":
    main()
