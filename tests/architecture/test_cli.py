"""The command: what it prints, and what its exit code means."""

import dataclasses
import importlib.metadata
import json
import os
import subprocess
import sys

import pytest

import bandstand
from bandstand import _build_mode, doctor
from bandstand.__main__ import main


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bandstand", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )


def test_the_installed_command_is_the_module() -> None:
    script = os.path.join(os.path.dirname(sys.executable), "bandstand")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=False, timeout=50)
    assert done.stdout == run("--version").stdout


@pytest.mark.slow
def test_doctor_as_a_process_reports_the_mode_the_environment_asks_for() -> None:
    done = run("doctor", "--json", BANDSTAND_PURE="1")
    report = json.loads(done.stdout)
    assert (done.returncode, report["ok"], report["mode"], report["stale"]) == (0, True, "interpreted", [])


def test_doctor_reports_all_it_should(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    for label in (
        "bandstand",
        "mode",
        "compiled",
        "event loop",
        "journal",
        "python",
        "platform",
        "[fast]",
        "[sqlite]",
    ):
        assert f"\n{label}" in f"\n{shown}"
    assert "No problems found." in shown


def test_doctor_names_the_interpreted_modules_only_if_the_modes_are_mixed() -> None:
    seen = dataclasses.replace(doctor.diagnose(), compiled=("a.b", "a.c"), interpreted=())
    assert "\ncompiled     all of 2 modules\n" in doctor.render(seen)
    seen = dataclasses.replace(seen, compiled=(), interpreted=("a.b", "a.c"))
    assert "\ncompiled     none of 2 modules\n" in doctor.render(seen)
    seen = dataclasses.replace(seen, compiled=("a.b",), interpreted=("a.c",))
    assert "\ncompiled     1 of 2 modules; interpreted: a.c\n" in doctor.render(seen)


def test_doctor_json_is_the_same_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["version"] == bandstand.__version__
    assert set(report["compiled"]) == _build_mode.compiled_modules()
    assert set(report["interpreted"]) == _build_mode.modules_with_pxd() - _build_mode.compiled_modules()


def test_doctor_without_the_fast_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing_installed(distribution: str) -> str:
        raise importlib.metadata.PackageNotFoundError(distribution)

    monkeypatch.setattr(doctor, "version", nothing_installed)
    seen = doctor.diagnose()
    assert seen.event_loop == "asyncio"
    assert "uvloop not installed" in doctor.render(seen)


def test_doctor_fails_on_a_mixture(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_build_mode, "mode", lambda: "mixed")
    assert main(["doctor"]) == 1
    assert "Build again" in capsys.readouterr().out


def test_doctor_fails_on_a_stale_module(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_build_mode, "stale_modules", lambda: frozenset({"bandstand.core.ids"}))
    assert main(["doctor"]) == 1
    assert "problem: core.ids: compiled from other sources" in capsys.readouterr().out


def test_doctor_fails_on_bad_module(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_build_mode, "modules_with_pxd", lambda: frozenset({"bandstand.core.missing"}))
    assert main(["doctor"]) == 1
    assert "problem: core.missing cannot be imported: ModuleNotFoundError" in capsys.readouterr().out
