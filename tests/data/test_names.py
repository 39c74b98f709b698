"""Names of sources: several, patterns, and folders inside folders."""

from __future__ import annotations

from pathlib import Path

import pytest

import waypost
from waypost import WaypostError
from waypost.data.names import joined, members, short_name
from waypost.data.sources import parts


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, name in enumerate(("b.csv", "a.csv", "deep/er/c.csv", "deep/d.csv", ".hidden/e.csv")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"obs,action\n{number},0.5\n{number},0.25\n")
    (tmp_path / "readme.txt").write_text("nothing")
    return tmp_path


def order(data: waypost.Dataset) -> list[float]:
    return data.observations[::2, 0].tolist()


def test_folders_are_read_with_those_inside_them(folder: Path) -> None:
    assert order(waypost.load(folder)) == [1, 0, 3, 2]


def test_links_out_of_a_folder_are_refused(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "secret.csv").write_text("obs,action\n9,0.5\n")
    (folder / "deep" / "link.csv").symlink_to(other / "secret.csv")
    with pytest.raises(WaypostError, match="is a link that leads out of the folder"):
        waypost.load(folder)


def test_patterns(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert order(waypost.load(f"{folder}/*.csv")) == [1, 0]
    assert order(waypost.load(f"{folder}/deep/**/*.csv")) == [3, 2]
    assert order(waypost.load(f"{folder}/d*")) == [3, 2]
    monkeypatch.chdir(folder)
    assert parts("[ab].csv") == ["a.csv", "b.csv"]
    (folder / "x[1].csv").write_text("obs,action\n7,0.5\n")
    assert order(waypost.load("x[1].csv")) == [7]
    with pytest.raises(WaypostError, match="no file matches this pattern"):
        waypost.load("*.parquet")


def test_several_at_once(folder: Path) -> None:
    several = [folder / "b.csv", f"{folder}/deep/*.csv"]
    data = waypost.load(several)
    assert order(data) == [0, 3]
    assert data.parts == ((str(folder / "b.csv"), 2), (str(folder / "deep" / "d.csv"), 2))
    assert waypost.convert(several, folder / "out" / "both.npz") == 4


def test_a_plus_in_a_name_joins_nothing_that_is_there(folder: Path) -> None:
    path = folder / "a+b.csv"
    path.write_text("obs,action\n8,0.5\n")
    assert members(path) == [str(path)]
    assert order(waypost.load(path)) == [8]
    with pytest.raises(WaypostError, match="rename it"):
        joined([path, folder / "a.csv"])


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("logs/*.csv", "logs"),
        ("logs/2026/**/*.csv.gz", "2026"),
        ("*.csv", "data"),
        ("logs/day.csv.gz", "day"),
        ("logs/day.v2.csv", "day.v2"),
        ("hopper-medium-v2", "hopper-medium-v2"),
        ("D4RL/antmaze/umaze-v1", "umaze-v1"),
    ],
)
def test_what_data_are_called_after_their_source(source: str, name: str) -> None:
    assert short_name(source) == name


def test_counts_of_several_files_are_added_up(tmp_path: Path) -> None:
    for name in ("a", "b"):
        rows = "".join(f"{'' if i == 3 else i},0.5\n" for i in range(30))
        (tmp_path / f"{name}.csv").write_text(f"obs_x,action\n{rows}")
    assert waypost.load(tmp_path).notes == ("obs_x: 2 missing values filled (hold); --missing sets this",)
