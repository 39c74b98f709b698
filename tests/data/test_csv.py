"""CSV files as people have them."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import waypost
from waypost import Columns, Pipeline, WaypostError
from waypost.data.formats.csv import find_decimal, find_separator

LOG = "obs_x,obs_y,action\n1.5,2,0.25\n-2.5,3,0.75\n"
NUMBERS = [[1.5, 2], [-2.5, 3]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LOG, ()),
        (LOG.replace(",", ";"), ("read with separator ';'; --separator and --decimal set this",)),
        (LOG.replace(",", "\t"), ("read with separator '\\t'; --separator and --decimal set this",)),
        (LOG.replace(",", "|"), ("read with separator '|'; --separator and --decimal set this",)),
        (
            LOG.replace(",", ";").replace(".", ","),
            ("read with separator ';', decimal comma; --separator and --decimal set this",),
        ),
        ("\N{ZERO WIDTH NO-BREAK SPACE}" + LOG, ()),
    ],
)
def test_separators_and_decimals_are_found(text: str, said: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(text)
    data = waypost.load(tmp_path / "log.csv")
    assert data.observations.tolist() == NUMBERS
    assert data.notes == said


def test_they_can_be_said() -> None:
    lines = ["a;b", "1,5;2", "3,5;4"]
    assert (find_separator(lines), find_decimal(lines, ";")) == (";", ",")
    assert find_separator(['"x;y",b', '"1;2",3']) == ","
    assert find_separator([]) == ","
    assert find_decimal(["a;b", "1,5;2.5"], ";") == "."


def test_what_is_said_is_not_looked_for(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(LOG.replace(",", ";").replace(".", ","))
    data = waypost.load(tmp_path / "log.csv", pipeline=Pipeline(separator="semicolon", decimal="comma"))
    assert (data.observations.tolist(), data.notes) == (NUMBERS, ())


@pytest.mark.parametrize("suffix", [".csv.gz", ".csv.zst", ".CSV.GZ"])
def test_packed_files(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"log{suffix}"
    if suffix.lower().endswith("gz"):
        path.write_bytes(gzip.compress(LOG.encode()))
    else:
        with pa.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(LOG.encode())
    assert waypost.load(path).observations.tolist() == NUMBERS
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(WaypostError, match="damaged or not a CSV file"):
        waypost.load(path)
    path.write_bytes(b"no packed file")
    with pytest.raises(WaypostError, match="damaged or not a CSV file"):
        waypost.load(path)


def test_a_packed_file_cannot_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waypost.data.formats.sizes.ALWAYS", 1 << 16)
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(LOG.encode() + b"1,2,3\n" * 2_000_000))
    with pytest.raises(WaypostError, match=r"damaged: .*its table claims"):
        waypost.load(tmp_path / "log.csv.gz")


def test_old_encodings_and_dates(tmp_path: Path) -> None:
    text = "Zeit;Temp [°C];Ventil\n03.01.2026 10:00;20,5;0,5\n03.01.2026 10:01;21,5;0,6\n03.01.2026 11:01;1,5;0,6\n"
    (tmp_path / "log.csv").write_bytes(text.encode("latin-1"))
    columns = Columns(observations=("Temp [°C]",), actions=("Ventil",), time="Zeit")
    data = waypost.load(tmp_path / "log.csv", columns)
    assert data.observation_names == ("Temp [°C]",)
    assert data.observations[:, 0].tolist() == [20.5, 21.5, 1.5]
    assert "encoding latin-1" in data.notes[0]
    assert data.action_names == ("Ventil",)
    assert np.array_equal(data.ends, [False, False, True])
