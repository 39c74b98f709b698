"""The page about a data set says what was found and shows the data, whatever state they are in."""

from __future__ import annotations

import io
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markupsafe import Markup
from rich.console import Console
from test_page import Outline, assert_self_contained

from waypost.agents import supports
from waypost.cli import screen
from waypost.data.dataset import Dataset
from waypost.data.inspection import inspect
from waypost.data.inspection.findings import Column
from waypost.report import inspection as page
from waypost.report.page import DASH, SPACE, Picture

ROWS = 600


def data(**changes: Any) -> Dataset:
    """A walk in a plane: episodes of 60 rows, every other one ends early in a terminal."""
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (ROWS, 2))
    whole = {
        "observations": np.cumsum(actions, axis=0) - actions,
        "actions": actions,
        "rewards": rng.normal(size=ROWS),
        "terminals": np.arange(ROWS) % 120 == 40,
        "timeouts": np.arange(ROWS) % 60 == 59,
        "action_low": -1.0,
        "action_high": 1.0,
        "name": "walk",
        "observation_names": ("x", "y"),
    }
    return Dataset.from_arrays(**{**whole, **changes}, finite=False)


def broken() -> Dataset:
    """NaN and infinities, no reward, no width of an action, and names that are not HTML."""
    observations = np.random.default_rng(0).normal(size=(ROWS, 4))
    observations[:, 2] = np.nan
    observations[3, 0] = np.inf
    return data(
        observations=observations,
        rewards=np.full(ROWS, np.nan),
        actions=np.full((ROWS, 2), np.nan),
        action_low=None,
        action_high=None,
        name="<script>",
        observation_names=("$a^$", "<script>", "[red]", "&"),
    )


def html(dataset: Dataset) -> str:
    return page.render_inspection(inspect(dataset, supports(dataset)), dataset)


