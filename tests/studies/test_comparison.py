"""Comparisons: what is trained and for how long, what is skipped, what is said where nothing could be trained."""

from __future__ import annotations

import csv
import errno
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import waypost
from waypost import statistics
from waypost.agents import ALGORITHMS
from waypost.api import compare
from waypost.cli import main
from waypost.envs.tasks import Protocol
from waypost.errors import WaypostError
from waypost.report.comparison import render_comparison, summary
from waypost.statistics import summarise
from waypost.studies.comparison import (
    BEHAVIOUR,
    Comparison,
    Entry,
    _ranked,
    as_csv,
    as_markdown,
    compare as train_all,
    read_settings,
    with_total_updates,
)
from waypost.training.directory import claimed
from waypost.training.plan import plan

ONE = Protocol(every=0, episodes=2)
SMALL: dict[str, dict[str, Any]] = {
    "bc": {"hidden": [8]},
    "bc10": {"hidden": [8]},
    "por": {"value_hidden": [8], "guide_hidden": [8], "executor_hidden": [8]},
}


def small(out: Path, algorithms: tuple[str, ...] = ("bc", "por"), make: Any = train_all, **options: Any) -> Comparison:
    """Without the page, or with it: `make=compare`."""
    known: dict[str, Any] = {"seeds": 2, "steps": 20, "evaluation": ONE, "settings": SMALL}
    return make(["t-maze"], algorithms, out=out, **{**known, **options})


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Comparison, Path]:
    out = tmp_path_factory.mktemp("compare")
    return small(out), out


def test_every_algorithm_is_trained_as_if_alone(finished: tuple[Comparison, Path]) -> None:
    comparison, out = finished
    assert [(entry.data, entry.algorithm) for entry in comparison.entries] == [
        ("t-maze", "bc"),
        ("t-maze", "por"),
        ("t-maze", BEHAVIOUR),
    ]
    alone = waypost.train("bc", "t-maze", seeds=2, steps=20, evaluation=ONE, hidden=(8,))
    entry = comparison.entries[0]
    assert entry.values == tuple(each["score"] for each in alone.result["per_seed"])
    assert entry.mean == alone.result["mean"]["score"]
    assert entry.steps == 20
    assert entry.run is not None
    assert np.array_equal(entry.run.policy.act([5.0, 1.0]), alone.policy.act([5.0, 1.0]))
    assert (out / "t-maze" / "bc" / "result.json").is_file()


def test_the_datas_own_row_is_their_mean_return(finished: tuple[Comparison, Path]) -> None:
    entry = finished[0].entries[-1]
    assert entry.mean == pytest.approx(100 * waypost.load("t-maze").episode_returns.mean())
    assert entry.rank is None


def test_what_is_finished_is_not_trained_again(finished: tuple[Comparison, Path]) -> None:
    comparison, out = finished
    stamps = {path: path.stat().st_mtime_ns for path in out.glob("t-maze/*/result.json")}
    again = small(out)
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    assert [entry.values for entry in again.entries] == [entry.values for entry in comparison.entries]
    more = small(out, ("bc", "por", "bc10"))
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    assert [entry.algorithm for entry in more.entries] == ["bc", "por", "bc10", BEHAVIOUR]


def test_a_folder_of_another_comparison_is_not_mixed_with_this_one(finished: tuple[Comparison, Path]) -> None:
    with pytest.raises(WaypostError, match="was started with steps = 20"):
        small(finished[1], ("bc",), steps=30)


def test_a_folder_in_use_or_a_full_disk_ends_the_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        claimed(tmp_path / "t-maze" / "bc", resume=True),
        pytest.raises(WaypostError, match="t-maze/bc: another process is training there"),
    ):
        small(tmp_path, ("bc",))

    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        small(tmp_path, ("bc",))
    assert caught.value.filename == str(tmp_path / "t-maze" / "bc" / "config.json")


