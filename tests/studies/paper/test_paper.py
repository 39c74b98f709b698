"""The experiments of the paper as a whole: what is written, what is replaced, what is refused."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from experiments import rows

import waypost
from waypost.api import paper as run
from waypost.cli import main
from waypost.data.sources import recipe_of
from waypost.envs.tasks import Protocol
from waypost.errors import InterruptedRun, WaypostError
from waypost.figures import new_figure
from waypost.files import write_bytes
from waypost.studies.paper import EXPERIMENTS, experiment, run as module
from waypost.studies.paper.experiment import Context, Drawing, Experiment, Outcome, Size, Table, over_seeds
from waypost.studies.paper.run import finished, read_record
from waypost.training.callbacks import Callback

SMALL: dict[str, Any] = {"hidden": (8,), "evaluation": Protocol(every=0, episodes=2), "log_every": 10}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A second experiment; what it does can be changed."""

    def do(context: Context) -> Outcome:
        numbers = [{"seed": seed, "score": seed / 3} for seed in context.each(range(context.size.seeds), "seeds")]
        figure = new_figure(2, 2)
        figure.add_subplot().plot([row["score"] for row in numbers])
        return Outcome(
            f"Tried **{len(numbers)}** times, <b>no</b> tags.",
            {"line": Drawing(figure, "A line & more.", "A line.")},
            {"scores": Table(numbers, "Scores.", shown=True), "more": Table(numbers, "More.")},
        )

    fake = ModuleType("waypost.studies.paper.fake_one")
    fake.run = do  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "waypost.studies.paper.fake_one", fake)
    made = Experiment("fake-one", "Another", "Table 9", "It is so.", Size(2, 20), Size(3))
    monkeypatch.setitem(EXPERIMENTS, "fake-one", made)
    return fake


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


