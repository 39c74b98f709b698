"""What Python offers by name: arguments with types, and plain words for mistakes."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from samples import TINY, walk

import waypost
from waypost.errors import WaypostError
from waypost.training.plan import Plan

SMALL: dict[str, Any] = {"hidden": (4,), "batch_size": 8, "steps": 4, "preset": "none"}


def test_everything_is_listed() -> None:
    assert {"train", "evaluate", "compare", "adapt", "load", "Dataset", "Run", "__version__"} <= set(dir(waypost))
    assert all(hasattr(waypost, name) for name in dir(waypost))


@pytest.mark.parametrize("function", [waypost.train, waypost.evaluate, waypost.compare, waypost.adapt])
def test_every_argument_has_a_type_and_a_line_of_help(function: Any) -> None:
    hints, named = get_type_hints(function), inspect.signature(function).parameters
    assert set(hints) - {"return"} == set(named)
    assert function.__doc__


def test_train_takes_what_a_plan_has() -> None:
    named = inspect.signature(waypost.train).parameters
    assert {each.name for each in fields(Plan)} - {"task"} <= set(named)
    assert all(name in (waypost.train.__doc__ or "") for name in named if name != "settings")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tau": "0.7"}, "tau must be a finite number, got '0.7'"),
        (
            {"value_hidden": 256},
            "value_hidden must be a list, each a whole number, got 256; for a list of one, write (256,)",
        ),
        ({"steps": 10.5}, "steps must be a whole number, got 10.5"),
        ({"tua": 0.7}, "por has no setting 'tua'; `waypost train por --help` lists them; did you mean tau?"),
        ({"sttps": 3}, "por has no setting 'sttps'; `waypost train por --help` lists them; did you mean steps?"),
        ({"seeds": "3"}, "seeds[0] must be a whole number, got '3'"),
        ({"seeds": 2.5}, "seeds must be a whole number, got 2.5"),
        ({"env": 5}, "env must be a name or a function that makes an environment, got 5"),
        ({"env": "four-roms"}, "did you mean four-rooms?"),
        ({"config": 3}, "config must be a waypost.agents.por.Config, got 3"),
        ({"callbacks": [print]}, "callbacks must be instances of waypost.Callback"),
        ({"callbacks": print}, "callbacks must be instances of waypost.Callback"),
        ({"pipeline": "x", "reward": len}, "pipeline must be a table of names and values, got 'x'"),
    ],
)
def test_a_mistake_is_one_plain_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(WaypostError) as caught:
        waypost.train("por", walk(), **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_mistyped_algorithm_is_recognised() -> None:
    with pytest.raises(WaypostError, match=r"did you mean por\?"):
        waypost.train("porr", walk())


def test_what_is_no_run_is_not_evaluated() -> None:
    subject: Any = 5
    with pytest.raises(WaypostError, match="expected a run, its directory or a policy to evaluate, got 5"):
        waypost.evaluate(subject)


def test_one_callback_needs_no_list() -> None:
    class Counting(waypost.Callback):
        ended = 0

        def finished(self, run: waypost.Run) -> None:
            self.ended += 1

    alone = Counting()
    waypost.train("bc", walk(), callbacks=alone, **SMALL)
    assert alone.ended == 1, "also without a directory"


def test_a_whole_number_may_be_written_as_1e3() -> None:
    assert waypost.train("bc", walk(), **{**SMALL, "steps": 1e1}).plan.steps == 10


def test_objects_say_in_short_what_they_are(tmp_path: Path) -> None:
    data = walk().named("<walk>")
    assert repr(data) == "<Dataset <walk>: 60 rows, 5 episodes, 2 observations, 2 continuous actions>"
    assert "<p>Dataset &lt;walk&gt;: 60 rows" in data._repr_html_()
    run = waypost.train("bc", data, seeds=2, **SMALL)
    assert repr(run) == "<Run bc on <walk>, 4 steps, seeds 0, 1>"
    assert "<th>seed</th><th>policy_loss</th>" in run._repr_html_(), "without a simulator: no row of dashes"
    assert repr(run.policy) == "<Policy bc, seed 0: 2 observations, 2 continuous actions>"
    assert "<td>hidden</td><td>(4,)</td>" in run.policy._repr_html_()
    with pytest.raises(WaypostError, match="has no directory"):
        run.report()
    assert "&lt;walk&gt;" in run.report(tmp_path / "page.html").read_text()


def test_a_comparison_says_who_is_best(tmp_path: Path) -> None:
    protocol = waypost.Protocol(every=0, episodes=1)
    found = waypost.compare(
        "t-maze", ["bc"], out=tmp_path, seeds=1, steps=2, evaluation=protocol, settings={"bc": {"hidden": [4]}}
    )
    assert repr(found).startswith("<Comparison of bc; best: bc ")
    assert "<td>t-maze</td><td>bc</td>" in found._repr_html_()
    report = found.entries[0].run
    assert report is not None
    assert report.report() == tmp_path / "t-maze" / "bc" / "report.html"


def test_a_sweep_says_which_settings_are_best(tmp_path: Path) -> None:
    protocol = waypost.Protocol(every=0, episodes=1)
    asked = {"seeds": 1, "steps": 2, "evaluation": lambda usual: protocol, "settings": {"hidden": [4]}}
    found = waypost.sweep("bc", "t-maze", {"batch_size": [256]}, out=tmp_path, **asked)
    assert repr(found).startswith("<Sweep of bc on t-maze, 1 trials; best: batch_size=256, score ")
    assert found.best is not None
    assert (found.best.directory / "report.html").is_file()
    assert (tmp_path / "sweep.html").is_file()


def test_workers_write_the_pages_of_their_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Any] = []

    def compare(*_: Any, runner: Any, **__: Any) -> Any:
        used.append(runner)
        raise WaypostError("enough")

    monkeypatch.setattr("waypost.studies.comparison.compare", compare)
    for progress in (True, False):
        with pytest.raises(WaypostError, match="enough"):
            waypost.compare("t-maze", out=tmp_path, runner=waypost.OnRay(3), progress=progress)
    assert [(each.workers, each.watcher.__name__) for each in used] == [(3, "RunPage")] * 2


def test_what_is_no_run_no_data_and_no_reward_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("x\n1\n")
    run = waypost.train("por", walk(), steps=2, out=tmp_path / "run", **TINY)
    bare = waypost.train("por", walk(), steps=2, **TINY)
    attempts: list[tuple[Any, str]] = [
        (
            lambda: waypost.compare(walk(), ["bc"], out=tmp_path / "c"),
            "compare needs names or files of data, got a Dataset",
        ),
        (lambda: waypost.adapt(bare), "this run is in memory only; train it with out=FOLDER"),
        (lambda: waypost.adapt(5), "a run must be a waypost.Run or its directory, got 5"),
        (lambda: waypost.adapt(run, walk(), reward=5), "a reward must be a function, its name or an expression, got 5"),
        (lambda: waypost.diagnose(5), "a run must be a waypost.Run or its directory, got 5"),
        (lambda: run.policy.save(tmp_path / "log.csv"), "log.csv: is a file; a policy needs a folder of its own"),
        (lambda: walk().relabel(lambda *_: 3), "label must return waypost.Labels(rewards, terminals), got 3"),
    ]
    for attempt, message in attempts:
        with pytest.raises(WaypostError, match=re.escape(message)):
            attempt()


def test_a_run_is_diagnosed_as_its_directory_is(tmp_path: Path) -> None:
    waypost.save(walk(), tmp_path / "log.npz")
    run = waypost.train("por", tmp_path / "log.npz", steps=2, out=tmp_path / "run", **TINY)
    ones, others = (waypost.diagnose(each, states=20, neighbours=3).measures for each in (run, tmp_path / "run"))
    assert ones.keys() == others.keys()
    assert all((ones[name] == others[name]).all() for name in ones)
