"""Data files by strangers: refused within bounds, and they read nothing but themselves."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from bounds import Answer, ask
from samples import walk
from strange_files import ELSEWHERE, SECRET, STRANGE, TOO_LARGE

import waypost

TRAIN = "train bc --out {out} --steps 2 --hidden 8 --batch-size 8 --data"
READERS = {
    "train": (TRAIN, "run"),
    "inspect": ("inspect", ""),
    "convert": ("convert", "converted.npz"),
}
SUFFIXES = (".npz", ".hdf5", ".parquet", ".csv")


def look(command: str, path: Path, out: Path) -> list[object]:
    line, name = READERS[command]
    words: list[object] = [*line.format(out=out / name).split(), path]
    return [*words, out / name] if command == "convert" else words


def spread_over(table: dict[str, object]) -> list[object]:
    """Every file by one of the commands, the commands in turn; all of them share the reader."""
    return [pytest.param([*READERS][i % len(READERS)], name, id=name) for i, name in enumerate(table)]


@pytest.mark.parametrize(("command", "what"), spread_over(TOO_LARGE))
def test_what_is_too_large_is_refused_before_it_is_read(command: str, what: str, tmp_path: Path) -> None:
    name, build = TOO_LARGE[what]
    path, out = tmp_path / name, tmp_path / "out"
    build(path)
    out.mkdir()
    ask(look(command, path, out)).refuses(path)
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("name", ["log.npz", "log.hdf5", "log.parquet", "log", "logs/log.npz"])
def test_the_same_files_are_read_without_what_is_strange(name: str, tmp_path: Path) -> None:
    waypost.save(walk(), tmp_path / name)
    assert ask(["inspect", tmp_path / Path(name).parts[0]]).code == 0


@pytest.mark.parametrize("what", ELSEWHERE)
@pytest.mark.parametrize("command", ["convert", "inspect"])
def test_no_file_reads_another(command: str, what: str, tmp_path: Path) -> None:
    name, build = ELSEWHERE[what]
    outside, path, out = tmp_path / "outside", tmp_path / "stranger" / name, tmp_path / "out"
    for folder in (outside, path.parent, out):
        folder.mkdir()
    build(path, outside)
    answer = ask(look(command, path, out))
    answer.refuses(path)
    assert SECRET not in answer.out + answer.err
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("kind", ["pipe", "zeros", "folder", "loop"])
def test_only_regular_files_are_data(kind: str, suffix: str, tmp_path: Path) -> None:
    path, out = tmp_path / f"log{suffix}", tmp_path / "out"
    out.mkdir()
    irregular(kind, path)
    ask(look("train", path, out)).refuses(path)
    ask(look("inspect", path, out)).refuses(path)
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("kind", ["pipe", "zeros"])
@pytest.mark.parametrize("file", ["main_data.hdf5", "metadata.json"])
def test_only_regular_files_are_minari_data(kind: str, file: str, tmp_path: Path) -> None:
    from samples import walk

    import waypost

    waypost.save(walk(), tmp_path / "log")
    (tmp_path / "log" / "data" / file).unlink()
    irregular(kind, tmp_path / "log" / "data" / file)
    ask(["inspect", tmp_path / "log"]).refuses(tmp_path / "log")


def irregular(kind: str, path: Path) -> None:
    make: dict[str, Callable[[], object]] = {
        "pipe": lambda: os.mkfifo(path),
        "zeros": lambda: path.symlink_to("/dev/zero"),
        "folder": lambda: path.mkdir(),
        "loop": lambda: path.symlink_to(path),
    }
    make[kind]()


DRAWN = ("lone surrogates", "escape sequences", "line ends")
"""What fonts have no signs for: the pictures are drawn."""


@pytest.mark.parametrize("what", STRANGE)
def test_strange_names_and_numbers_reach_neither_terminal_nor_page(
    what: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A page, or one line that says why there is none."""
    if what not in DRAWN:
        request.getfixturevalue("cheap")
    path, page = tmp_path / "log.npz", tmp_path / "page.html"
    STRANGE[what](path)
    answer = ask(["inspect", path, "--out", page])
    assert answer.code in (0, 2)
    if not page.exists():
        answer.refuses(path)
    shown = answer.out + answer.err
    assert not {"\x1b", "\r"} & set(shown)
    assert "Traceback" not in shown
    assert not any(line.startswith("waypost: error: b") for line in answer.err.splitlines())
    assert not page.exists() or "\x1b" not in page.read_text()


PATHS = ("[/red].npz", "[bold]x.npz", "\x1b[31mred.npz", "a\nb.npz", "\udcff.npz", "a\x07.npz")


@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize("name", PATHS, ids=ascii)
def test_strange_paths(name: str, tmp_path: Path) -> None:
    """They are shown as they are, or escaped; never obeyed."""
    folder = tmp_path / "folder"
    path, page, out = folder / name, folder / f"{name}.html", folder / f"out-{name}"
    lines = (["inspect", path], ["inspect", path, "--out", page], ["convert", path, out])
    for words in lines:
        check_shown(ask(words), 2)
    path.parent.mkdir(parents=True)
    waypost.save(walk(), path)
    for words in lines:
        check_shown(ask(words), 0)
    assert {file for file in folder.rglob("*") if file.is_file()} == {path, page, out}


def check_shown(answer: Answer, code: int) -> None:
    if code:
        answer.refuses()
    assert answer.code == code, answer.err
    assert not {"\x1b", "\x07"} & set(answer.out + answer.err)
    assert "Traceback" not in answer.err
