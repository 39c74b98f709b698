"""Experiments whose trainings are kept in a folder of results: who comes first, and what is made of what is there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from experiments import rows

from waypost.agents import ALGORITHMS
from waypost.cli import main
from waypost.errors import DivergenceError, WaypostError
from waypost.files import write_json
from waypost.locks import alone
from waypost.studies import budget, results
from waypost.studies.paper import EXPERIMENTS, scores
from waypost.studies.paper.experiment import Context
from waypost.studies.paper.run import run
from waypost.studies.paper.scores import Score
from waypost.studies.paper.table1 import MAIN, Grid, _ours
from waypost.studies.updates import stages_of
from waypost.training.callbacks import Callback
from waypost.training.plan import Plan
from waypost.training.runs import Run, result

DATA = ["antmaze-umaze", "hopper-medium"]
SCHEMES = ("main", "more", "mix", "mix-action-free")


class Made:
    """Trains nothing: `scores` says what an algorithm gets, plus its seed; `asked` what was trained in which order."""

    def __init__(self) -> None:
        self.scores: dict[str, float] = {}
        self.asked: list[tuple[str, str, int]] = []
        self.inits: dict[Path, str | None] = {}

    def execute(self, planned: Plan[Any], data: Any, out: Path | None = None, **options: Any) -> Run:
        (seed,) = planned.seeds
        self.asked.append((planned.data, planned.algorithm, seed))
        score = self.scores.get(planned.algorithm, 20.0) + seed
        if score < 0:
            raise DivergenceError("loss is not finite")
        measures = {"return": 1.0, "success_rate": None, "episode_length": 1.0}
        every = planned.evaluation.every
        evaluations = [
            {"step": step, "seed": seed, "score": score * step / planned.steps, **measures}
            for step in range(every, planned.steps + 1, every)
        ]
        per_seed = [{"seed": seed, "score": score, **measures}]
        outcome = result(planned.algorithm, planned.data, None, planned.steps, per_seed, 60.0)
        if out is not None:
            self.inits[out] = planned.init
            about = {"algorithm": planned.algorithm, "config": {}, "fingerprint": data.fingerprint()}
            write_json(out / "config.json", about)
        options["callback"].start(planned, planned.steps, 0)
        options["callback"].advance("all", planned.steps)
        return Run(planned, {**outcome, "suite": "replica"}, [], [], evaluations, out)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, replicas: Callable[..., None]) -> Made:
    replicas(*DATA, rows=40)
    trainings = Made()
    monkeypatch.setattr(results, "execute", trainings.execute)
    monkeypatch.setattr("waypost.studies.paper.run.to_png", lambda figure: b"")

    def measure(planned: Plan[Any], dataset: Any) -> dict[str, float]:
        return {stage.name: 0.01 for stage in stages_of(planned)}

    monkeypatch.setattr(budget, "measure", measure)
    return trainings


def test_main_methods_come_first_then_their_seeds_then_the_others(made: Made, tmp_path: Path) -> None:
    run("table1", tmp_path / "out", results=tmp_path / "kept", minutes=5, data=DATA)
    algorithms = EXPERIMENTS["table1"].algorithms
    main_methods = [name for name in algorithms if name in MAIN]
    others = [name for name in algorithms if name not in MAIN]
    first = [(data, name, 0) for data in DATA for name in main_methods]
    more = [(data, name, seed) for seed in (1, 2) for data in DATA for name in main_methods]
    once = [(data, name, 0) for name in others for data in DATA if (data, name) != ("hopper-medium", "rvs-g")]
    assert made.asked == [*first, *more, *once]
    assert ("waypoint" in main_methods) == ("waypoint" in ALGORITHMS), "a method that is not there is left out"


def test_chosen_methods_get_every_seed(made: Made, tmp_path: Path) -> None:
    run("table1", tmp_path / "out", results=tmp_path / "kept", minutes=5, data=DATA[1:], algorithms=["dt"], seeds=2)
    assert made.asked == [("hopper-medium", "dt", 0), ("hopper-medium", "dt", 1)]


def test_a_method_the_paper_has_not_is_drawn_without_an_empty_panel(made: Made, tmp_path: Path) -> None:
    made.scores = {"waypoint": 50.0, "bc": 40.0}
    run("table1", tmp_path / "out", results=tmp_path / "kept", minutes=5, data=DATA, algorithms=["waypoint", "bc"])
    text = (tmp_path / "out" / "table1" / "table1.md").read_text()
    assert "Trained and evaluated here." in text
    assert "Right: as printed in the paper" not in text


def test_tables_are_made_of_what_is_there(made: Made, tmp_path: Path) -> None:
    kept, options = tmp_path / "kept", {"minutes": 5, "data": DATA}
    made.scores = {"por": 50.0, "iql": 30.0, "bc": 70.0, "cql": -9.0}
    for names, seeds in ((["por", "bc"], 3), (["iql", "cql"], 1)):
        run("table1", tmp_path / "out", results=kept, algorithms=names, seeds=seeds, **options)
    (kept / "hopper-medium" / "iql" / "0.json").unlink()
    before = len(made.asked)
    record = run("table1", tmp_path / "out", results=kept, read_only=True)
    assert len(made.asked) == before
    folder = tmp_path / "out" / "table1"
    shown = {(row["data"], row["suite"]): row for row in rows(folder, "table1")}
    umaze, hopper = shown["antmaze-umaze", "replica"], shown["hopper-medium", "replica"]
    assert (umaze["POR"], umaze["IQL"], umaze["BC"], umaze["DT"]) == (
        "51.0 (50.0 to 52.0)",
        "30.0*",
        "71.0 (70.0 to 72.0)",
        "-",
    )
    assert hopper["IQL"] == "-"
    assert hopper["best RL"] == "(CQL failed) (BCQ, BEAR, BRAC, TD3+BC -)"
    assert shown["AntMaze mean of 6", "replica"]["POR"] == "- (1 of 6)"
    assert shown["antmaze-umaze", "d4rl (paper)"]["BC"] == ""
    text = " ".join((folder / "table1.md").read_text().split())
    assert "in 5 minutes of a core" in text
    cells = 15 * len(EXPERIMENTS["table1"].algorithms) - 9  # RvS-G has no goal in locomotion
    assert f"**2 of {cells} trainings gave no result**: CQL on antmaze-umaze: loss is not finite" in text
    assert "are not trained yet**: " in text
    assert record.minutes == 5
    assert record.command == f"waypost paper table1 --minutes 5 --results {kept}"


def test_means_are_of_complete_columns_with_the_range_of_the_seeds(made: Made, tmp_path: Path) -> None:
    made.scores = {"por": 50.0, "bc": 70.0}
    options: dict[str, Any] = {"results": tmp_path / "kept", "data": DATA, "algorithms": ["por", "bc"]}
    run("table1", tmp_path / "out", minutes=5, **options)
    (tmp_path / "kept" / "hopper-medium" / "bc" / "2.json").unlink()
    run("table1", tmp_path / "out", read_only=True, **options)
    means = {row["method"]: row for row in rows(tmp_path / "out" / "table1", "means")}
    assert means["POR"]["AntMaze (1)"] == means["POR"]["overall (2)"] == "51.0 (50.0 to 52.0)"
    assert means["BC"]["overall (2)"] == "70.5 (70.0 to 71.0)", "two seeds are there on every data set"
    assert (means["POR"]["seeds"], means["BC"]["seeds"]) == ("3", "2 to 3")
    assert means["POR"]["updates"] == "30000"  # 0.01 s each
    for file in (tmp_path / "kept" / "hopper-medium" / "bc").iterdir():
        file.unlink()
    run("table1", tmp_path / "out", read_only=True, **options)
    means = {row["method"]: row for row in rows(tmp_path / "out" / "table1", "means")}
    assert means["BC"]["overall (2)"] == "- (1 of 2)"


def test_waypoint_is_compared_with_all_columns() -> None:
    given = {("antmaze-umaze", "waypoint"): 90.0, ("antmaze-umaze", "por"): 70.0, ("antmaze-umaze", "bc"): 80.0}
    given |= {("hopper-medium", "waypoint"): 50.0, ("hopper-medium", "por"): 60.0}
    scores = [Score(data, name, (value,)) for (data, name), value in given.items()]
    text = " ".join(_ours(Grid(DATA, ["BC", "POR", "Waypoint"], scores)).split())
    assert "first on **1 of 2** data sets (antmaze-umaze) of all columns" in text
    assert "AntMaze 90.0, the best other column 80.0 (BC)" in text
    assert "Locomotion 50.0, the best other column 60.0 (POR)" in text
    assert "all 70.0, the best other column 65.0 (POR)" in text


def test_curves_and_sparse_read_the_trainings_of_the_table(made: Made, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    made.scores = {"por": 50.0, "iql": 30.0}
    run("table1", tmp_path / "out", results=kept, minutes=5, data=DATA, algorithms=["por", "iql"], seeds=2)
    before = list(made.asked)
    run("curves", tmp_path / "out", results=kept, data=DATA, seeds=2)
    assert made.asked == before
    folder = tmp_path / "out" / "curves"
    assert "minutes of a core" in (folder / "curves-antmaze.svg").read_text()
    assert "ahead of IQL on **2 of 2**" in (folder / "curves.md").read_text()
    for read_only, announced in ((False, 4), (True, 0)):
        notes: list[str] = []
        said = Callback()
        said.note = notes.append  # type: ignore[method-assign]
        run("curves", tmp_path / "out", results=kept, data=DATA, seeds=2, read_only=read_only, callback=said)
        assert sum(note.startswith("training ") for note in notes) == announced
    run("sparse", tmp_path / "out", results=kept, data=DATA[:1], seeds=2, read_only=True)
    (_, missing) = rows(tmp_path / "out" / "sparse", "sparse")
    assert (missing["here (replica)"], missing["note"]) == ("-", "not trained yet")
    run("sparse", tmp_path / "out", results=kept, data=DATA[:1], seeds=2)
    assert made.asked == [*before, ("antmaze-umaze", "por", 0), ("antmaze-umaze", "por", 1)]
    assert sorted(path.name for path in (kept / "antmaze-umaze").iterdir()) == ["iql", "por", "por-sparse"]


def test_trainings_on_different_recordings_are_said_to_be_so(made: Made, tmp_path: Path) -> None:
    options: dict[str, Any] = {"results": tmp_path / "kept", "data": DATA[1:], "algorithms": ["por", "bc"]}
    assert "same recording" not in run("table1", tmp_path / "out", minutes=5, **options).text
    file = tmp_path / "kept" / "hopper-medium" / "bc" / "1.json"
    write_json(file, json.loads(file.read_text()) | {"fingerprint": "other", "cpu": "other"})
    text = run("table1", tmp_path / "out", **options).text
    assert "Not all trainings on hopper-medium had the same recording of the data." in text


def test_donors_are_trained_for_those_who_are_missing(
    made: Made, replicas: Callable[..., None], tmp_path: Path
) -> None:
    replay = "hopper-medium-replay"
    replicas(replay, rows=100)
    options: dict[str, Any] = {"results": tmp_path / "kept", "data": [replay], "algorithms": ["por"], "seeds": 1}
    record = run("extra-data", tmp_path / "out", steps=8, evaluation={"every": 4}, **options)
    main, more, mix, free = (tmp_path / "kept" / replay / f"por-{name}" / "0.json" for name in SCHEMES)
    assert all(file.is_file() for file in (main, more, mix, free))
    place = tmp_path / "out" / "extra-data" / "runs" / "full" / replay / "por-main" / "seed-0"
    assert set(made.inits) == {place}, "only the donor leaves a run directory"
    assert json.loads(mix.read_text())["donor"] == json.loads(main.read_text())["identity"]
    before = len(made.asked)
    assert run("extra-data", tmp_path / "out", **options).text == record.text
    assert len(made.asked) == before
    mix.unlink()
    run("extra-data", tmp_path / "out", **options)
    assert len(made.asked) == before + 2, "the donor, which would be read were it real, and the mix"


@pytest.mark.parametrize("name", ["extra-data", "ablation"])
def test_fewer_seeds_and_data_sets_than_usual_can_be_read(
    name: str, made: Made, replicas: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    replay = "hopper-medium-replay"
    replicas(replay, rows=100)
    kept, out = tmp_path / "kept", tmp_path / "out"
    run(name, out, results=kept, data=[replay], algorithms=["por"] if name == "extra-data" else [], seeds=2, steps=8)
    loaded: list[str] = []
    load = scores.load_data

    def noted(context: Context, data: str) -> Any:
        loaded.append(data)
        return load(context, data)

    monkeypatch.setattr(scores, "load_data", noted)
    before = len(made.asked)
    text = run(name, out, results=kept, read_only=True).text
    assert len(made.asked) == before
    assert loaded == [replay], "what has no result is not loaded"
    assert ("POR main 20.5 (20.0 to 21.0);" in " ".join(text.split())) == (name == "extra-data")
    there = [row for row in rows(out / name, "scores") if row["mean"]]
    assert {row["values"] for row in there} == {"20 21"}
    if name == "ablation":
        (kept / replay / "executor-512-40" / "0.json").unlink()
        (kept / replay / "executor-512-40" / "1.json").unlink()
        text = " ".join(run(name, out, results=kept, read_only=True).text.split())
        assert "big executor: no result, not every training is there yet (paper" in text
    with pytest.raises(WaypostError, match="kept: holds no results of walker2d-medium-replay; train some without"):
        run(name, out, results=kept, data=["walker2d-medium-replay"], read_only=True)


def test_two_processes_share_the_work(made: Made, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with alone(kept / "hopper-medium" / "por" / "0.json"):  # as another process does while it trains
        run("table1", tmp_path / "out", results=kept, minutes=5, data=DATA[1:], algorithms=["por", "bc"], seeds=1)
    assert made.asked == [("hopper-medium", "bc", 0)]
    assert rows(tmp_path / "out" / "table1", "table1")[0]["POR"] == "-"


def test_a_real_training_by_the_command_line(
    replicas: Callable[..., None],
    cheap_evaluations: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    replicas("hopper-medium-20000")
    monkeypatch.setattr("waypost.training.speed.cores", lambda: 1)
    monkeypatch.setattr("waypost.training.speed.CHUNK", 2)
    settings = tmp_path / "settings.toml"
    settings.write_text("[bc10]\nhidden = [8]\nbatch_size = 16\n")
    words = ["paper", "table1", "--quick", "--data", "hopper-medium", "--algos", "bc10"]
    words += ["--results", str(tmp_path / "kept"), "--out", str(tmp_path / "out"), "--json"]
    outputs = []
    for more in (["--minutes", "1e-6", "--settings", str(settings)], ["--read-only"]):
        with pytest.raises(SystemExit) as stop:
            main([*words, *more])
        assert stop.value.code == 0
        outputs.append(json.loads(capfd.readouterr().out.splitlines()[-1]))
    assert outputs[0]["text"] == outputs[1]["text"]
    record = json.loads((tmp_path / "kept" / "hopper-medium-20000" / "bc10" / "0.json").read_text())
    assert record["plan"]["config"]["hidden"] == [8]
    assert len(record["evaluations"]) == 4
    assert record["final"]["score"] == pytest.approx(sum(each["score"] for each in record["evaluations"][-2:]) / 2)
    assert not (tmp_path / "out" / "table1" / "runs").exists()


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("table1", {"minutes": 5}, "--minutes needs a folder; name it with --results"),
        ("table1", {"read_only": True}, "--read-only needs a folder"),
        ("table1", {"results": "kept", "minutes": 5, "steps": 3}, "--minutes and --steps both set the length"),
        ("table1", {"results": "kept", "minutes": 0}, "minutes must be in"),
        ("table1", {"results": "kept", "runs": "runs"}, "choose one"),
        ("table1", {"results": "kept", "read_only": True}, "holds no results"),
        ("bound", {"results": "kept"}, "bound: needs the trained agents"),
        ("stitching", {"minutes": 5}, "stitching: trains nothing"),
    ],
)
def test_options_that_do_not_go_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, options: dict[str, Any], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WaypostError, match=words) as error:
        run(name, tmp_path / "out", **options)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())
