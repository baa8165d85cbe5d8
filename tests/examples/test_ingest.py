"""The time-series store as an example: as a process that is killed, and with a disk that fails."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from examples.ingest.feeder import value_of
from examples.ingest.points import Point, encode
from examples.ingest.recover import recover, segment_path
from tests.examples import running
from tests.examples.running import ROOT, command

pytestmark = [pytest.mark.slow, pytest.mark.once]

KILLS = 20
SERIES: tuple[str, ...] = ("series-0", "series-1")


def tried(*arguments: object) -> subprocess.CompletedProcess[str]:
    return running.run("ingest", *arguments)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    done = tried(*arguments)
    assert done.returncode == 0, done.stderr
    return done


class Witness:
    """What the store has acknowledged, noted outside of it."""

    def __init__(self) -> None:
        self.acknowledged = dict.fromkeys(SERIES, 0)

    def hear(self, line: bytes) -> None:
        # A line that was cut off in the middle was never said.
        if line.endswith(b"\n"):
            series, number = line.split()
            assert int(number) >= self.acknowledged[series.decode()]
            self.acknowledged[series.decode()] = int(number)

    def compare(self, folder: Path) -> None:
        for series, number in self.acknowledged.items():
            found = recover(folder / series)
            assert found.last >= number
            assert found.points == [Point(n, value_of(n)) for n in range(1, found.last + 1)]


def kill_once(folder: Path, witness: Witness, random: Random) -> None:
    """Start the store, kill it after so many acknowledgements, and hear what it had said."""
    options = ("--series", len(SERIES), "--points", 10**9, "--flush-ms", 2, "--maintenance-ms", 15)
    victim = subprocess.Popen(
        command("ingest", "run", folder, *options),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert victim.stdout is not None
    with victim:
        try:
            for _ in range(random.randrange(1, 60)):
                witness.hear(victim.stdout.readline())
        finally:
            victim.kill()
        for line in victim.stdout:
            witness.hear(line)
    assert victim.returncode == -9


def tear(folder: Path, random: Random) -> None:
    """Leave half a record behind, as a machine that goes down does and a killed process seldom."""
    found = recover(folder)
    record = encode([Point(found.last + 1, 0.5), Point(found.last + 2, 0.25)])
    with segment_path(folder, found.segments[-1]).open("ab") as file:
        file.write(record[: random.randrange(1, len(record))])


@pytest.mark.spec("J22")
@pytest.mark.timeout(120)
@pytest.mark.real_time(reason="processes are killed")
def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    random = Random(7)
    witness = Witness()
    for number in range(KILLS):
        before = dict(witness.acknowledged)
        kill_once(tmp_path, witness, random)
        assert witness.acknowledged != before
        witness.compare(tmp_path)
        if number % 3 == 0:
            for series in SERIES:
                tear(tmp_path / series, random)
            witness.compare(tmp_path)
    until = 100 + max(recover(tmp_path / series).last for series in SERIES)
    run("run", tmp_path, "--series", len(SERIES), "--points", until)
    check = run("check", tmp_path)
    assert check.stdout == "".join(
        f"{series}: points 1 to {until}, 0 wrong, 0 torn bytes\n" for series in SERIES
    )


@pytest.mark.spec("J20", "J22")
@pytest.mark.parametrize("is_used", [False, True])
def test_a_full_disk_is_waited_for_longer_each_time(tmp_path: Path, is_used: bool) -> None:
    """Also when it is full from the beginning, and there is a log to recover."""
    if is_used:
        assert run("run", tmp_path, "--series", 1, "--points", 100).returncode == 0
    done = run("run", tmp_path, "--series", 1, "--points", 500, "--full-disk", 3)
    restarts = re.findall(
        r"supervisor 'heads' restarts child 'series-0'.*attempt (\d+), delay ([\d.]+) s", done.stderr
    )
    assert restarts == [("1", "0.1"), ("2", "0.2"), ("3", "0.4")]
    assert done.stdout.endswith("series-0 500\n")
    assert re.search(r"series-0: \w+ \(running, .*3 restarts\)", done.stderr)
    assert run("check", tmp_path).stdout == "series-0: points 1 to 500, 0 wrong, 0 torn bytes\n"


@pytest.mark.spec("J22")
def test_segments_are_merged_and_old_blocks_removed(tmp_path: Path) -> None:
    options = ("--series", 1, "--flush-ms", 5, "--maintenance-ms", 20, "--keep", 1000)
    counts: Counter[str] = Counter()
    points = 0
    # How many rounds of maintenance fit into a run is up to the machine: it goes on from where it was until there were enough.
    while not (counts["merged"] and counts["retired"]):
        points += 10_000
        assert points <= 200_000, counts
        done = run("run", tmp_path, "--points", points, *options)
        counts.update({what: int(n) for what, n in re.findall(r"(merged|retired) (\d+)", done.stderr)})
    found = recover(tmp_path / "series-0").points
    assert found == [Point(n, value_of(n)) for n in range(found[0].number, points + 1)]
    assert 1 < found[0].number <= points - 999


def test_damage_is_told_and_nothing_is_guessed(tmp_path: Path) -> None:
    # At least two flushes: that the last record is damaged looks like a writer that was killed.
    run("run", tmp_path, "--series", 1, "--points", 300, "--maintenance-ms", 60_000)
    run("run", tmp_path, "--series", 1, "--points", 600, "--maintenance-ms", 60_000)
    path = next((tmp_path / "series-0").glob("*.wal"))
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    done = tried("check", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("damaged: ")
    assert "the record at byte 0 is damaged, and whole ones follow it" in done.stderr


def test_two_stores_do_not_share_a_folder(tmp_path: Path) -> None:
    endless = command("ingest", "run", tmp_path, "--series", 1, "--points", 10**9)
    with subprocess.Popen(endless, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as first:
        assert first.stdout is not None
        try:
            first.stdout.readline()
            for verb in ("run", "check"):
                second = tried(verb, tmp_path)
                assert (second.returncode, second.stdout) == (2, "")
                assert second.stderr == f"{tmp_path}: a store is running there; wait until it has ended\n"
        finally:
            first.kill()
    run("check", tmp_path)