def test_the_tables_hold_the_same_numbers(finished: tuple[Comparison, Path]) -> None:
    comparison, out = finished
    small(out, make=compare)
    rows = list(csv.DictReader((out / "results.csv").read_text().splitlines()))
    assert [row["algorithm"] for row in rows] == ["bc", "por", BEHAVIOUR]
    for row, entry in zip(rows, comparison.entries, strict=True):
        assert float(row["mean"]) == entry.mean
    markdown, page = (out / "results.md").read_text(), (out / "compare.html").read_text()
    for text in (markdown, page):
        assert "mean of the data" in text
        assert f"{comparison.entries[0].mean:.1f}" in text
    assert (out / "t-maze" / "curves.png").stat().st_size > 1000


def test_runs_of_older_versions_get_a_range_too(finished: tuple[Comparison, Path], tmp_path: Path) -> None:
    """Their result.json has no range, and an interval however few the seeds."""
    folder = shutil.copytree(finished[1], tmp_path / "old")
    file = folder / "t-maze" / "bc" / "result.json"
    record = json.loads(file.read_text())
    del record["range"]
    file.write_text(json.dumps({**record, "interval": {"score": [1.0, 2.0]}}))
    entry = small(folder, ("bc",)).entries[0]
    assert entry.interval is None
    assert entry.spread == entry.range == [min(entry.values), max(entry.values)]


# -- how long -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_agent_gets_the_same_number_of_updates_in_all(name: str) -> None:
    numbered = not ALGORITHMS[name].continuous
    planned = plan(name, "hopper-medium-replay")
    short = with_total_updates(planned, 6_000)
    if not numbered:
        spec = waypost.agents.agent.Spec(3, 1, (-1.0,), (1.0,))
        total = sum(stage.steps for stage in ALGORITHMS[name].load()(short.config, spec, short.steps).stages)
        assert total == pytest.approx(6_000, abs=3)
    assert with_total_updates(short, 6_000).steps == pytest.approx(short.steps, abs=1)


def test_stages_and_warm_ups_keep_their_share() -> None:
    planned = plan("por", "hopper-medium-replay", preset="paper/hopper-medium-replay")
    assert (planned.steps, planned.config.behaviour_steps) == (1_000_000, 1_000_000)
    short = with_total_updates(planned, 1_000)
    assert (short.steps, short.config.behaviour_steps) == (500, 500)
    assert replace(short.config, behaviour_steps=1_000_000) == planned.config


# -- ranks ----------------------------------------------------------------------------------------------


def entry(name: str, mean: float | None, data: str = "a") -> Entry:
    return Entry(data, name, values=() if mean is None else (mean,), mean=mean)


def test_equals_share_their_rank_and_the_missing_have_none() -> None:
    ranked = _ranked([entry("a", 1.0), entry("b", 3.0), entry("c", 3.0), entry("d", None), entry("e", 2.0)])
    assert [each.rank for each in ranked] == [4, 1.5, 1.5, None, 3]


def test_only_algorithms_with_all_results_have_a_mean_rank() -> None:
    entries = [
        *_ranked([entry("x", 1.0), entry("y", 2.0), entry("z", 0.0)]),
        *_ranked([entry("x", 5.0, "b"), entry("y", 4.0, "b"), entry("z", None, "b")]),
    ]
    comparison = Comparison(("a", "b"), ("x", "y", "z"), "replica", tuple(entries))
    assert comparison.mean_ranks == {"x": 1.5, "y": 1.5}
    assert [each.algorithm for each in comparison.of("b")] == ["x", "y", "z"]
    assert "mean rank" in as_markdown(comparison)


def several(seeds: int, measure: str = "score") -> Comparison:
    """Three algorithms on two data sets; z has no result on one of them."""
    rng = np.random.default_rng(seeds)
    entries = []
    for data in ("a", "b"):
        found = []
        for name, level in (("bc", 20.0), ("x", 60.0), ("z", 10.0)):
            values = tuple((level + rng.normal(0, 5, seeds)).tolist())
            summary = {key: each for key, each in summarise(values).items() if key != "iqm"}
            missing = (data, name) == ("b", "z")
            found.append(Entry(data, name, note="no") if missing else Entry(data, name, measure, values, **summary))
        entries += _ranked(found)
    return Comparison(("a", "b"), ("bc", "x", "z"), "replica", tuple(entries))


