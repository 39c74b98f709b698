"""Every block of Python on a page runs, every command is one the parser takes, and the words are plain."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import numpy as np
import pandas
import pytest
import tyro
from pages import DOCS, PAGES, ROOT, blocks, notebooks, python_of, shorten

import waypost
from waypost.agents import ALGORITHMS
from waypost.cli import _STYLE, _with_expressions
from waypost.cli.options import COMMANDS, Place, train_type
from waypost.studies import candidates
from waypost.training.plan import plan

WRITTEN = [*PAGES, ROOT / "README.md"]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


# -- Python -----------------------------------------------------------------------------------------------------------


class TankEnv(gym.Env[np.ndarray, np.ndarray]):
    """What a page calls an environment of the reader's."""

    observation_space = gym.spaces.Box(-1e3, 1e3, (2,), np.float32)
    action_space = gym.spaces.Box(0.0, 100.0, (1,), np.float32)

    def __init__(self, setpoint: float = 60.0):
        self.setpoint = setpoint

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.rows = 0
        return np.full(2, 50.0, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.rows += 1
        return np.full(2, 50.0, np.float32), 0.0, False, self.rows > 2, {}


def log(rows: int = 60) -> pandas.DataFrame:
    """A log with the columns that the pages speak of."""
    rng = np.random.default_rng(0)
    numbers = ("temp", "level", "heat", "reward", "x", "y", "imu_a", "imu_b", "left", "right", "progress", "setpoint")
    table = pandas.DataFrame({name: rng.normal(50, 3, rows).round(3) for name in numbers})
    table["batch"] = table["trip"] = np.arange(rows) // 12
    table["level"] = rng.uniform(0, 1, rows).round(3)
    return table


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything the pages read."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "logs").mkdir()
    log().to_csv(folder / "logs" / "monday.csv", index=False)
    rng = np.random.default_rng(0)
    rows = {"observation": rng.normal(size=60), "reward": rng.normal(size=60), "episode": np.arange(60) // 12}
    valve = np.where(np.arange(60) % 3, "open", "closed")
    table = log().assign(**rows, action=rng.integers(0, 3, 60), valve=valve, heater=rng.uniform(0, 100, 60).round(2))
    table.to_csv(folder / "log.csv", index=False)
    columns = waypost.Columns(observations=("temp", "level"), actions=("heat",), rewards="reward", episode="batch")
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch)
        waypost.convert(folder / "logs", folder / "log.npz", columns=columns)
        run = waypost.train("por", folder / "log.npz", out=folder / "runs" / "tank", env="none")
        waypost.export(run, folder / "tank.npz")
        waypost.export(run, folder / "tank.onnx")
    data = waypost.load(folder / "log.npz")
    with h5py.File(folder / "huge.hdf5", "w") as file:
        for name in ("observations", "next_observations", "actions", "rewards", "terminals"):
            file[name] = getattr(data, name)
        file["timeouts"] = data.ends & ~data.terminals
    return folder


def of_data() -> dict[str, Any]:
    """What blocks of docs/data.md take as given."""
    table, modes = log(), np.where(np.arange(60) % 2, "auto", "off")
    columns = waypost.Columns(observations=("temp", "mode"), actions=("heat",), rewards="reward", episode="batch")
    pipeline = waypost.Pipeline(history=4, categories=("one-hot",))
    run = waypost.train("bc", table.assign(mode=modes), columns=columns, pipeline=pipeline, env="none")
    return {
        "frame": table,
        "run": run,
        "observations": np.zeros((8, 2)),
        "actions": np.arange(8)[:, None] % 4,
        "mixed": np.stack([np.arange(8) % 2, np.linspace(0, 1, 8)], axis=1),
        "more": waypost.load("log.csv", waypost.Columns(choices=4)),
        "label": lambda s, a, s2: waypost.Labels(s[:, 0], s[:, 0] > 55),
        "rewards": np.zeros(60),
        "rows": np.arange(60) % 5 > 0,
    }


GIVEN: dict[str, Callable[[], dict[str, Any]]] = {
    "docs/data.md": of_data,
    "docs/python.md": lambda: {"TankEnv": TankEnv},
}
"""What the Python of a page takes as given besides `waypost`."""
ELSEWHERE = ("docs/extending.md", "docs/learn/", "docs/weights.md")
"""Pages whose Python other tests run."""
RUN_HERE = [page for page in WRITTEN if python_of(page) and not name_of(page).startswith(ELSEWHERE)]


@pytest.mark.parametrize("page", RUN_HERE, ids=name_of)
def test_the_python_of_a_page_runs(page: Path, sandbox: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)
    shutil.copytree(sandbox, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tank", raising=False)  # that of another test, or of examples/tank
    shutil.rmtree(tmp_path / "runs")
    names: dict[str, Any] = {"waypost": waypost, **GIVEN.get(name_of(page), dict)()}
    for code in python_of(page):
        exec(compile(code, name_of(page), "exec"), names)


# -- commands ---------------------------------------------------------------------------------------------------------


def commands_of(page: Path) -> list[str]:
    """Every `waypost` command of a page: in blocks, in indented lines, and in the text where it has options."""
    text = page.read_text()
    whole = re.sub(r" *\\\n *>? *", " ", text)
    lines = [line.strip().removeprefix("$ ") for line in whole.splitlines()]
    lines = [re.sub(r"^taskset -c \d ", "", line) for line in lines]
    inline = re.findall(r"`(waypost [a-z0-9]+ [^`]*)`", re.sub(r"(?<=\S)\n *(?=\S)", " ", text))
    found = [line.split("  #")[0].split(" # ")[0].strip() for line in (*lines, *inline) if line.startswith("waypost ")]
    return [
        line for line in dict.fromkeys(found) if "..." not in line and line.split()[1].strip(".,:`") == line.split()[1]
    ]


@pytest.fixture(scope="module")
def kinds() -> dict[str, tuple[Any, Any]]:
    """What the parser of each command makes, and its default."""
    found: dict[str, tuple[Any, Any]] = {name: (kind, None) for name, kind in COMMANDS.items()}
    for name in ALGORITHMS:
        kind = train_type(name)
        found[f"train {name}"] = kind, kind(plan=plan(name, "t-maze"), place=Place())
    return found


tried: set[tuple[str, frozenset[str]]] = set()
"""Commands with the options they had: many pages have the same, and parsing takes its time."""


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_every_command_of_a_page_is_one_the_parser_takes(
    page: Path, kinds: dict[str, tuple[Any, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    for line in commands_of(page):
        words = shlex.split(line)[1:]
        name = " ".join(words[:2]) if words[0] == "train" else words[0]
        if name not in kinds or "--help" in words:
            continue  # a sentence that begins with Waypost's name, or an algorithm that a page adds
        options = frozenset(word.split("=")[0] for word in words if word.startswith("--"))
        if (name, options) in tried:
            continue
        tried.add((name, options))
        kind, default = kinds[name]
        rest = _with_expressions(words[len(name.split()) :])
        more = {} if default is None else {"default": default}
        try:
            tyro.cli(kind, args=rest, config=_STYLE, **more)
        except SystemExit:
            pytest.fail(f"{line}: {capsys.readouterr().err}")


def test_the_settings_of_sweeps_are_there() -> None:
    lines = [line.split() for page in WRITTEN for line in commands_of(page) if line.startswith("waypost sweep ")]
    assert len(lines) > 1
    for words in lines:
        given = [*pairwise(words)]
        candidates.read_grid(words[2], [value.strip("'") for option, value in given if option == "--grid"])
        candidates.read_ranges(words[2], [value for option, value in given if option == "--range"])


def test_pages_hold_commands_to_try() -> None:
    assert sum(len(commands_of(page)) for page in WRITTEN) > 100
    assert all(commands_of(DOCS / page) for page in ("adapt.md", "judge.md", "por.md", "results/table1.md"))


# -- words ------------------------------------------------------------------------------------------------------------

ARCHAIC = (
    r"\banew\b|\bwhoever\b|judged by|\bmend(s|ed)?\b|foreseen|numbered actions?|(?<!standard )(?<!own )deviations?\b"
)


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_the_words_of_a_page_are_plain_and_its_lines_short(page: Path) -> None:
    text = "".join(inside for language, inside in blocks(page.read_text()) if not language)
    assert not re.findall(ARCHAIC, re.sub(r"standard\s+deviation", "standard deviation", text))
    assert [line for line in text.splitlines() if len(line) > 120 and not line.startswith(("|", "    "))] == []


def test_every_page_that_the_code_speaks_of_is_there() -> None:
    spoken = re.compile(r"docs/[\w/-]+\.md")
    files = [
        file for folder in ("waypost", "scripts", "benchmarks", "examples") for file in (ROOT / folder).rglob("*.*")
    ]
    texts = [file.read_text() for file in files if file.suffix in (".py", ".toml", ".md")]
    assert {name for text in texts for name in spoken.findall(text) if not (ROOT / name).is_file()} == set()
    assert notebooks.LESSONS.is_dir()