@pytest.fixture(scope="module")
def plain() -> str:
    return html(data())


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what takes long: turning figures into text."""
    monkeypatch.setattr(page, "picture", lambda figure, caption, alt: Picture(Markup(""), caption))


def pictures(text: str) -> list[str]:
    outline = Outline(text)
    found = [svg for svg in outline.all("svg") if svg.get("role") == "img"] + outline.all("img")
    return [str(picture.get("aria-label") or picture.get("alt")) for picture in found]


def test_page_is_self_contained_and_written_whole(tmp_path: Path) -> None:
    dataset = data()
    path = tmp_path / "deep" / "walk.html"
    assert page.write_inspection(inspect(dataset), dataset, path) == path
    text = path.read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert_self_contained(text)
    assert len(text) < 1_000_000
    assert [entry.name for entry in path.parent.iterdir()] == ["walk.html"]


@pytest.mark.usefixtures("undrawn")
def test_page_shows_findings_facts_algorithms_and_columns() -> None:
    dataset = data(rewards=np.zeros(ROWS), actions=np.tile([[0.25, -1.5], [-0.75, 0.5]], (ROWS // 2, 1)))
    outline = Outline(html(dataset))
    assert "Health of walk 600 transitions in 15 episodes: 3 warnings, 1 note." in outline.plain
    assert "Warning, actions without effect" in outline.plain
    assert "Warning, no reward signal: all rewards are 0" in outline.plain
    assert "Warning, actions outside: actions exceed their bounds by up to 0.5" in outline.plain
    assert re.search(r"Rows \d+, \d+, \d+, \d+, \d+, \.\.\. \(\d+ in all\)", outline.plain)
    assert outline.plain.index("Warning, no reward") < outline.plain.index("Summary")
    cells = outline.cells
    assert cells[cells.index("por") + 1] == "no"
    assert cells[cells.index("bc") : cells.index("bc") + 3] == ["bc", "yes", "the data have actions"]
    assert cells[cells.index("Rewards") + 1] == "0 % nonzero, 1 distinct value"
    at = cells.index("reward")
    assert cells[at : at + 7] == ["reward", "reward", "0", "0", "0", "0", "never changes"]
    assert {header.get("scope") for header in outline.all("th")} == {"col", "row"}


@pytest.mark.usefixtures("undrawn")
def test_sound_data_are_told_so() -> None:
    ends = data().ends
    next_observations = np.where(ends[:, None], data().observations + 0.1, np.roll(data().observations, -1, axis=0))
    dataset = data(next_observations=next_observations)
    assert "No problems found." in Outline(html(dataset)).plain


def test_every_picture_is_there_and_described(plain: str) -> None:
    words = pictures(plain)
    assert [text.split(",")[0].split(" of ")[0] for text in words] == [
        "Histogram",
        "Histogram",
        "Histogram",
        "Density",
        "Ranges",
        "Histogram",
        "Histogram",
    ]
    assert "Histogram of action 1, bounds -1 and 1." in words
    assert len(Outline(plain).all("figure")) == len(words) == 7


def test_ids_are_unique(plain: str) -> None:
    ids = [attributes["id"] for _, attributes in Outline(plain).tags if "id" in attributes]
    assert len(ids) == len(set(ids)) > 50


def test_page_of_the_worst_data_is_whole_and_escaped() -> None:
    text = html(broken())
    outline = Outline(text)
    assert "<script" not in text.lower()
    assert "Error, not finite: observations are NaN or infinite" in outline.plain
    assert "nan" not in outline.plain
    assert [picture.split()[0] for picture in pictures(text)] == ["Histogram", "Density", "Ranges"]
    assert "Histogram of action" not in text


@pytest.mark.parametrize("dataset", [data().without_actions().without_rewards(), data(observation_names=())])
def test_page_without_some_columns(dataset: Dataset) -> None:
    assert Outline(html(dataset)).plain


@pytest.mark.usefixtures("undrawn")
def test_many_columns_and_actions_are_cut_short_and_said_so() -> None:
    rng = np.random.default_rng(0)
    dataset = Dataset.from_arrays(rng.normal(size=(50, 40)), actions=rng.normal(size=(50, 26)))
    outline = Outline(html(dataset))
    assert "Ranges of the first 30 of 66 columns" in outline.plain
    assert "2 more actions are not drawn." in outline.plain
    assert "action 25" in outline.cells


def choosing(count: int = 4) -> Dataset:
    """The same walk by discrete actions, of which the last is never taken."""
    return data(actions=np.random.default_rng(1).integers(0, count - 1, ROWS), action_count=count)


def test_page_shows_how_often_each_of_the_discrete_actions_is_taken() -> None:
    dataset = choosing()
    text = html(dataset)
    outline = Outline(text)
    assert_self_contained(text)
    assert pictures(text)[-1] == "How often each of the 4 discrete actions is taken."
    assert sum("action" in words for words in pictures(text)) == 2
    assert "Ranges of all columns but the action" in outline.plain
    assert "Histogram of action" not in text
    cells = outline.cells
    assert cells[cells.index("Actions") + 1] == "4 discrete"
    assert cells[cells.index("Actions taken") + 1].endswith("3 in 0 %")
    at = cells.index("4 discrete actions")
    assert cells[at - 6 : at] == ["action", "action", "0", DASH, DASH, "2"]
    assert "Note, unused actions: 1 of 4 discrete actions are never taken (3)" in outline.plain


# -- figures ---------------------------------------------------------------------------------------


def test_page_of_very_many_discrete_actions_and_of_names_that_are_no_text(tmp_path: Path) -> None:
    names = ("\ud800", "\x1b[31m" + "long " * 10_000)
    dataset = data(actions=np.arange(ROWS), action_count=200_000, observation_names=names, name="\udcff.npz")
    dataset = replace(dataset, notes=("half a pair: \ud800",))
    begun = time.monotonic()
    page.write_inspection(inspect(dataset), dataset, tmp_path / "page.html")
    assert time.monotonic() - begun < 10
    text = (tmp_path / "page.html").read_text()
    assert "How often each of the 200000 discrete actions is taken." in text
    for shown in ("\\udcff.npz", "half a pair: \\ud800", "\\x1b[31mlong"):
        assert shown in text
    assert "\x1b" not in text


def test_neighbours_share_a_bar_where_there_are_many_actions() -> None:
    taken = np.random.default_rng(0).integers(0, 9, 12_345)
    figure = page.choice_bars(taken.tolist())
    heights = figure.axes[0].patches[0].get_data().values
    assert len(heights) == page.MOST_BARS
    assert heights.sum() == taken.sum()


def test_coverage_of_a_plane_is_the_plane_itself() -> None:
    seen = page.coverage(data())
    assert seen is not None
    assert seen.axes == ("x", "y")
    assert seen.plane
    np.testing.assert_array_equal(seen.points, data().observations)


def test_coverage_of_more_columns_is_their_principal_components() -> None:
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(500, 2))
    states = np.column_stack([hidden @ rng.normal(size=(2, 5)) * 10.0 ** np.arange(5), np.zeros(500)])
    seen = page.coverage(Dataset.from_arrays(states))
    assert seen is not None
    assert not seen.plane
    assert f"principal components, 100{SPACE}%" in seen.words
    # Uncorrelated, the larger first.
    covariance = np.cov(seen.points.T)
    assert covariance[0, 0] > covariance[1, 1]
    assert abs(covariance[0, 1]) < 1e-6 * covariance[0, 0]


def test_states_without_two_directions_have_no_coverage_picture() -> None:
    assert page.coverage(Dataset.from_arrays(np.column_stack([np.arange(9.0), *np.zeros((2, 9))]))) is None
    assert page.coverage(Dataset.from_arrays(np.full((9, 3), np.nan), finite=False)) is None


def test_coverage_map_counts_every_state() -> None:
    seen = page.coverage(data())
    assert seen is not None
    axes = page.coverage_map(seen).axes[0]
    assert axes.collections[0].get_array().sum() == ROWS
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_aspect()) == ("x", "y", 1.0)


def test_length_histogram_keeps_terminals_and_timeouts_apart() -> None:
    figure = page.length_histogram(data())
    heights = [sum(bar.get_height() for bar in bars) for bars in figure.axes[0].containers]
    assert heights == [10, 5]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["timeout (10)", "terminal (5)"]


def test_action_histogram_shows_the_bounds() -> None:
    axes = page.action_histogram(np.linspace(-0.5, 0.5, 100), "left $wheel$", (-1.0, 2.0)).axes[0]
    assert [line.get_xdata()[0] for line in axes.lines] == [-1, 2]
    assert sum(bar.get_height() for bar in axes.patches) == 100
    assert axes.get_title(loc="left") == "left $wheel$"


def test_choice_bars_are_as_high_as_the_choices_are_frequent() -> None:
    axes = page.choice_bars((5, 0, 7)).axes[0]
    assert [bar.get_height() for bar in axes.patches] == [5, 0, 7]
    assert [bar.get_x() + bar.get_width() / 2 for bar in axes.patches] == pytest.approx([0, 1, 2])
    assert axes.get_xlabel() == "index of the action"


def test_column_ranges_reach_from_smallest_to_largest() -> None:
    columns = [
        Column("a$b$", "observation", -2, 0, 1, 5, False, None),
        Column("c", "action", 3, 3, 0, 3, True, None),
    ]
    huge = Column("d", "observation", 0, 5e5, 1e5, 1e6, False, None)
    axes = page.column_ranges([*columns, huge]).axes[0]
    lines, bars = (collection.get_segments() for collection in axes.collections)
    np.testing.assert_array_equal(lines, [[[0, 0], [1, 0]], [[0, 2], [1, 2]]])
    np.testing.assert_allclose(bars, [[[1 / 7, 0], [3 / 7, 0]], [[0.4, 2], [0.6, 2]]])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a$b$", "c", "d"]
    assert [text.get_text() for text in axes.texts] == ["-2", "5", "3", "3", "0", "1e+06"]


# -- the terminal ----------------------------------------------------------------------------------


def shown(dataset: Dataset) -> str:
    out = io.StringIO()
    console: Any = Console(file=out, width=200)
    screen.show_inspection(inspect(dataset, supports(dataset)), console)
    return out.getvalue()


def test_the_terminal_shows_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(data(rewards=np.zeros(ROWS)))
    assert "warning: all rewards are 0" in text
    assert re.search(r"episodes +│ 15 ", text)
    assert re.search(r"action 1 +│ +-0\.99", text)
    assert re.search(r"por +│ no +│ all rewards are 0", text)
    assert text.rstrip().splitlines()[-1] == "600 transitions in 15 episodes: 1 warning, 1 note"


def test_the_terminal_shows_discrete_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(choosing())
    assert re.search(r"actions +│ 4 discrete", text)
    assert re.search(r"actions taken +│ 0 in .* %, 1 in .* %, 2 in .* %, 3 in 0 %", text)
    assert re.search(r"action +│ +0 +│ +- +│ +- +│ +2 +│ +4 discrete actions", text)


def test_names_are_not_markup_in_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(broken())
    assert "[red]" in text
    assert "error: observations are NaN or infinite in 600 of 600 rows ($a^$, [red])" in text


def test_very_many_columns_are_cut_short_in_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = Dataset.from_arrays(np.random.default_rng(0).normal(size=(20, 50)))
    text = shown(wide)
    assert "observation 39" in text
    assert "observation 40" not in text
    assert "and 10 more columns" in text
