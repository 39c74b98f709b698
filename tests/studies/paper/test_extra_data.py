"""Additional data: which rows each part of an agent learns from under each scheme, and what is said of the mix."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from experiments import rows

import waypost
from waypost.agents.por import POR
from waypost.data.rewards import learning_rewards
from waypost.errors import WaypostError
from waypost.studies.paper import extra_data
from waypost.studies.paper.experiment import Context
from waypost.studies.paper.extra_data import FREE, MAIN, MIX, MORE, parts
from waypost.studies.paper.run import run
from waypost.training.plan import plan
from waypost.training.runs import load_run

HOPPER = "hopper-medium-replay"


def test_each_part_sees_the_rows_its_scheme_says(replicas: Callable[..., None]) -> None:
    replicas(HOPPER)
    dataset = waypost.load(HOPPER)
    inner, outer = dataset.observations[60:140], dataset.observations[40:160]
    given = parts(dataset)
    for scheme, guide, executor in (
        (MAIN, inner, inner),
        (MORE, outer, outer),
        (MIX, outer, inner),
        (FREE, outer, inner),
    ):
        assert np.array_equal(given[scheme].guide.observations, guide)
        assert np.array_equal(given[scheme].executor.observations, executor)
        assert given[scheme].executor.actions is not None
        assert (given[scheme].guide.actions is None) == (scheme == FREE)
        assert np.array_equal(
            given[scheme].guide.rewards, dataset.rewards[40:160] if len(guide) > 80 else dataset.rewards[60:140]
        )
        assert given[scheme].guide.task == given[scheme].executor.task == HOPPER


def test_a_mix_learns_the_same_with_and_without_the_actions_of_the_additional_data(
    replicas: Callable[..., None],
) -> None:
    replicas(HOPPER)
    given = parts(waypost.load(HOPPER))
    config = plan("por", HOPPER, training="guide").config
    scaled = [learning_rewards(given[scheme].guide, "return-range", config.discount) for scheme in (MIX, FREE)]
    mix, free = (POR.prepare(config, dataset)[0] for dataset in scaled)
    assert list(mix) == list(free)
    assert all(np.array_equal(mix[name], free[name]) for name in mix)


@pytest.mark.slow
def test_a_mix_keeps_the_executor_of_main_and_needs_no_actions(
    replicas: Callable[..., None], cheap_evaluations: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicas(HOPPER)
    monkeypatch.setitem(extra_data.SCHEMES, "por", (MAIN, FREE))

    def again() -> dict[Path, int]:
        run("extra-data", tmp_path, seeds=1, steps=2, data=[HOPPER], algorithms=["por"])
        return {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")}

    stamps = again()
    folder = tmp_path / "extra-data"
    place = folder / "runs" / "full" / HOPPER
    main, free = (load_run(place / name / "seed-0") for name in ("por-main", "por-mix-action-free"))
    given = parts(waypost.load(HOPPER).named(HOPPER, HOPPER))
    for each, scheme in ((main, MAIN), (free, FREE)):
        config = json.loads((each.directory / "config.json").read_text())
        assert config["fingerprint"] == given[scheme].guide.fingerprint()
        assert config["config"]["training"] == ("joint" if scheme == MAIN else "guide")
        assert config["preset"] == HOPPER
    assert same(free, main, "executor")
    assert not same(free, main, "guide_part")
    assert not same(free, main, "value_part")
    table = rows(folder, "extra-data")
    assert [(row["scheme"], row["guide_rows"], row["executor_rows"]) for row in table] == [
        (MAIN, "80", "80"),
        (FREE, "120", "80"),
    ]
    assert table[0]["mean"] != table[1]["mean"]
    assert [row["guide_has_actions"] for row in rows(folder, "scores")] == ["true", "false"]
    text = " ".join((folder / "extra-data.md").read_text().split())
    assert f"POR main {float(table[0]['mean']):.1f}; POR mix, action-free {float(table[1]['mean']):.1f}" in text
    assert again() == stamps


def same(one: Any, other: Any, part: str) -> bool:
    leaves = [jax.tree.leaves(getattr(run.policy.agent, part)) for run in (one, other)]
    return all(np.array_equal(a, b) for a, b in zip(*leaves, strict=True))


def test_other_rows_are_noticed(
    replicas: Callable[..., None], made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run directory that was trained on other rows is no result of this scheme."""
    replicas(HOPPER)
    (tmp_path / "config.json").write_text('{"algorithm": "td3bc", "config": {}, "fingerprint": "other"}')

    def train(self: Context, algorithm: str, data: Any, **options: Any) -> Any:
        return made(algorithm, HOPPER, [50.0], directory=tmp_path)

    monkeypatch.setattr(Context, "train", train)
    with pytest.raises(WaypostError, match="was trained on other rows than hopper-medium-replay 30-70 %"):
        run("extra-data", tmp_path / "out", data=[HOPPER], algorithms=["td3bc"])


# -- made up -----------------------------------------------------------------------------------------


@pytest.fixture
def scored(replicas: Callable[..., None], made: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """`give(algorithm, scheme)` says each score."""
    replicas(HOPPER, "walker2d-medium-replay")

    def install(give: Callable[[str, str], float]) -> None:
        def train(context: Context, data: str, given: Any, algorithm: str, scheme: str) -> list[Any]:
            return [made(algorithm, data, [give(algorithm, scheme)]) for _ in range(context.size.seeds)]

        monkeypatch.setattr(extra_data, "_train", train)

    return install


def test_the_papers_order_is_recognised(scored: Any, tmp_path: Path) -> None:
    scored(lambda algorithm, scheme: {MIX: 99.0, FREE: 99.0, MAIN: 40.0, MORE: 60.0}[scheme])
    run("extra-data", tmp_path, seeds=2)
    folder = tmp_path / "extra-data"
    text = " ".join((folder / "extra-data.md").read_text().split())
    assert text.count("The mix is ahead of the best other scheme, POR more, as in the paper.") == 2
    assert text.count("The paper reports 99 for the mix.") == 1
    assert text.count("the mix has the same scores for every seed") == 2
    table = [(row["data"], row["algorithm"], row["scheme"]) for row in rows(folder, "extra-data")]
    schemes = [("POR", s) for s in (MAIN, MORE, MIX, FREE)] + [(a, s) for a in ("TD3+BC", "CQL") for s in (MAIN, MORE)]
    assert table == [(data, *each) for data in (HOPPER, "walker2d-medium-replay") for each in schemes]
    assert {"extra-data.png", "curves.svg", "curves.csv"} <= {path.name for path in folder.iterdir()}


def test_another_order_and_a_failure_are_said(scored: Any, tmp_path: Path) -> None:
    def give(algorithm: str, scheme: str) -> float:
        if (algorithm, scheme) == ("cql", MORE):
            raise WaypostError("critic_loss is nan")
        return {MIX: 30.0, FREE: 35.0}.get(scheme, 40.0 if algorithm == "td3bc" else 20.0)

    scored(give)
    run("extra-data", tmp_path, seeds=1, data=[HOPPER])
    text = " ".join((tmp_path / "extra-data" / "extra-data.md").read_text().split())
    assert "The mix is not ahead of the best other scheme, TD3+BC main, unlike in the paper" in text
    assert text.count("Checked on") == 1
    assert "Without the actions of the additional data the mix has 35.0." in text
    assert "**1 of 8 trainings gave no result**: CQL more on hopper-medium-replay: critic_loss is nan." in text
    assert rows(tmp_path / "extra-data", "extra-data")[-1]["note"] == "critic_loss is nan"
