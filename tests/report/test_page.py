"""The page says everything about a run, and needs nothing from elsewhere."""

import re
from collections import Counter
from dataclasses import replace
from html import escape
from html.parser import HTMLParser

import numpy as np
import pytest

from waypost.envs.layout import Layout
from waypost.figures.maps import World
from waypost.report import page
from waypost.report.verdict import Verdict

MEASURES = ("return", "score", "success_rate", "episode_length")
VOID = {"meta", "img", "br", "link", "input", "hr"}


LAYOUT = Layout((0.0, 4.0, 0.0, 4.0), [(1.5, 0.0, 1.0, 3.0)], (0.2, 0.2, 0.5, 0.5), (3.2, 0.2, 0.5, 0.5))


def make_world(seed: int = 0) -> World:
    rng = np.random.default_rng(seed)
    axis = np.linspace(0.1, 3.9, 30)
    x, y = np.meshgrid(axis, axis)
    value = np.where((x > 1.5) & (x < 2.5) & (y < 3), np.nan, x + y + seed)
    points = rng.uniform(0, 4, (60, 2))
    rollouts = [np.cumsum(rng.normal(0, 0.05, (150, 2)), axis=0) + 2 for _ in range(20)]
    return World(LAYOUT, axis, axis, value, points, points + 0.01, rollouts, [True] * 17 + [False] * 3)


@pytest.fixture(scope="module")
def report() -> page.Report:
    per_seed = [
        {"seed": 0, "return": 0.998, "score": 99.8, "success_rate": 0.998, "episode_length": 171.24},
        {"seed": 7, "return": 1234.4, "score": 64.3, "success_rate": 0.643, "episode_length": 1180.6},
    ]
    step = np.tile(np.arange(500, 5001, 500), 2)
    return page.Report(
        title="POR on four-rooms",
        result={
            "algorithm": "por",
            "data": "four-rooms-data",
            "task": "four-rooms-task",
            "suite": "waypost-suite",
            "steps": 60000,
            "per_seed": per_seed,
            "mean": dict(zip(MEASURES, (617.2, 82.06, 0.8206, 675.9), strict=True)),
            "std": dict(zip(MEASURES, (616.7, 17.76, 0.1776, 504.7), strict=True)),
            "iqm": dict(zip(MEASURES, (617.3, 82.16, 0.8216, 675.8), strict=True)),
            "interval": dict(
                zip(MEASURES, ([0.5, 1234.4], [64.3, 99.8], [0.643, 0.998], [171.2, 1180.6]), strict=True)
            ),
            "seconds": 81.2,
            "versions": {"waypost": "0.1.0", "jax": "0.6.99"},
        },
        config={
            "algorithm": "por",
            "steps": 60000,
            "seeds": [0, 7],
            "evaluation": {"every": 5000, "episodes": 150},
            "resume_from": None,
            "config": {"expectile": 0.7, "hidden": [256, 128], "layer_norm": True, "learning_rate": 0.0003},
        },
        field_docs={"expectile": "Which expectile V fits.", "hidden": "Width of each hidden layer."},
        metrics={
            "step": step,
            "seed": np.repeat([0, 7], 10),
            "stage": np.where(step <= 2500, "value", "executor"),
            "value_loss": np.where(step <= 2500, 1 / step, np.nan),
            "executor_loss": np.where(step <= 2500, np.nan, -step / 1e3),
        },
        evaluations={
            "step": np.array([2500, 5000] * 2),
            "seed": np.repeat([0, 7], 2),
            "success_rate": np.array([0.5, 0.998, 0.3, 0.643]),
            "score": np.full(4, np.nan),
            "return": np.full(4, np.nan),
            "episode_length": np.full(4, np.nan),
        },
        worlds=[("Without the key", make_world(0)), ("With the key", make_world(1))],
    )


@pytest.fixture(scope="module")
def html(report: page.Report) -> str:
    return page.render_report(report)