@pytest.mark.parametrize("seeds", [3, 5])
def test_several_data_sets_are_summed_up_as_the_statistics_say(seeds: int) -> None:
    comparison = several(seeds)
    values = {
        name: {each.data: each.values for each in comparison.entries if each.algorithm == name} for name in ("bc", "x")
    }
    best, reference = comparison.overall
    assert (best.algorithm, reference.algorithm, comparison.reference) == ("x", "bc", "bc")
    assert best.interquartile_mean == statistics.aggregate_interquartile_mean(values["x"])
    assert best.optimality_gap == statistics.optimality_gap(values["x"])
    assert best.improvement == statistics.probability_of_improvement(values["x"], values["bc"])
    assert reference.improvement is None
    assert (best.interquartile_mean.interval is None) == (seeds < 5)
    levels = comparison.profiles["x"].thresholds
    assert (comparison.profiles["x"].shares == statistics.performance_profile(values["x"], levels).shares).all()
    record = json.loads(json.dumps(comparison.to_json()))["overall"]
    assert record["algorithms"][0]["interquartile_mean"]["value"] == best.interquartile_mean.value
    assert len(record["profiles"]["bc"]) == len(record["thresholds"]) == len(levels)
    text, page = as_markdown(comparison), render_comparison(comparison)
    row = f"| x | 1.0 | {best.interquartile_mean.value:.1f}"
    assert "P(better than bc)" in text
    assert "P(better than bc)" in page
    if seeds < 5:
        assert f"{row} |" in text
    else:
        low, high = best.interquartile_mean.interval or (0, 0)
        assert f"{row} ({low:.1f} to {high:.1f}) |" in text
    for shown in (text, page):
        assert ("95 % interval |" in shown or '<th scope="col">95 % interval' in shown) == (seeds >= 5)
        assert ("ange of the seeds" in shown) == (seeds < 5)
    assert "Performance profiles" in page


def test_returns_are_not_averaged_over_tasks() -> None:
    """Those of different tasks have different scales; who is better on each can still be counted."""
    comparison = several(3, "return")
    assert comparison.profiles == {}
    assert [each.interquartile_mean for each in comparison.overall] == [None, None]
    assert comparison.overall[0].improvement is not None
    assert "interquartile" not in as_markdown(comparison)


def test_without_bc_the_best_is_the_reference_and_one_data_set_has_no_sum() -> None:
    comparison = several(3)
    others = tuple(each for each in comparison.entries if each.algorithm != "bc")
    assert Comparison(("a", "b"), ("x", "z"), "replica", others).reference == "x"
    alone = tuple(each for each in comparison.entries if each.data == "a")
    assert Comparison(("a",), ("bc", "x", "z"), "replica", alone).overall == []


@pytest.mark.parametrize(("seeds", "said"), [(1, ""), (3, "range of the seeds"), (5, "95 % interval")])
def test_a_row_says_what_its_ends_are(seeds: int, said: str) -> None:
    comparison = several(seeds)
    row = next(csv.DictReader(as_csv(comparison).splitlines()))
    assert row["spread"] == said
    ends = [] if seeds == 1 else summarise(comparison.entries[0].values)["range" if seeds == 3 else "interval"]
    assert [float(row[name]) for name in ("low", "high") if row[name]] == ends
    assert comparison.header[3] == (said or "range of the seeds")


def test_a_page_without_any_result_still_says_why() -> None:
    entries = (Entry("a", "bc", note="has no <actions>"), Entry("a", BEHAVIOUR, mean=3.0))
    comparison = Comparison(("a",), ("bc",), None, entries)
    page = render_comparison(comparison)
    assert "has no &lt;actions&gt;" in page
    assert "0 algorithms on 1 data set: 0 agents" in summary(comparison)


# -- mistakes -------------------------------------------------------------------------------------------


