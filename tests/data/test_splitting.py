"""Folders of parts: written whole, continued after an interruption, never mixed with anything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import walk

import waypost
from waypost.data.mapped import map_npz
from waypost.data.numbered import part_name
from waypost.data.sources import load, save
from waypost.data.splitting import Splitter
from waypost.errors import WaypostError
from waypost.files import unused_name


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(("options", "count"), [({"parts": 5}, 5), ({"part_rows": 25}, 3), ({"part_rows": 1000}, 1)])
@pytest.mark.parametrize("kind", ["npz", "parquet"])
def test_parts_hold_the_same_rows(options: dict[str, Any], count: int, kind: Any, tmp_path: Path) -> None:
    assert waypost.convert(walk(), tmp_path / "parts", **options, part_format=kind) == 60
    assert names(tmp_path / "parts") == [part_name(number, count, f".{kind}") for number in range(count)]
    assert names(tmp_path) == ["parts"]
    assert load(tmp_path / "parts").fingerprint() == walk().fingerprint()


def test_parts_end_with_episodes_where_these_are_short() -> None:
    cuts = Splitter("nowhere", 5, None)._cuts(walk(600))
    assert walk(600).ends[cuts[1:] - 1].all()
    assert np.diff(cuts).min() > 100


def test_what_is_chosen_and_dropped_is_left_out(tmp_path: Path) -> None:
    save(walk(), tmp_path / "one.npz")
    for source in (tmp_path / "one.npz", walk()):
        waypost.convert(source, tmp_path / "some", parts=2, top=0.5, drop_rewards=True, overwrite=True)
        assert load(tmp_path / "some").fingerprint() == walk().top(0.5).without_rewards().fingerprint()


def test_logs_of_others_are_read_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "logs").mkdir()
    for number in range(3):
        data = walk(30, seed=number)
        np.savez(tmp_path / "logs" / f"{number}.npz", observations=data.observations, actions=data.actions)
    seen: list[str] = []

    def noting(name: str, *rest: Any, **more: Any) -> Any:
        seen.append(Path(name).name)
        return load(name, *rest, **more)

    monkeypatch.setattr("waypost.data.convert.load", noting)
    waypost.convert(tmp_path / "logs", tmp_path / "parts", parts=4)
    assert seen == ["0.npz", "1.npz", "2.npz"]
    assert names(tmp_path) == ["logs", "parts"]
    assert load(tmp_path / "parts").fingerprint() == load(tmp_path / "logs").fingerprint()


def test_parts_become_one_file_again_without_being_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where an episode goes over an edge."""
    data = walk(60, episode=30)
    waypost.convert(data, tmp_path / "parts", parts=8)
    counted: list[tuple[int, int]] = []
    monkeypatch.setattr("waypost.data.convert.load", None)
    waypost.convert(tmp_path / "parts", tmp_path / "one.npz", progress=lambda *done: counted.append(done))
    assert counted[-1] == (60, 60)
    waypost.convert(tmp_path / "parts", tmp_path / "other", parts=3, part_format="parquet")
    for found in (map_npz(tmp_path / "one.npz"), load(tmp_path / "other")):
        assert found.fingerprint() == data.fingerprint()


# -- interruptions -----------------------------------------------------------------------------------


def test_the_same_command_goes_on(tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        if done > 30:
            raise KeyboardInterrupt

    folder = tmp_path / "parts"
    with pytest.raises(KeyboardInterrupt):
        waypost.convert(walk(), folder, parts=5, progress=stop)
    assert names(folder) == [part_name(number, 5, ".npz") for number in range(3)]
    with pytest.raises(WaypostError, match=r"part-00003-of-00005.npz: is missing \(2 of 5 parts are\)"):
        load(folder)
    unused_name(folder / "x").write_bytes(b"what a killed process was writing")
    before = {name: (folder / name).stat().st_mtime_ns for name in names(folder) if name.startswith("part")}
    waypost.convert(walk(), folder, parts=5)
    assert names(folder) == [part_name(number, 5, ".npz") for number in range(5)]
    assert before == {name: (folder / name).stat().st_mtime_ns for name in before}, "what is there is kept"
    assert load(folder).fingerprint() == walk().fingerprint()
    assert names(tmp_path) == ["parts"]


def test_a_failure_leaves_no_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(WaypostError, match="60 rows cannot be 61 parts"):
        waypost.convert(walk(), tmp_path / "new" / "parts", parts=61)
    assert names(tmp_path) == []


# -- what else is there ------------------------------------------------------------------------------


def test_parts_are_never_mixed_with_others(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    waypost.convert(walk(), folder, parts=3)
    for data, count, message in (
        (walk(), 4, "part-00000-of-00003.npz: is a part of other data; choose another folder or --overwrite"),
        (walk(seed=1), 3, "part-00000-of-00003.npz: is there already and holds other rows"),
        (walk().named("x", "hopper-medium"), 3, "part-00000-of-00003.npz: is there already and holds other rows"),
    ):
        with pytest.raises(WaypostError, match=message):
            waypost.convert(data, folder, parts=count)
    waypost.convert(walk(seed=1), folder, parts=4, overwrite=True)
    assert len(names(folder)) == 4
    with pytest.raises(WaypostError, match="parts: is where the data come from; choose another folder"):
        waypost.convert(folder, folder, parts=2, overwrite=True)
    (folder / "notes.txt").write_text("mine")
    assert load(folder).fingerprint() == walk(seed=1).fingerprint()
    save(walk(), folder / "other.npz")
    with pytest.raises(WaypostError, match=r"other.npz: is there already and is no part"):
        waypost.convert(walk(), folder, parts=4, overwrite=True)
    with pytest.raises(WaypostError, match=r"other.npz: is no part of the set"):
        load(folder)


@pytest.mark.parametrize(
    ("out", "options", "message"),
    [
        ("parts", {"parts": 0}, "parts must be 1 or more, got 0"),
        ("parts", {"part_rows": -1}, "part_rows must be 1 or more, got -1"),
        ("parts", {"parts": 100_000}, "parts must be 99999 or fewer, got 100000"),
        ("parts", {"parts": 2, "part_rows": 2}, "give the number of parts or the rows of a part, not both"),
        ("parts.npz", {"parts": 2}, "parts go into a folder; leave the suffix out"),
        ("file", {"parts": 2}, "file: is a file; parts go into a folder"),
    ],
)
def test_mistakes_are_named_before_anything_is_read(
    out: str, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(WaypostError, match=message):
        waypost.convert(tmp_path / "not there.npz", tmp_path / out, **options)
    assert names(tmp_path) == ["file"]