class Page(HTMLParser):
    """The tags and links of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [str(value) for name, value in attrs if name in ("href", "src") and tag in ("a", "img", "link")]


# -- files -------------------------------------------------------------------------------------------


def test_an_experiment_leaves_its_files_and_joins_the_page(fake: ModuleType, tmp_path: Path) -> None:
    record = run("fake-one", tmp_path, quick=True)
    folder = tmp_path / "fake-one"
    expected = {"fake-one.md", "line.png", "line.svg", "scores.csv", "scores.json", "more.csv", "more.json"}
    assert names(folder) == expected | {"record.json"}
    assert set(record.files) == expected
    assert (folder / "line.png").read_bytes()[:4] == b"\x89PNG"
    assert (folder / "line.svg").read_text().startswith("<svg")
    kept = json.loads((folder / "scores.json").read_text())
    read = rows(folder, "scores")
    assert [(row["seed"], row["score"]) for row in kept] == [(int(r["seed"]), float(r["score"])) for r in read]
    text = (folder / "fake-one.md").read_text()
    assert "# Another" in text
    assert "> The paper (Table 9): It is so." in text
    assert "| 1 | 0.3333 |" in text
    assert "`waypost paper fake-one --quick`, quick form, 2 seeds, 20 steps" in text
    assert (record.quick, record.seeds, record.steps) == (True, 2, 20)

    run("stitching", tmp_path, seeds=3)
    text = (tmp_path / "paper.html").read_text()
    assert f"2 of {len(EXPERIMENTS)} experiments, 1 of them quick" in text
    assert "Tried <strong>2</strong> times, &lt;b&gt;no&lt;/b&gt; tags." in text
    assert text.index('id="stitching"') < text.index('id="fake-one"')
    page = Page(text)
    assert page.tags.count("svg") == 2
    assert page.tags.count("table") == 2
    files = [link for link in page.links if not link.startswith("#")]
    assert {"fake-one/scores.csv", "stitching/stitching.png", "stitching/record.json"} <= set(files)
    for link in files:
        assert (tmp_path / link).is_file()


def test_a_new_run_takes_the_place_of_the_old(fake: ModuleType, tmp_path: Path) -> None:
    run("fake-one", tmp_path, quick=True)
    before = fake.run
    (tmp_path / "fake-one" / "notes.txt").write_text("mine")

    def fewer(context: Context) -> Outcome:
        outcome = before(context)
        return replace(outcome, tables={"scores": outcome.tables["scores"]})

    fake.run = fewer  # type: ignore[attr-defined]
    record = run("fake-one", tmp_path)
    assert not record.quick
    assert names(tmp_path / "fake-one") == {*record.files, "record.json", "notes.txt"}
    assert "more.csv" not in (tmp_path / "paper.html").read_text()
    assert "Tried <strong>3</strong> times" in (tmp_path / "paper.html").read_text()
    with pytest.raises(WaypostError, match="holds the full form"):
        run("fake-one", tmp_path, quick=True)
    assert read_record(tmp_path / "fake-one") == record


def test_what_is_not_as_usual_is_said(
    fake: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., tuple[int, str, str]]
) -> None:
    chosen = replace(EXPERIMENTS["fake-one"], data=("hopper-medium", "walker2d-medium"), algorithms=("por", "iql"))
    monkeypatch.setitem(EXPERIMENTS, "fake-one", chosen)
    for options, said in (
        ({}, "full form, 3 seeds, "),
        ({"seeds": 1}, "full form, 1 seed instead of 3, "),
        ({"steps": 7}, "full form, 3 seeds, 7 steps instead of the presets', "),
        ({"data": ["hopper-medium"]}, "full form, 3 seeds, 1 of 2 data sets, "),
    ):
        run("fake-one", tmp_path, **options)
        assert f"`, {said}" in (tmp_path / "fake-one" / "fake-one.md").read_text()
    run("fake-one", tmp_path / "b", quick=True, steps=7, algorithms=["iql"])
    said = "quick form, 2 seeds, 1 of 2 algorithms, 7 steps instead of 20, "
    assert said in (tmp_path / "b" / "fake-one" / "fake-one.md").read_text()
    listed = json.loads(call("paper", "list", "--out", tmp_path / "b", "--json")[1])
    assert listed[-1]["form"] == "quick, 1 of 2 algorithms, 7 steps instead of 20"


def test_an_experiment_may_have_a_default_among_its_algorithms(
    fake: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = replace(EXPERIMENTS["fake-one"], algorithms=("por", "waypoint"), default_algorithms=("por",))
    monkeypatch.setitem(EXPERIMENTS, "fake-one", chosen)
    for given, said in (
        ([], ""),
        (["por"], ""),
        (["waypoint"], "waypoint instead of por, "),
        (["por", "waypoint"], "por and waypoint instead of por, "),
    ):
        record = run("fake-one", tmp_path, algorithms=given)
        assert record.algorithms == (given or ["por"])
        assert f"`, full form, 3 seeds, {said}0." in (tmp_path / "fake-one" / "fake-one.md").read_text()
    with pytest.raises(WaypostError, match="has no iql among its algorithms; choose from por, waypoint"):
        run("fake-one", tmp_path, algorithms=["iql"])
    assert module.changes(replace(record, algorithms=[])) == []  # written before there was a choice


def test_the_quick_form_records_and_evaluates_less(
    fake: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fewer steps of recording and seeds of rollouts, where there is something to record."""
    chosen = replace(
        EXPERIMENTS["fake-one"], data=("hopper-medium", "walker2d-medium", "t-maze"), quick=Size(2, 20, 300, 4)
    )
    monkeypatch.setitem(EXPERIMENTS, "fake-one", chosen)
    seen: list[tuple[tuple[str, ...], int]] = []
    before = fake.run

    def look(context: Context) -> Outcome:
        seen.append((context.data, context.evaluation(Protocol(episodes=9)).episodes))
        return before(context)

    fake.run = look  # type: ignore[attr-defined]
    record = run("fake-one", tmp_path, quick=True)
    assert record.data == ["hopper-medium-300", "walker2d-medium-300", "t-maze"]
    assert (record.recorded, record.episodes) == (300, 4)
    assert record.command == "waypost paper fake-one --quick"
    said = "quick form, 2 seeds, 20 steps, replicas of 300 transitions, 4 rollouts, "
    assert said in (tmp_path / "fake-one" / "fake-one.md").read_text()
    record = run("fake-one", tmp_path, quick=True, data=["walker2d-medium-v2", "hopper-medium-50"])
    assert record.data == ["walker2d-medium-v2", "hopper-medium-50"]
    record = run("fake-one", tmp_path, quick=True, evaluation={"episodes": 7})
    assert record.command == "waypost paper fake-one --quick --episodes 7"
    assert "4 rollouts" not in (tmp_path / "fake-one" / "fake-one.md").read_text()
    run("fake-one", tmp_path)
    assert seen == [
        (("hopper-medium-300", "walker2d-medium-300", "t-maze"), 4),
        (("walker2d-medium-v2", "hopper-medium-50"), 4),
        (("hopper-medium-300", "walker2d-medium-300", "t-maze"), 7),
        (("hopper-medium", "walker2d-medium", "t-maze"), 9),
    ]
    assert "rollouts" not in (tmp_path / "fake-one" / "fake-one.md").read_text()