class Outline(HTMLParser):
    """Collects elements, checks nesting, and keeps the text outside pictures."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("td", "th"):
            self.cells.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open and "svg" not in self.open:
            self.words += data
        if {"td", "th"} & set(self.open):
            self.cells[-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def plain(self) -> str:
        return re.sub(r"\s+", " ", self.words)


def without(report: page.Report, *measures: str) -> page.Report:
    """Return the report with these results unknown."""
    unknown = dict.fromkeys(measures)
    result = dict(report.result)
    result["per_seed"] = [{**row, **unknown} for row in result["per_seed"]]
    for name in ("mean", "std", "iqm", "interval"):
        result[name] = {**result[name], **unknown}
    return replace(report, result=result)


def assert_self_contained(html: str) -> None:
    for reference in re.findall(r"""(?:src|href|srcset|action)\s*=\s*["']([^"']*)""", html):
        assert reference.startswith(("#", "data:image/png;base64,")), reference[:80]
    for reference in re.findall(r"url\(([^)]*)\)", html):
        assert reference.startswith("#"), reference[:80]
    assert not re.search(r"@import|<script|<link|<iframe|<object|<metadata|<!ENTITY", html, re.IGNORECASE)
    addresses = re.findall(r"""([\w:]+=["'])?https?://""", html)
    assert set(addresses) <= {'xmlns="', 'xmlns:xlink="'}


def test_page_is_self_contained_and_small(html: str) -> None:
    assert html.startswith("<!DOCTYPE html>")
    assert_self_contained(html)
    assert len(html.encode()) < 3_000_000


def test_every_result_is_in_the_table(html: str) -> None:
    cells = [cell.replace(page.SPACE, " ") for cell in Outline(html).cells]
    expected = [
        ["Seed 0", "0.998", "99.8", "99.8 %", "171.2"],
        ["Seed 7", "1 234", "64.3", "64.3 %", "1 180.6"],
        ["Mean", "617.2", "82.1", "82.1 %", "675.9"],
        ["Standard deviation", "616.7", "17.8", "17.8 %", "504.7"],
        ["Interquartile mean (IQM)", "617.3", "82.2", "82.2 %", "675.8"],
        ["Range of the seeds", "0.998 to 1 234", "64.3 to 99.8", "64.3 % to 99.8 %", "171.2 to 1 180.6"],
    ]
    for row in expected:
        at = cells.index(row[0])
        assert cells[at : at + 5] == row


def test_five_seeds_have_an_interval(report: page.Report) -> None:
    seeds = [{"seed": seed, "score": float(seed)} for seed in range(5)]
    outline = Outline(page.render_report(replace(report, result={**report.result, "per_seed": seeds})))
    cells = [cell.replace(page.SPACE, " ") for cell in outline.cells]
    at = cells.index("95 % interval")
    assert cells[at : at + 3] == ["95 % interval", page.DASH, "0.0 to 4.0"]  # 2 +- 2.776 sqrt(2.5 / 5)
    assert "Range of the seeds" not in cells


def test_every_setting_is_in_a_table_with_its_description(html: str) -> None:
    cells = Outline(html).cells
    rows = {name: cells[at + 1 : at + 3] for at, name in enumerate(cells)}
    assert rows["expectile"] == ["0.7", "Which expectile V fits."]
    assert rows["hidden"] == ["[256, 128]", "Width of each hidden layer."]
    assert rows["layer_norm"] == ["true", page.DASH]
    assert rows["learning_rate"][0] == "0.0003"
    for name, value in {"algorithm": "por", "steps": "60000", "seeds": "[0, 7]", "evaluation.every": "5000"}.items():
        assert rows[name][0] == value
    assert rows["evaluation.episodes"][0] == "150"
    assert rows["resume_from"][0] == page.DASH


def test_header_and_footer_name_the_run(html: str) -> None:
    text = Outline(html).plain
    for part in ("POR on four-rooms", "four-rooms-data", "four-rooms-task", "waypost-suite"):
        assert part in text
    assert "waypost 0.1.0, jax 0.6.99" in text
    assert "took 81.2 s" in text


def test_summary_takes_the_best_measure_there_is(report: page.Report) -> None:
    def says(changed: page.Report) -> str:
        return page.summary(changed).replace(page.SPACE, " ")

    assert says(report) == "POR reached the goal in 82.1 % of 300 rollouts, 2 seeds, 60 000 steps, 81 s."
    score = says(without(report, "success_rate"))
    assert score.startswith("POR reached a mean score of 82.1 (waypost-suite suite), 2 seeds")
    assert says(without(report, "success_rate", "score")).startswith("POR reached a mean return of 617.2, 2 seeds")
    assert says(without(report, *MEASURES)).startswith("POR trained without a simulator: no rollouts, 2 seeds")
    assert "of its rollouts" in says(replace(report, config={}))
    waypoint = replace(report, result={**report.result, "algorithm": "waypoint"})
    assert says(waypoint).startswith("Waypoint reached the goal")


@pytest.mark.parametrize(
    ("seconds", "words"), [(3.21, "3.2 s"), (81.2, "81 s"), (600, "10 min"), (9000, "2.5 h"), (7.2e6, "2 000.0 h")]
)
def test_durations_are_in_fitting_units(seconds: float, words: str) -> None:
    assert page._duration(seconds).replace(page.SPACE, " ") == words


def test_one_seed_is_singular(report: page.Report) -> None:
    result = {**report.result, "per_seed": report.result["per_seed"][:1]}
    assert f"1{page.SPACE}seed," in page.summary(replace(report, result=result))


def test_pictures_have_captions_and_descriptions(html: str) -> None:
    outline = Outline(html)
    pictures = [svg for svg in outline.all("svg") if svg.get("role") == "img"] + outline.all("img")
    assert len(pictures) == len(outline.all("figure")) == len(outline.all("figcaption")) == 2 * 3 + 1 + 2
    assert all(picture.get("aria-label") or picture.get("alt") for picture in pictures)
    assert "17 of 20 rollouts reach the goal" in html
    for words in ("Without the key: value of", "With the key: value of", "mean of 2 seeds", "executor_loss"):
        assert words in outline.plain
    assert "Line chart of value_loss against the training step." in html


def test_table_headers_have_scope_and_ids_are_unique(html: str) -> None:
    outline = Outline(html)
    assert {header.get("scope") for header in outline.all("th")} == {"col", "row"}
    ids = Counter(attributes["id"] for _, attributes in outline.tags if "id" in attributes)
    assert len(ids) > 50
    assert max(ids.values()) == 1
    targets = set(re.findall(r'href="#([^"]+)"', html)) | set(re.findall(r"url\(#([^)]+)\)", html))
    assert targets
    assert targets <= set(ids)


def test_a_heavy_picture_goes_in_as_png(report: page.Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "LARGEST_SVG", 1)
    html = page.render_report(replace(report, worlds=report.worlds[:1]))
    outline = Outline(html)
    assert not outline.all("svg")
    assert len(outline.all("img")) == 6
    assert all(image["alt"] for image in outline.all("img"))
    assert_self_contained(html)


def test_everything_supplied_is_escaped(report: page.Report) -> None:
    bad = '"><script>alert(1)</script>'
    result = {
        **report.result,
        "algorithm": bad,
        "data": bad,
        "task": bad,
        "suite": bad,
        "versions": {bad: bad},
        "per_seed": [{"seed": bad}],
    }
    html = page.render_report(
        page.Report(
            title=bad,
            result=result,
            config={bad: bad, "nested": {bad: [bad]}, "config": {bad: bad, "list": [bad]}},
            field_docs={bad: bad, "list": bad},
            metrics={**report.metrics, bad: report.metrics["step"], "stage": np.array([bad, "b"] * 10)},
            evaluations=report.evaluations,
            worlds=[(bad, report.worlds[0][1])],
        )
    )
    assert "<script" not in html.lower()
    assert html.count(escape("<script>alert(1)</script>")) > 20
    assert not any("script" in name for _, attributes in Outline(html).tags for name in attributes)


def test_page_without_worlds_evaluations_or_metrics(report: page.Report) -> None:
    empty = {name: np.array([]) for name in report.evaluations}
    html = page.render_report(replace(report, worlds=[], evaluations=empty, metrics={}))
    outline = Outline(html)
    assert not outline.all("svg")
    assert not outline.all("img")
    assert "Maps" not in outline.plain
    assert "Nothing was evaluated" in outline.plain
    assert "No training metric" in outline.plain


def test_page_without_a_simulator_shows_dashes(report: page.Report) -> None:
    bare = without(replace(report, worlds=[], evaluations={}), *MEASURES)
    outline = Outline(page.render_report(bare))
    assert "no rollouts" in outline.plain
    for name in ("Seed 0", "Mean", "Range of the seeds"):
        at = outline.cells.index(name)
        assert outline.cells[at + 1 : at + 5] == [page.DASH] * 4
    assert "None" not in outline.plain
    assert "nan" not in outline.plain


def test_page_of_a_run_without_a_task_shows_its_last_losses(report: page.Report) -> None:
    result = {**without(report, *MEASURES).result, "task": None}
    nan = float("nan")
    metrics = {
        "step": np.array([1, 1, 2, 2]),
        "seed": np.array([0, 1, 0, 1]),
        "policy_loss": np.array([9.0, 8.0, 1.5, 2.5]),
        "held_out_policy_loss": np.array([7.0, 6.0, nan, 3.25]),
    }
    bare = replace(report, result=result, worlds=[], evaluations={}, metrics=metrics)
    outline = Outline(page.render_report(replace(bare, verdict=Verdict("Not judged.", command="waypost judge RUN"))))
    assert "Held out policy loss" in outline.cells
    at = outline.cells.index("Seed 0")
    assert outline.cells[at : at + 6] == ["Seed 0", "1.5", "7", "Seed 1", "2.5", "3.25"]
    assert "waypost judge" in outline.plain
    nothing = Outline(page.render_report(replace(bare, metrics={})))
    assert "no loss was recorded" in nothing.plain
    assert "Seed 0" not in nothing.cells


def test_page_with_the_least_possible(report: page.Report) -> None:
    least = page.Report("t", {"algorithm": "bc", "per_seed": [], "mean": None, "seconds": None}, {"config": None})
    text = Outline(page.render_report(least)).plain
    assert "BC trained without a simulator: no rollouts." in text
    assert "no loss was recorded" in text


def test_maps_with_nothing_to_show_are_left_out(report: page.Report) -> None:
    world = report.worlds[0][1]
    blind = replace(world, value=np.full_like(world.value, np.nan), arrow_points=np.zeros((0, 2)))
    html = page.render_report(replace(report, worlds=[("", blind)], metrics={}, evaluations={}))
    assert len(Outline(html).all("figure")) == 1
    assert "Paths of the rollouts" in html