def test_data_of_different_suites_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WaypostError, match="cannot be compared"):
        compare(["t-maze", "hopper-medium"], ["bc"], out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        (["t-maze"], {"algorithms": ["bcc"]}, "no algorithm is called 'bcc'"),
        (["t-maze", "t-maze"], {"algorithms": ["bc"]}, "share a folder"),
        (["nowhere.npz"], {"algorithms": ["bc"]}, "nowhere.npz"),
        (["t-maze", "nowhere.npz"], {"algorithms": ["bc"]}, "some of the data have a task and others have none"),
        (["t-maze"], {"algorithms": ["bc"], "settings": {"bc": {"depth": 3}}}, "depth"),
        (["t-maze"], {"algorithms": ["bc"], "settings": {"xx": {}}}, "no algorithm is called 'xx'"),
    ],
)
def test_mistakes_are_named_before_any_work(
    tmp_path: Path, data: list[str], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(WaypostError, match=words):
        compare(data, out=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_an_algorithm_that_cannot_learn_there_gets_a_note(tmp_path: Path) -> None:
    file = tmp_path / "free.npz"
    waypost.save(waypost.load("t-maze").without_rewards(), file)
    comparison = train_all(
        [file], ["bc", "bc10"], env="t-maze", out=tmp_path / "out", seeds=1, steps=5, evaluation=ONE, settings=SMALL
    )
    notes = {each.algorithm: each.note for each in comparison.entries}
    assert notes["bc"] == ""
    assert "has no rewards" in notes["bc10"]
    assert "no rewards" in notes[BEHAVIOUR]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[bc]\nhidden = [8]\ndepth = 3\n", "bc has no setting depth"),
        ("bc = 3\n", "bc is not a table"),
        ("[bc\n", "damaged or not a TOML file"),
        ("[xx]\n", "no algorithm is called 'xx'"),
        ("[bc]\nbatch_size = true\n", r"bc\.batch_size must be a whole number, got True"),
        ("[bc]\nsteps = 20.5\n", r"bc\.steps must be a whole number, got 20.5"),
        ("[bc]\nlearning_rate = inf\n", r"bc\.learning_rate must be a finite number, got inf"),
        ("[bc]\nhidden = [[8]]\n", r"bc\.hidden\[0\] must be a whole number"),
        pytest.param("x = " + "[" * 50_000, "damaged or not a TOML file", id="deep"),
        pytest.param("[bc]\nsteps = " + "9" * 5_000, "damaged or not a TOML file", id="digits"),
    ],
)
def test_a_settings_file_is_checked(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    with pytest.raises(WaypostError, match=words):
        read_settings(file)


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        ([], {}, "no data to compare on"),
        (["t-maze", ""], {}, "no data to compare on"),
        (["t-maze"], {"steps": 0}, "steps must be from 1 to 2147483647, got 0"),
        (["t-maze"], {"steps": 1.5}, "steps must be a whole number, got 1.5"),
        (["t-maze"], {"seeds": 10**9}, "seeds must be a number from 1 to 10000"),
    ],
)
def test_what_cannot_be_compared_is_refused_at_once(
    data: list[str], options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(WaypostError, match=words):
        compare(data, ["bc"], out=tmp_path / "out", **options)
    assert list(tmp_path.iterdir()) == []


def test_the_settings_that_come_with_the_examples_are_sound() -> None:
    file = Path(__file__).parents[2] / "examples" / "two-cores.toml"
    for name, table in read_settings(file).items():
        plan(name, "t-maze", **{key: tuple(v) if isinstance(v, list) else v for key, v in table.items()})


# -- the command line -----------------------------------------------------------------------------------


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*arguments: Any) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return int(stop.value.code or 0), out, err

    return run


def test_the_command_prints_tables_and_json(
    tmp_path: Path, reports: None, call: Callable[..., tuple[int, str, str]]
) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text("[bc]\nhidden = [8]\n")
    line = ["compare", "--data", "t-maze", "--algos", "bc", "--seeds", 1, "--first-seed", 5, "--steps", 10]
    line += ["--episodes", 3, "--settings", settings, "--out", tmp_path / "out", "--json"]
    code, out, err = call(*line)
    assert code == 0
    record = json.loads(out.splitlines()[-1])
    assert record["suite"] == "waypost"
    assert record["entries"][0]["algorithm"] == "bc"
    assert "mean of the data" in err
    config = json.loads((tmp_path / "out" / "t-maze" / "bc" / "config.json").read_text())
    assert config["seeds"] == [5]
    assert (tmp_path / "out" / "t-maze" / "bc" / "report.html").is_file()
    assert config["evaluation"]["episodes"] == 3
    assert config["config"]["hidden"] == [8]
    assert call(*line[:3], "--algos", "bcc", "--out", tmp_path / "b")[0] == 2