def test_what_is_interrupted_while_writing_counts_as_unfinished(
    fake: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("fake-one", tmp_path, quick=True)
    page = (tmp_path / "paper.html").read_text()

    def stop(path: Path, content: bytes) -> None:
        if path.suffix == ".svg":
            raise KeyboardInterrupt
        write_bytes(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_bytes", stop)
        with pytest.raises(KeyboardInterrupt):
            run("fake-one", tmp_path)
    assert finished(tmp_path) == {}
    assert not [name for name in names(tmp_path / "fake-one") if name.startswith(".")]
    assert (tmp_path / "paper.html").read_text() == page
    assert list(finished(tmp_path)) == []
    run("fake-one", tmp_path)
    assert list(finished(tmp_path)) == ["fake-one"]


def test_an_experiment_that_fails_leaves_the_old_result(fake: ModuleType, tmp_path: Path) -> None:
    record = run("fake-one", tmp_path, quick=True)

    def fail(context: Context) -> Outcome:
        raise WaypostError("no")

    fake.run = fail  # type: ignore[attr-defined]
    with pytest.raises(WaypostError):
        run("fake-one", tmp_path)
    assert read_record(tmp_path / "fake-one") == record


def test_a_record_nobody_can_read_is_none(tmp_path: Path) -> None:
    (tmp_path / "stitching").mkdir()
    for text in ("{", "[]", '{"name": "stitching"}'):
        (tmp_path / "stitching" / "record.json").write_text(text)
        assert finished(tmp_path) == {}
    run("stitching", tmp_path, seeds=2)
    assert list(finished(tmp_path)) == ["stitching"]
    record = json.loads((tmp_path / "stitching" / "record.json").read_text())
    outside = {"../../other": {"caption": "", "shown": False}}
    for change in ({"name": "bound"}, {"tables": outside}, {"tables": {"a": {}}}, {"seeds": "2"}):
        (tmp_path / "stitching" / "record.json").write_text(json.dumps(record | change))
        assert finished(tmp_path) == {}


# -- trainings ---------------------------------------------------------------------------------------


class Watched(Callback):
    """Remembers what was begun, and asks to stop when told so."""

    def __init__(self, stop: bool = False):
        self.begun: list[int] = []
        self.notes: list[str] = []
        self.asks = stop

    def start(self, plan: Any, total: int, done: int) -> None:
        self.begun.append(done)

    def advance(self, stage: str, step: int) -> None:
        if self.asks:
            os.kill(os.getpid(), signal.SIGTERM)

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.slow
def test_a_training_goes_on_where_it_stopped_and_is_read_once_finished(fake: ModuleType, tmp_path: Path) -> None:
    def do(context: Context) -> Outcome:
        trained = context.train("bc", "t-maze", **SMALL)
        rows = [{"seed": each["seed"], "score": each["score"]} for each in trained.result["per_seed"]]
        return Outcome("Trained.", tables={"scores": Table(rows, "Scores.")})

    fake.run = do  # type: ignore[attr-defined]
    with pytest.raises(InterruptedRun) as stop:
        run("fake-one", tmp_path, quick=True, steps=30, callbacks=[Watched(stop=True)])
    assert stop.value.step == 10
    assert finished(tmp_path) == {}
    again, once_more = Watched(), Watched()
    run("fake-one", tmp_path, quick=True, steps=30, callbacks=[again])
    assert again.begun == [10]
    place = tmp_path / "fake-one" / "runs" / "quick" / "t-maze" / "bc"
    assert json.loads((place / "config.json").read_text())["seeds"] == [0, 1]
    scores = (tmp_path / "fake-one" / "scores.csv").read_text()
    run("fake-one", tmp_path, quick=True, steps=30, callbacks=[once_more])
    assert once_more.begun == []
    assert "already finished" in once_more.notes[-1]
    assert (tmp_path / "fake-one" / "scores.csv").read_text() == scores
    with pytest.raises(WaypostError, match="was started with steps = 30, got 20"):
        run("fake-one", tmp_path, quick=True)


def test_settings_evaluations_and_runs_of_a_comparison_are_taken_over(
    fake: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `compare` has trained is read; what the experiment sets itself stays as it is."""

    def do(context: Context) -> Outcome:
        found = [context.train("bc", "t-maze"), context.train("bc", "t-maze", label="own", hidden=(4,), log_every=10)]
        rows = [{"hidden": str(each.plan.config.hidden), "score": each.result["mean"]["score"]} for each in found]
        return Outcome("Trained.", tables={"scores": Table(rows, "Scores.", shown=True)})

    fake.run = do  # type: ignore[attr-defined]
    monkeypatch.chdir(tmp_path)
    Path("few.toml").write_text("[bc]\nhidden = [8]\nbatch_size = 16\n")
    options: dict[str, Any] = {"seeds": 1, "steps": 20}
    protocol = {"every": 10, "episodes": 2}
    waypost.compare(
        ["t-maze"],
        ["bc"],
        out="both",
        settings={"bc": {"hidden": [8], "batch_size": 16}},
        evaluation=lambda usual: replace(usual, **protocol),
        **options,
    )
    watched = Watched()
    record = run(
        "fake-one", "out", settings="few.toml", runs="both", evaluation=protocol, callbacks=[watched], **options
    )
    assert watched.begun == [0]
    assert [row["hidden"] for row in rows(tmp_path / "out" / "fake-one", "scores")] == ["(8,)", "(4,)"]
    own = json.loads(Path("both/own/config.json").read_text())
    assert (own["config"]["batch_size"], own["evaluation"]["every"], own["evaluation"]["episodes"]) == (16, 10, 2)
    assert record.command == (
        "waypost paper fake-one --seeds 1 --steps 20 --settings few.toml --runs both --evaluate-every 10 --episodes 2"
    )
    assert record.settings == {"bc": {"hidden": [8], "batch_size": 16}}
    seconds = [json.loads(Path(f"both/{name}/result.json").read_text())["seconds"] for name in ("t-maze/bc", "own")]
    assert record.training == pytest.approx(sum(seconds), abs=0.01)
    written = Path("out/fake-one/fake-one.md").read_text()
    assert "20 steps instead of the presets', settings that override the presets of bc, " in written
    assert "s of training in all" in written


# -- mistakes and the command line -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("stich", {}, "there is no experiment 'stich'; choose from stitching"),
        ("stitching", {"steps": 5}, "steps cannot be chosen"),
        ("stitching", {"seeds": 0}, "seeds must be at least 1, got 0"),
        ("stitching", {"evaluation": {"every": 5}}, "settings, runs and evaluations cannot be chosen"),
        ("bound", {"evaluation": {"every": -1}}, "evaluation every must be at least 0, got -1"),
        ("bound", {"settings": "nowhere.toml"}, "nowhere.toml: there is no such file"),
    ],
)
def test_mistakes_are_named_before_any_work(tmp_path: Path, name: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(WaypostError, match=words):
        run(name, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(WaypostError, match="choose another --out"):
        run("stitching", tmp_path / "out")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_described(name: str) -> None:
    each = experiment(name)
    assert each.name == name
    assert each.claim.endswith(".")
    assert each.quick.seeds <= each.full.seeds
    assert each.trains == (name != "stitching")
    assert (each.full.recorded, each.full.episodes) == (None, None)
    assert set(each.usual_algorithms) <= set(each.algorithms)
    assert (each.quick.recorded is not None) == any(recipe_of(data)[0].transitions for data in each.data)


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def line(*arguments: Any) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return int(stop.value.code or 0), out, err

    return line


def test_the_commands(tmp_path: Path, call: Callable[..., tuple[int, str, str]]) -> None:
    out = tmp_path / "out"
    code, listed, _ = call("paper", "list", "--out", out, "--json")
    assert code == 0
    assert [(each["name"], each["form"]) for each in json.loads(listed)] == [(name, None) for name in EXPERIMENTS]
    code, printed, err = call("paper", "stitching", "--quick", "--seeds", 3, "--out", out, "--json")
    assert code == 0
    record = json.loads(printed.splitlines()[-1])
    assert record == json.loads((out / "stitching" / "record.json").read_text())
    assert record["command"] == "waypost paper stitching --quick --seeds 3"
    assert "paper.html" in err
    code, listed, _ = call("paper", "list", "--out", out)
    assert code == 0
    assert "stitching" in listed
    assert "quick" in listed
    code, printed, err = call("paper", "stich", "--out", tmp_path / "b")
    assert (code, printed, err.count("\n")) == (2, "", 1)
    assert "choose from stitching" in err
    assert call("paper", "--help")[0] == 0


def test_means_over_seeds_are_of_those_that_have_the_number() -> None:
    rows = [
        {"data": "a", "kind": "x", "seed": 0, "steps": 5, "score": 1, "length": None},
        {"data": "a", "kind": "x", "seed": 1, "steps": 5, "score": 2, "length": 8.0},
        {"data": "a", "kind": "y", "seed": 0, "steps": 7, "score": 4, "length": None},
    ]
    assert over_seeds(rows, ("data", "kind"), ("steps",)) == [
        {"data": "a", "kind": "x", "seeds": 2, "steps": 5, "score": 1.5, "length": 8.0},
        {"data": "a", "kind": "y", "seeds": 1, "steps": 7, "score": 4.0, "length": None},
    ]
