"""One tiny run and data for all faults, and what each case works on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from leftovers import furnished
from matplotlib.figure import Figure
from samples import TINY, walk

import waypost
import waypost.studies.judge.judging
import waypost.studies.lease
import waypost.training.plan

BC = {"hidden": (8,), "batch_size": 8, "log_every": 2, "preset": "none"}


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished POR run, its data and a settings file; copied, never changed."""
    folder = tmp_path_factory.mktemp("originals")
    waypost.save(walk(), folder / "data.npz")
    settings = {**TINY, "steps": 4, "log_every": 2, "preset": "none"}
    waypost.train("por", "t-maze", out=folder / "run", evaluation=waypost.Protocol(every=2, episodes=1), **settings)
    (folder / "settings.toml").write_text("[bc]\nhidden = [8]\nbatch_size = 8\n")
    return folder


@pytest.fixture
def places(originals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """What commands read, copied for one case."""
    shutil.copytree(originals, tmp_path / "inputs")
    monkeypatch.setenv("WAYPOST_DATA", str(tmp_path / "kept"))
    inputs = tmp_path / "inputs"
    return {"data": inputs / "data.npz", "run": inputs / "run", "settings": inputs / "settings.toml"}


@pytest.fixture(scope="session")
def judgement(originals: Path) -> waypost.Judgement:
    """What `judge` finds about that run; it compiles several programs."""
    options: dict[str, Any] = {"members": 5, "steps": 1, "hidden": (8,)}
    return waypost.judge(originals / "run", originals / "data.npz", **options)


@pytest.fixture
def cheap(places: dict[str, Path], judgement: waypost.Judgement, monkeypatch: pytest.MonkeyPatch) -> None:
    """No pictures are drawn, a run is judged once, and the demo is as small as the other trainings."""

    def picture(self: Figure, file: Any, format: str, **options: Any) -> None:
        file.write("<svg></svg>" if format == "svg" else b"\x89PNG\r\n\x1a\n" + bytes(20_000))

    usual = waypost.training.plan.plan

    def small(algorithm: str = "bc", data: Any = None, **options: Any) -> Any:
        demo = (algorithm, data) == ("waypoint", "four-rooms")
        return usual("bc", str(places["data"]), **BC, **options) if demo else usual(algorithm, data, **options)

    monkeypatch.setattr(Figure, "savefig", picture)
    monkeypatch.setattr(waypost.training.plan, "plan", small)
    # Calls of a disk are counted, and must not depend on the time.
    monkeypatch.setattr(waypost.studies.lease, "BEAT_SECONDS", 3600.0)
    monkeypatch.setattr(waypost.studies.judge.judging, "judge", lambda *_, **__: judgement)


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Where commands write, with files of the user's that must stay as they are."""
    return furnished(tmp_path / "disk")


@pytest.fixture(autouse=True)
def unchanged_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What names no place is written where it can be seen."""
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
